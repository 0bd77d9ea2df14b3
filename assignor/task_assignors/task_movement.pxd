# The C types of task_movement.py, for those who compile it.
cimport cython

from assignor.task_assignors.constrained_priority_set cimport ConstrainedPrioritySet
from assignor.task_assignors.working_state cimport WorkingState

cdef class LagRanking:
    cdef readonly list reported
    cdef readonly list unreported
    cdef readonly Py_ssize_t client_count
    cdef readonly long long acceptable_recovery_lag
    cdef readonly list caught_up

    @cython.locals(reported=dict, caught_up=list, acceptable="long long", lag="long long")
    cpdef list caught_up_clients(self, Py_ssize_t task)

    @cython.locals(reported=dict, caught_up=list, acceptable="long long")
    cpdef list caught_up_instead_of(self, task, client)

cdef class WarmUpBudget:
    cdef readonly object remaining
    cpdef bint take(self) except -1

@cython.locals(reported=list, movements=list, lags_of_task=dict)
cdef list _active_movements(LagRanking lags, list owners, list kept)

@cython.locals(counts=list)
cdef list _fewest_caught_up_first(LagRanking lags, list tasks)

@cython.locals(owners=list, standbys=list, caught_up_on=list, caught_up=list, decided=list, queue=ConstrainedPrioritySet)
cdef list _move_active(WorkingState state, LagRanking lags, WarmUpBudget budget, list movements)

@cython.locals(movements=list)
cdef list _standby_movements(WorkingState state, LagRanking lags, list kept, list keepers)

@cython.locals(
    owners=list, standbys=list, caught_up_on=list, caught_up=list, decided=list, moved=Py_ssize_t,
    queue=ConstrainedPrioritySet,
)
cdef tuple _move_standbys(WorkingState state, LagRanking lags, WarmUpBudget budget, list movements)

# The C types of lag_ranking.py, for those who compile it.
cimport cython

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

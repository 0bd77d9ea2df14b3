# The C types of working_state.py, for those who compile it.
cimport cython

cdef class WorkingState:
    cdef readonly list tasks
    cdef readonly object places
    cdef readonly list clients
    cdef readonly list processes
    cdef readonly object names
    cdef readonly list capacity
    cdef readonly list owner
    cdef readonly list active
    cdef readonly list standby
    cdef readonly list warm_ups
    cdef readonly list assigned
    cdef readonly object log

    cpdef assign_standby(self, Py_ssize_t client, task)

    @cython.locals(giver=set, receiver=set)
    cpdef move_active(self, Py_ssize_t source, Py_ssize_t destination, task)

    @cython.locals(giver=set, receiver=set)
    cpdef move_standby(self, Py_ssize_t source, Py_ssize_t destination, task)

    cpdef swap_active_and_standby(self, Py_ssize_t owner, Py_ssize_t standby, task)

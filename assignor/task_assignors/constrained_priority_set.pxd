# The C types of constrained_priority_set.py, for those who compile it.
cimport cython

cdef class ConstrainedPrioritySet:
    cdef object _copies
    cdef list _bits
    cdef list _entries
    cdef object _heap
    cdef list _written_down
    cdef object _breaking_range
    cdef bint _freshly_drained

    @cython.locals(entries=list, choices=Py_ssize_t, client=Py_ssize_t, drawn_client=Py_ssize_t)
    cpdef poll(self, accepted)

    @cython.locals(entries=list, bits=list, offers=tuple)
    cpdef offer(self, Py_ssize_t first, Py_ssize_t second)

    cdef bint _is_in_order(self) except -1
    cdef _drain_in_vain(self)

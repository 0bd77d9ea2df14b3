# The C types of needed_changes.py, for those who compile it.
cimport cython

@cython.final
cdef class NeededChanges:
    cdef readonly object retention_ms
    cdef readonly object newest_ms
    cdef object _step_ms
    cdef object _marks
    cdef object _next_mark_ms
    cdef long long _next_offset
    cdef bint _is_complete
    cdef long long _sent
    cdef long long _marked_since
    cdef long long _markers

    @cython.locals(start=Py_ssize_t)
    cdef object _see_all(self, offsets, timestamps_ms)

    cdef object _see(self, offset, timestamp_ms)

    cdef object _advance(self, timestamp_ms)

    cdef object _drop_expired(self)

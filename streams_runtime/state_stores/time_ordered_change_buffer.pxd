# The C types of time_ordered_change_buffer.py, for those who compile it.
cimport cython

cdef Py_ssize_t _FIXED_BYTES
cdef Py_ssize_t _MOST_EXTRA_BYTES

@cython.final
cdef class _Buffered:
    cdef public tuple value
    cdef public Py_ssize_t size
    cdef public bint is_dirty

cdef class InMemoryTimeOrderedKeyValueChangeBuffer:
    cdef readonly object name
    cdef readonly bint is_open
    cdef readonly long long size_bytes
    cdef object _serialize_key
    cdef object _deserialize_key
    cdef object _serialize_value
    cdef object _deserialize_value
    cdef dict _values
    cdef list _order
    cdef object _dirty
    cdef object _clock
    cdef object _changes
    cdef object _limits

    @cython.locals(buffered=_Buffered)
    cpdef log_changes(self)

    @cython.locals(buffered=_Buffered, size=Py_ssize_t)
    cpdef put(self, time_ms, key, change, made_by)

    @cython.locals(buffered=_Buffered)
    cpdef remove_first(self)

@cython.locals(context=tuple, size=Py_ssize_t)
cdef Py_ssize_t _size_of(key, tuple buffered) except -1

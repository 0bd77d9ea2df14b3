# The C types of known_keys.py, for those who compile it.
cimport cython
from streams_runtime.state_stores.window_keys cimport WindowRetention

cdef class KnownKeys:
    cdef public object newest_ms
    cdef Py_ssize_t _suffix_bytes
    cdef object _time_of
    cdef WindowRetention _retention
    cdef object _load
    cdef dict _complete
    cdef dict _recent
    cdef object _recent_from_ms

    @cython.locals(index=dict, times=list, keys=list, record_key=bytes, place=Py_ssize_t, is_present=bint)
    cpdef note(self, bytes stored_key, object time_ms, bint is_deleted)

    @cython.locals(times=list, keys=list, first=Py_ssize_t)
    cpdef between(self, record_key, object from_ms, object to_ms)

    cdef tuple _columns(self, known)

    cpdef forget(self)

# The C types of session_keys.py, for those who compile it.

cpdef session_key(key, start_ms, end_ms)

cpdef tuple session_bounds(session_key)

cpdef end_of(session_key)

cdef class SessionRange:
    cdef readonly object first
    cdef readonly object last
    cdef readonly object earliest_end_ms
    cdef readonly object latest_start_ms
    cdef readonly object one_key

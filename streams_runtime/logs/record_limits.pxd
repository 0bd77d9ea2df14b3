# The C types of record_limits.py, for those who compile it.
cimport cython

@cython.final
cdef class BrokerChecks:
    cdef public object accepted_to_ms
    cdef object _clock
    cdef object _after_max_ms
    cdef object _before_max_ms
    cdef object _ahead_ms
    cdef dict _refused

@cython.final
cdef class RecordLimits:
    cdef readonly Py_ssize_t max_bytes
    cdef readonly bint compacts
    cdef readonly BrokerChecks checks

    @cython.locals(size=Py_ssize_t)
    cpdef bint takes_unchecked(self, key, value, timestamp_ms) except -1

    @cython.locals(size=Py_ssize_t, headers_size=Py_ssize_t, is_plain=bint, checks=BrokerChecks)
    cpdef tuple checked(self, partition, key, value, timestamp_ms, headers)

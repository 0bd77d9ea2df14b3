# The C types of output_records.py, for those who compile it.
cimport cython
from streams_runtime.logs.record_limits cimport RecordLimits

@cython.final
cdef class OutputRecords:
    cdef readonly object partition
    cdef readonly RecordLimits limits
    cdef list pending
    cdef readonly list keys
    cdef readonly list values
    cdef readonly list timestamps_ms
    cdef readonly list headers

    cpdef bint add(self, key, value, timestamp_ms, headers) except -1

    cpdef bint add_unchecked(self, key, value, timestamp_ms) except -1

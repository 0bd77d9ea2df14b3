# The C types of window_keys.py, for those who compile it.
cimport cython

cdef object _pack
cdef object _unpack_from

cpdef window_key(key, start_ms, sequence)
cpdef suffix_of(window_key)
cpdef next_sequence(sequence)
cpdef window_end_ms(start_ms, window_size_ms)

# All times fit into 64 bits: the stores check times, and the constructor limits the retention.
cdef class WindowRetention:
    cdef readonly long long retention_ms
    cdef readonly long long segment_interval_ms
    cdef readonly long long observed_ms
    cdef readonly long long first_live_segment
    cdef readonly long long earliest_readable_ms
    cdef object _on_expiry
    cdef bint _reads_expiring

    @cython.locals(first_live_segment=cython.longlong, segment=cython.longlong)
    cpdef observe(self, long long start_ms)

# The C types of window_keys.py, for those who compile it.

cdef object _pack
cdef object _unpack_from

cpdef window_key(key, start_ms, sequence)
cpdef suffix_of(window_key)
cpdef next_sequence(sequence)
cpdef window_end_ms(start_ms, window_size_ms)

# The times are Python's integers: the sum of two times may need more than 64 bits.
cdef class WindowRetention:
    cdef readonly object retention_ms
    cdef readonly object segment_interval_ms
    cdef readonly object observed_ms
    cdef readonly object first_live_segment
    cdef readonly object earliest_readable_ms
    cdef object _on_expiry
    cdef bint _reads_expiring

    cpdef observe(self, start_ms)

# The C types of subscriptions.py, for those who compile it.
cimport cython

cdef tuple _INSTRUCTIONS
cdef int _NO_HASH
cdef int _HASH_BYTES
cdef object _INT32

cdef class SubscriptionResponseWrapper

@cython.final
cdef class SubscriptionWrapper:
    cdef readonly bytes value_hash
    cdef readonly object instruction
    cdef readonly bytes primary_key
    cdef readonly object primary_partition

    cpdef SubscriptionResponseWrapper response(self, foreign_value)

@cython.final
cdef class SubscriptionResponseWrapper:
    cdef readonly bytes value_hash
    cdef readonly object foreign_value
    cdef readonly object primary_partition

@cython.locals(version=int, end=Py_ssize_t)
cdef tuple _read_head(bytes data, Py_ssize_t hash_at, int newest_version, str kind)

cdef bytes _with_hash(bytes first, bytes value_hash)

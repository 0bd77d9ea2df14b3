# The C types of partitioner.py, for those who compile it.
cimport cython
from libc.stdint cimport int64_t, uint32_t

cdef uint32_t _SEED
cdef uint32_t _M
cdef uint32_t _MASK
cdef Py_ssize_t _SHORT
cdef list _WORDS

@cython.locals(length=Py_ssize_t, whole=Py_ssize_t, words=Py_ssize_t, h=uint32_t, k=uint32_t)
cpdef int64_t murmur2(data) except? -1

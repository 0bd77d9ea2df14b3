# The C types of murmur3.py, for those who compile it.
cimport cython
from libc.stdint cimport uint64_t

cdef uint64_t _SEED
cdef uint64_t _C1
cdef uint64_t _C2
cdef uint64_t _N1
cdef uint64_t _N2
cdef uint64_t _F1
cdef uint64_t _F2
cdef uint64_t _MASK
cdef Py_ssize_t _SHORT
cdef list _WORDS

@cython.locals(length=Py_ssize_t, blocks=Py_ssize_t, at=Py_ssize_t, words=tuple, h1=uint64_t, h2=uint64_t, k1=uint64_t, k2=uint64_t)
cpdef bytes murmur3_128(bytes data)
cdef uint64_t _mixed_first(uint64_t k) noexcept
cdef uint64_t _mixed_second(uint64_t k) noexcept
cdef uint64_t _rotated(uint64_t value, int bits) noexcept
cdef uint64_t _finished(uint64_t h) noexcept

# The C types of batch_rows.py, for those who compile it.
cimport cython
from libc.stdint cimport int64_t, uint64_t

@cython.final
cdef class _RowReader:
    cdef bytes _body
    cdef const unsigned char* _data
    cdef Py_ssize_t _at
    cdef Py_ssize_t _end

    @cython.locals(
        timestamps_ms=list, keys=list, values=list, headers=list, gaps=list, lowest=int64_t, highest=int64_t,
        has_append_time=bint, first=int64_t, last=int64_t, index=Py_ssize_t, length=int64_t,
        after=Py_ssize_t, later_ms=int64_t, delta=int64_t, named=int64_t,
    )
    cdef tuple columns(self, Py_ssize_t count, int64_t base_offset, int64_t base_timestamp_ms, append_time_ms)

    @cython.locals(value=uint64_t, shift=int, octet=uint64_t)
    cdef int64_t _number(self) except? -1

    @cython.locals(length=int64_t, start=Py_ssize_t)
    cdef _octets(self)

    @cython.locals(found=list, name=bytes)
    cdef _headers(self, int64_t count)

@cython.final
cdef class BatchRowWriter:
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size
    cdef bytearray _batch
    cdef int64_t _first_ms
    cdef int64_t _max_ms
    cdef Py_ssize_t _limit
    cdef Py_ssize_t _most

    @cython.locals(index=Py_ssize_t)
    cpdef Py_ssize_t extend(self, keys, values, timestamps_ms, Py_ssize_t start, Py_ssize_t stop) except -1

    @cython.locals(
        key_size=Py_ssize_t, value_size=Py_ssize_t, size=Py_ssize_t, tail=bytes, tail_size=Py_ssize_t,
        of_headers=Py_ssize_t, count=Py_ssize_t, later_ms=int64_t, length=Py_ssize_t, body=bytearray,
    )
    cdef bint _take(self, key, value, int64_t timestamp_ms, headers) except -1

@cython.locals(left=uint64_t, width=int)
cdef int _width(int64_t number) noexcept

@cython.locals(left=uint64_t)
cdef _put(bytearray body, int64_t number)

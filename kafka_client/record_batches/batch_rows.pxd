# The C types of batch_rows.py, for those who compile it.
cimport cython

@cython.locals(offsets=list, timestamps_ms=list, keys=list, values=list, headers=dict)
cpdef tuple read_rows(bytes batch, Py_ssize_t count)

@cython.final
cdef class BatchRowWriter:
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t _most
    cdef list _names
    cdef bint _has_other_names
    cdef object _headers
    cdef list _header_names
    cdef Py_ssize_t _header_size
    cdef list _writable_headers
    cdef object _builder

    @cython.locals(index=Py_ssize_t)
    cpdef Py_ssize_t extend(self, keys, values, timestamps_ms, headers, Py_ssize_t start, Py_ssize_t stop) except -1

    @cython.locals(grown=Py_ssize_t)
    cdef bint _take(self, key, value, timestamp_ms, list headers, Py_ssize_t header_size) except -1

# The C types of record_queue.py, for those who compile it.
cimport cython

@cython.final
cdef class RecordQueue:
    cdef readonly object partition
    cdef readonly object source
    cdef readonly Py_ssize_t topic_bytes
    cdef readonly long long handed_out
    cdef readonly object offsets
    cdef public Py_ssize_t place
    cdef public object partition_time_ms
    cdef object _task_id
    cdef object _on_failure
    cdef object _losses
    cdef object _extract_timestamp
    cdef tuple _deserializers
    cdef object _batches
    cdef Py_ssize_t _backlog
    cdef object _timestamps
    cdef object _keys
    cdef object _values
    cdef object _headers
    cdef Py_ssize_t _length
    cdef Py_ssize_t _run_start
    cdef tuple _head
    cdef object _rows
    cdef object _time_before_ms

    @cython.locals(row=tuple, first=Py_ssize_t, done=Py_ssize_t, place=Py_ssize_t, last=Py_ssize_t)
    cpdef deliver(self, Py_ssize_t max_records, time, on_error, until_ms=*)

    cpdef head_timestamp_ms(self)

    @cython.locals(place=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t)
    cpdef Py_ssize_t count_before(self, limit_ms, Py_ssize_t max_records) except -1

    cpdef list list_offsets(self)

    cpdef object polled_raw(self)

    cdef tuple _read_head(self)

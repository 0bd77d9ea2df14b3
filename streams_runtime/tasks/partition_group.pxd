# The C types of partition_group.py, for those who compile it.
cimport cython
from streams_runtime.tasks.record_queue cimport RecordQueue

@cython.final
cdef class PartitionGroup:
    cdef readonly set paused
    cdef readonly frozenset partitions
    cdef object _new_queue
    cdef object _consumer
    cdef object _lags
    cdef object _configs
    cdef dict _queues
    cdef RecordQueue _only_queue
    cdef object _heap
    cdef list _idle
    cdef dict _deadlines

    @cython.locals(queue=RecordQueue)
    cpdef tuple next_run(self, now_ms, Py_ssize_t max_records)

    @cython.locals(other=tuple)
    cdef Py_ssize_t _count_before_other_queues(self, RecordQueue queue, Py_ssize_t max_records) except -1

    @cython.locals(queue=RecordQueue)
    cdef object _read_heads(self)

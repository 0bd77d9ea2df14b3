# The C types of current_record.py, for those who compile it.
cimport cython
from streams_runtime.tasks.record_queue cimport RecordQueue

cdef class CurrentRecord:
    cdef public RecordQueue queue
    cdef public tuple flush_context
    cdef public object init_time_ms
    cdef readonly bint keeps_raw
    cdef object _current

    @cython.locals(queue=RecordQueue)
    cpdef tuple record_context(self)

    cpdef tuple begin_flush(self)

    cpdef set_context(self, tuple made_by)

    cpdef end_flush(self, tuple before)

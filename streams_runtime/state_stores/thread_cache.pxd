# The C types of thread_cache.py, for those who compile it.

cimport cython

cdef class ThreadCache:
    cdef public long long max_bytes
    cdef public long long size_bytes
    cdef list _caches

cdef class TaskCache:
    cdef public object contexts
    cdef ThreadCache _thread
    cdef list _caches

cdef class NamedCache:
    cdef object _below
    cdef bint _caches_reads
    cdef object _contexts
    cdef dict _dirty
    cdef object _entries
    cdef bint _is_flushing
    cdef dict _keys_of
    cdef object _last_used
    cdef object _listener
    cdef Py_ssize_t _overhead
    cdef object _record_context
    cdef bint _sends_old_values
    cdef long long _size_bytes
    cdef Py_ssize_t _suffix_bytes
    cdef ThreadCache _thread

    @cython.locals(keys=list)
    cpdef list items_of(self, record_key, first, last)
    cdef list _values_of(self, list keys)
    cdef void _grow(self, long long size) except *
    cdef void _make_room(self) except *
    cdef void _flush(self, list keys) except *
    cdef void _flush_one(self, key, tuple entry, context) except *
    cdef void _remove(self, key) except *

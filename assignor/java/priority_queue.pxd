# The C types of priority_queue.py, for those who compile it.
cimport cython

@cython.locals(parent=Py_ssize_t)
cdef void _sift_up(list heap, key, Py_ssize_t at, element) except *

@cython.locals(size=Py_ssize_t, child=Py_ssize_t)
cdef void _sift_down(list heap, key, Py_ssize_t at, element) except *

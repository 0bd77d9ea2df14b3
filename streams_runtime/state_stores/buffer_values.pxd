# The C types of buffer_values.py, for those who compile it.
cimport cython

cdef list _SMALL_SIZES

cpdef bytes serialize_buffer_value(tuple given)

@cython.locals(size=Py_ssize_t)
cdef object _add_sized(list parts, value)

# The C types of order.py, for those who compile it.
cimport cython

@cython.locals(fields=list, names=list)
cpdef list spreads_of_tasks(tasks)

# what does not fit wraps to the same hash code, since Java's ints wrap
@cython.locals(subtopology="long long", partition="long long", code="long long", largest="long long")
cdef list _usual_spreads(list subtopologies, list partitions)

cpdef list uncrowded_order(list spreads, initial_capacity)

@cython.locals(capacity="long long", size=Py_ssize_t, present=Py_ssize_t, room=Py_ssize_t, until=Py_ssize_t)
cpdef uncrowded_capacity(list spreads, initial_capacity)

@cython.locals(
    mask="long long", room=Py_ssize_t, present=Py_ssize_t, spread="long long", bucket=Py_ssize_t, counts=bytearray,
)
cdef tuple _small_table(list spreads, Py_ssize_t capacity)

@cython.locals(counts=bytearray, mask="long long", spread="long long", bucket=Py_ssize_t, count=int)
cpdef bint is_crowded(spreads, Py_ssize_t capacity) except -1

# What a table keeps of topics, each in an array of its own, asked for before it's needed: of thousands of topics the
# processor has hardly any at hand, and fetches those of a run together in the time that a single one takes.

cdef extern from "fetch.h":
    void fetch(const char *at) nogil

cdef extern from "Python.h":
    int PyUnicode_CheckExact(PyObject *object) noexcept
    PyObject *PyDict_GetItem(PyObject *table, PyObject *key) noexcept
    PyObject *array_type "(PyObject *)Py_TYPE" (PyObject *object) noexcept

cdef extern from *:
    ctypedef struct ArrayObject "arrayobject":
        const char *items "data.as_chars"

cdef enum:
    ARRAYS_AHEAD = 256
    LAST_OF_LINE = 63


cdef struct Arrays:
    Py_ssize_t count
    PyObject *topic
    PyObject *found[ARRAYS_AHEAD]


cdef inline void fetch_array(Arrays *arrays, PyObject *table, PyObject *topic) noexcept:
    """Ask for the topic's array, unless that was done just before. No code in Python runs: keys are plain texts."""
    cdef PyObject *found
    if topic == arrays.topic or arrays.count == ARRAYS_AHEAD or not PyUnicode_CheckExact(topic):
        return
    arrays.topic = topic
    found = PyDict_GetItem(table, topic)
    if found != NULL:
        fetch(<const char *>found)
        fetch(<const char *>found + LAST_OF_LINE)
        arrays.found[arrays.count] = found
        arrays.count += 1


cdef inline void fetch_items(Arrays *arrays) noexcept:
    """Ask for what these arrays hold. They have to be there still."""
    cdef Py_ssize_t number
    cdef const char *items
    for number in range(arrays.count):
        if array_type(arrays.found[number]) == <PyObject *>array:
            items = (<ArrayObject *>arrays.found[number]).items
            fetch(items)
            fetch(items + LAST_OF_LINE)

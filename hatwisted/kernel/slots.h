/* What the compiled twins share: fields of a msgspec Struct by their place, and big-endian numbers. */
#ifndef HATWISTED_SLOTS_H
#define HATWISTED_SLOTS_H
#include <Python.h>
#include <structmember.h>
#include <string.h>
#include <stdint.h>

/* The place of a field in its objects; -1 if the type doesn't keep it as a plain reference. */
static inline Py_ssize_t slot_place(PyObject *type, const char *name) {
    Py_ssize_t place = -1;
    PyObject *descriptor = PyObject_GetAttrString(type, name);
    if (descriptor == NULL) {
        PyErr_Clear();
        return -1;
    }
    if (Py_TYPE(descriptor) == &PyMemberDescr_Type) {
        PyMemberDef *member = ((PyMemberDescrObject *)descriptor)->d_member;
        if (member->type == T_OBJECT_EX || member->type == T_OBJECT)
            place = member->offset;
    }
    Py_DECREF(descriptor);
    return place;
}

/* A borrowed reference, never NULL: a field that was deleted reads as None. */
static inline PyObject *slot_get(PyObject *object, Py_ssize_t place) {
    PyObject *value = *(PyObject **)((char *)object + place);
    return value == NULL ? Py_None : value;
}

static inline void slot_set(PyObject *object, Py_ssize_t place, PyObject *value) {
    PyObject **slot = (PyObject **)((char *)object + place);
    PyObject *old = *slot;
    Py_INCREF(value);
    *slot = value;
    Py_XDECREF(old);
}

/* Shifts, which compilers turn into one instruction: no byte order of the machine to ask for. */
static inline void put32(char *at, uint32_t value) {
    unsigned char *to = (unsigned char *)at;
    to[0] = (unsigned char)(value >> 24);
    to[1] = (unsigned char)(value >> 16);
    to[2] = (unsigned char)(value >> 8);
    to[3] = (unsigned char)value;
}

static inline void put64(char *at, uint64_t value) {
    put32(at, (uint32_t)(value >> 32));
    put32(at + 4, (uint32_t)value);
}

static inline uint32_t get32(const char *at) {
    const unsigned char *from = (const unsigned char *)at;
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

/* So many bytes from here on at least are ASCII and nothing that ends or escapes a string of JSON. By eights: whoever
needs to know of the last few looks at them. */
static inline Py_ssize_t plain_bytes(const char *at, Py_ssize_t size) {
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    Py_ssize_t plain = 0;
    while (size - plain >= 8) {
        uint64_t eight, quotes, escapes;
        memcpy(&eight, at + plain, 8);
        quotes = eight ^ ones * '"';
        escapes = eight ^ ones * '\\';
        /* A borrow may mark a byte too many, behind one that is marked rightly. */
        if ((eight | (eight - ones * 32) | (quotes - ones) | (escapes - ones)) & highs)
            break;
        plain += 8;
    }
    return plain;
}

/* Where some bytes stand first; NULL if they don't. */
static inline const char *find_bytes(const char *text, Py_ssize_t size, const char *sought, Py_ssize_t length) {
    const char *last = text + size - length;
    while (text <= last) {
        text = (const char *)memchr(text, sought[0], (size_t)(last - text) + 1);
        if (text == NULL)
            return NULL;
        if (memcmp(text, sought, (size_t)length) == 0)
            return text;
        text++;
    }
    return NULL;
}
#endif

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""Frames of the HA link out of a read, and whether they continue the log.

The first that isn't whole, or isn't what comes next, is left to the receiver and to the slave's check: they say why.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from hatwisted.wire.haframe import HEADER_SIZE, Frame

cdef extern from "slots.h":
    uint32_t get32(const char *at) nogil

INTERFACE = 14

cdef enum:
    HEADER = 12

cdef int64_t LAST = 0x7FFFFFFFFFFFFFFF

if HEADER_SIZE != HEADER:
    raise ImportError("this was built for other frames")

cdef object new_tuple = tuple.__new__


def take_frames(object view not None, Py_ssize_t position, int64_t max_body, list frames not None):
    """See `hatwisted.wire.haframe.TakeFrames`."""
    cdef Py_buffer held
    cdef const char *head
    cdef int64_t offset
    cdef Py_ssize_t size
    PyObject_GetBuffer(view, &held, PyBUF_SIMPLE)
    try:
        if position < 0:
            raise ValueError("a place before the first byte")
        while held.len - position >= HEADER:
            head = <const char *>held.buf + position
            size = <int32_t>get32(head + 8)
            if not 0 <= size <= max_body or held.len - position - HEADER < size:
                break
            offset = <int64_t>(<uint64_t>get32(head) << 32 | get32(head + 4))
            position += HEADER
            frames.append(new_tuple(Frame, (offset, view[position : position + size])))
            position += size
    finally:
        PyBuffer_Release(&held)
    return position


def fitting_frames(object frames not None, int64_t expected, int64_t file_size, list bodies not None):
    """See `hatwisted.wire.haframe.FittingFrames`."""
    cdef Py_ssize_t count = 0, size
    cdef int64_t offset
    if file_size <= 0:
        raise ValueError("a file without room")
    for each in frames:
        offset, body = each
        size = len(body)
        if offset != expected or offset < 0 or size > file_size - offset % file_size or size > LAST - offset:
            break
        if size:
            bodies.append(body)
            expected += size
        count += 1
    return count, expected

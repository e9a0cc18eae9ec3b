# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""Compiled twin of `hatwisted.kernel.pure.SettledPuts`."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from hatwisted.wire.remoting import RemotingCommand, SendCommand, SignedSendCommand

cdef extern from "slots.h":
    Py_ssize_t slot_place(object type, const char *name)
    PyObject *slot_get(PyObject *object, Py_ssize_t place)
    void slot_set(PyObject *object, Py_ssize_t place, PyObject *value)

INTERFACE = 9

cdef object COMMAND = RemotingCommand
cdef object SEND = SendCommand
cdef object SIGNED = SignedSendCommand
cdef tuple NO_ENTRIES = ()
cdef bytes NO_BODY = b""
cdef dict NO_FIELDS = {}


cdef count_run(dict topics, object topic, int64_t messages, int64_t size, int64_t puts):
    cdef list counts = topics.get(topic)
    if counts is None:
        topics[topic] = [messages, size, puts]
    else:
        counts[0] += messages
        counts[1] += size
        counts[2] += puts


cdef class SettledPuts:
    """See `hatwisted.kernel.pure.SettledPuts`."""

    cdef object _put_type, _ok
    cdef Py_ssize_t topic, entries, token, status, offset, end, record_offsets, body, ext

    def __init__(self, put_type not None, ok):
        self._put_type = put_type
        self._ok = ok
        self.topic = slot_place(put_type, b"topic")
        self.entries = slot_place(put_type, b"entries")
        self.token = slot_place(put_type, b"token")
        self.status = slot_place(put_type, b"status")
        self.offset = slot_place(put_type, b"offset")
        self.end = slot_place(put_type, b"end")
        self.record_offsets = slot_place(put_type, b"record_offsets")
        self.body = slot_place(RemotingCommand, b"body")
        self.ext = slot_place(RemotingCommand, b"ext")
        for name, place in ((b"body", self.body), (b"ext", self.ext)):
            if slot_place(SendCommand, name) != place or slot_place(SignedSendCommand, name) != place:
                raise TypeError("a send keeps its fields elsewhere")
        places = (
            self.topic, self.entries, self.token, self.status, self.offset, self.end, self.record_offsets,
            self.body, self.ext,
        )
        if min(places) < 0:
            raise TypeError(f"{put_type} doesn't keep its fields in slots")

    def lighten(self, puts):
        cdef PyObject *request
        for each in puts:
            if type(each) is self._put_type:
                request = slot_get(<PyObject *>each, self.token)
                kind = type(<object>request)
                if kind is SEND or kind is SIGNED or kind is COMMAND:
                    slot_set(<PyObject *>each, self.entries, <PyObject *>NO_ENTRIES)
                    slot_set(request, self.body, <PyObject *>NO_BODY)
                    slot_set(request, self.ext, <PyObject *>NO_FIELDS)
                    continue
            each.entries = NO_ENTRIES
            each.token.body = NO_BODY
            each.token.ext = NO_FIELDS

    def count(self, puts, Py_ssize_t first, dict topics not None):
        cdef list all_puts = puts if type(puts) is list else list(puts)
        cdef Py_ssize_t index = first, count = len(all_puts)
        cdef int64_t messages = 0, size = 0, all_messages = 0, all_size = 0, times = 0
        cdef PyObject *put
        cdef object topic = None, its_topic, offsets
        if first < 0:
            raise IndexError("a negative place in the list")
        while index < count:
            each = all_puts[index]
            if type(each) is not self._put_type:
                break
            put = <PyObject *>each
            if <object>slot_get(put, self.status) is not self._ok:
                break
            its_topic = <object>slot_get(put, self.topic)
            if its_topic is not topic:
                if times:
                    count_run(topics, topic, messages, size, times)
                    all_messages += messages
                    all_size += size
                topic, messages, size, times = its_topic, 0, 0, 0
            offsets = <object>slot_get(put, self.record_offsets)
            messages += len(offsets)
            size += <int64_t><object>slot_get(put, self.end) - <int64_t><object>slot_get(put, self.offset)
            times += 1
            index += 1
        if times:
            count_run(topics, topic, messages, size, times)
        return all_messages + messages, all_size + size, index

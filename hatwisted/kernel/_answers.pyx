# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""Compiled twin of `hatwisted.kernel.pure.SendAnswers`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from hatwisted.kernel._puts import PackedSends
from hatwisted.kernel.limits import ANSWER_BYTES
from hatwisted.wire.codes import FLAG_ONEWAY
from hatwisted.wire.remoting import RemotingCommand, SendCommand, SignedSendCommand

cdef extern from "slots.h":
    Py_ssize_t slot_place(object type, const char *name)
    PyObject *slot_get(PyObject *object, Py_ssize_t place)
    void put32(char *at, uint32_t value) nogil

include "sendanswer.pxi"

INTERFACE = 14

cdef object COMMAND = RemotingCommand
cdef object SEND = SendCommand
cdef object SIGNED = SignedSendCommand
cdef object PACKED = PackedSends
cdef int ONEWAY = FLAG_ONEWAY
cdef Py_ssize_t MOST = ANSWER_BYTES


cdef class SendAnswers:
    """See `hatwisted.kernel.pure.SendAnswers`."""

    cdef object _put_type, _ok
    cdef bytes _host
    cdef Py_ssize_t token, status, answer_queue_id, queue_offset, record_offsets, opaque, flag, binary

    def __init__(self, str host_hex not None, put_type not None, ok):
        self._put_type = put_type
        self._ok = ok
        self._host = host_hex.encode()
        self.token = slot_place(put_type, b"token")
        self.status = slot_place(put_type, b"status")
        self.answer_queue_id = slot_place(put_type, b"answer_queue_id")
        self.queue_offset = slot_place(put_type, b"queue_offset")
        self.record_offsets = slot_place(put_type, b"record_offsets")
        self.opaque = slot_place(RemotingCommand, b"opaque")
        self.flag = slot_place(RemotingCommand, b"flag")
        self.binary = slot_place(RemotingCommand, b"binary")
        places = (
            self.token, self.status, self.answer_queue_id, self.queue_offset, self.record_offsets, self.opaque,
            self.flag, self.binary,
        )
        for name, place in ((b"opaque", self.opaque), (b"flag", self.flag), (b"binary", self.binary)):
            if slot_place(SendCommand, name) != place or slot_place(SignedSendCommand, name) != place:
                raise TypeError("a send keeps its fields elsewhere")
        if min(places) < 0:
            raise TypeError(f"{put_type} doesn't keep its fields in slots")

    def encode(self, puts, Py_ssize_t first):
        if type(puts) is PACKED:
            return puts.answers(first, self._host, self._ok)
        cdef list all_puts = puts if type(puts) is list else list(puts)
        cdef Py_ssize_t count = len(all_puts), index = first, size = 0, ids, number
        cdef Py_ssize_t id_size = PyBytes_GET_SIZE(self._host) + 17
        cdef PyObject *put
        cdef PyObject *request
        cdef list offsets
        if first < 0:
            raise IndexError("a negative place in the list")
        while index < count and size < MOST:
            each = all_puts[index]
            if type(each) is not self._put_type:
                break
            put = <PyObject *>each
            request = slot_get(put, self.token)
            if <object>slot_get(put, self.status) is not self._ok:
                break
            kind = type(<object>request)
            if kind is not SEND and kind is not SIGNED and kind is not COMMAND:
                break
            if <object>slot_get(request, self.binary) is not False:
                break
            if type(<object>slot_get(put, self.record_offsets)) is not list:
                break
            ids = len(<list>slot_get(put, self.record_offsets))
            if ids == 0:
                break
            size += PLAIN + ids * id_size
            index += 1
        if index == first:
            return b"", index
        cdef bytes room = PyBytes_FromStringAndSize(NULL, size)
        cdef char *begin = PyBytes_AS_STRING(room)
        cdef char *place = begin
        cdef char *frame = begin
        try:
            for number in range(first, index):
                each = all_puts[number]
                put = <PyObject *>each
                request = slot_get(put, self.token)
                frame = place
                if <int64_t><object>slot_get(request, self.flag) & ONEWAY:
                    continue
                offsets = <list>slot_get(put, self.record_offsets)
                if not offsets or PLAIN + len(offsets) * id_size > begin + size - place:
                    raise RuntimeError("the puts have changed while they were answered")
                place = begin_answer(frame, <object>slot_get(put, self.answer_queue_id))
                for each in offsets:
                    place = add_id(place, self._host, each)
                place = end_answer(
                    place, frame, <object>slot_get(put, self.queue_offset), <object>slot_get(request, self.opaque)
                )
        except OverflowError:
            # Not a number that the codec lets in: whoever asks answers this put in the ordinary way.
            place, index = frame, number
        return PyBytes_FromStringAndSize(begin, place - begin), index

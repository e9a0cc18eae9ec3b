# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""Compiled twin of `hatwisted.kernel.pure.SendAnswers`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from hatwisted.kernel.limits import ANSWER_BYTES
from hatwisted.wire.codes import FLAG_ONEWAY, V4_9_7
from hatwisted.wire.remoting import RemotingCommand, SendCommand, SignedSendCommand

cdef extern from "slots.h":
    Py_ssize_t slot_place(object type, const char *name)
    PyObject *slot_get(PyObject *object, Py_ssize_t place)
    void put32(char *at, uint32_t value) nogil

INTERFACE = 9

cdef const char *DIGITS = b"0123456789ABCDEF"
cdef object COMMAND = RemotingCommand
cdef object SEND = SendCommand
cdef object SIGNED = SignedSendCommand
cdef int ONEWAY = FLAG_ONEWAY
cdef bytes HEAD = b'{"code":0,"extFields":{"queueId":"'
cdef bytes REGION = b'","TRACE_ON":"true","MSG_REGION":"DefaultRegion","msgId":"'
cdef bytes OFFSET = b'","queueOffset":"'
cdef bytes FLAG = b'"},"flag":1,"language":"JAVA","opaque":'
cdef bytes TAIL = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % V4_9_7
cdef Py_ssize_t MOST_DIGITS = 20
cdef Py_ssize_t PLAIN = 8 + len(HEAD) + len(REGION) + len(OFFSET) + len(FLAG) + len(TAIL) + 3 * MOST_DIGITS
cdef Py_ssize_t MOST = ANSWER_BYTES


cdef inline char *add(char *place, bytes text) noexcept:
    memcpy(place, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    return place + PyBytes_GET_SIZE(text)


cdef inline char *add_number(char *place, int64_t value) noexcept:
    cdef char digits[24]
    cdef int count = 0
    cdef uint64_t left = <uint64_t>value
    if value < 0:
        place[0] = c"-"
        place += 1
        left = 0 - left
    while True:
        digits[count] = <char>(48 + left % 10)
        count += 1
        left //= 10
        if left == 0:
            break
    while count:
        count -= 1
        place[0] = digits[count]
        place += 1
    return place


cdef inline char *add_id(char *place, bytes host, int64_t offset) noexcept:
    cdef int shift
    place = add(place, host)
    for shift in range(60, -4, -4):
        place[0] = DIGITS[(<uint64_t>offset >> shift) & 15]
        place += 1
    return place


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
                place = add(place + 8, HEAD)
                place = add_number(place, <object>slot_get(put, self.answer_queue_id))
                place = add(place, REGION)
                for each in offsets:
                    place = add_id(place, self._host, each)
                    place[0] = c","
                    place += 1
                place = add(place - 1, OFFSET)
                place = add_number(place, <object>slot_get(put, self.queue_offset))
                place = add(place, FLAG)
                place = add_number(place, <object>slot_get(request, self.opaque))
                place = add(place, TAIL)
                put32(frame, <uint32_t>(place - frame - 4))
                put32(frame + 4, <uint32_t>(place - frame - 8))
        except OverflowError:
            # Not a number that the codec lets in: whoever asks answers this put in the ordinary way.
            place, index = frame, number
        return PyBytes_FromStringAndSize(begin, place - begin), index

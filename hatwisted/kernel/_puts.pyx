# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""Compiled twins of `hatwisted.kernel.pure.SettledPuts` and `hatwisted.kernel.heldputs.HeldPuts`."""

from cpython.array cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from hatwisted.kernel.heldputs import HeldPuts
from hatwisted.kernel.limits import ANSWER_BYTES
from hatwisted.wire.codes import FLAG_ONEWAY
from hatwisted.wire.layout import SYS_BORN_HOST_V6
from hatwisted.wire.remoting import RemotingCommand, SendCommand, SignedSendCommand

cdef extern from "slots.h":
    Py_ssize_t slot_place(object type, const char *name)
    PyObject *slot_get(PyObject *object, Py_ssize_t place)
    void slot_set(PyObject *object, Py_ssize_t place, PyObject *value)
    void put32(char *at, uint32_t value) nogil

include "fetcharrays.pxi"
include "sendanswer.pxi"

INTERFACE = 14

cdef object COMMAND = RemotingCommand
cdef object SEND = SendCommand
cdef object SIGNED = SignedSendCommand
cdef tuple NO_ENTRIES = ()
cdef tuple NOTHING = (0, 0, 0)
cdef bytes NO_BODY = b""
cdef dict NO_FIELDS = {}
cdef int ONEWAY = FLAG_ONEWAY
cdef int BORN_V6 = SYS_BORN_HOST_V6
cdef Py_ssize_t MOST = ANSWER_BYTES


cdef count_run(dict topics, object topic, int64_t messages, int64_t size, int64_t puts):
    cdef array counts = topics.get(topic)
    if counts is None:
        counts = topics[topic] = array("q", NOTHING)
    if len(counts) != 3 or counts.ob_descr.typecode != b"q":
        raise TypeError("counts are three numbers of 64 bits")
    counts.data.as_longlongs[0] += messages
    counts.data.as_longlongs[1] += size
    counts.data.as_longlongs[2] += puts


cdef struct Send:
    int64_t offset, end, queue_offset, queue_id, opaque, flag, ids_at
    int32_t ids, code, topic


cdef class Sends:
    """What is left of the sends of a read. queue_id: the one that was asked for."""

    cdef Send *each
    cdef int64_t *ids
    cdef list topics
    cdef bytes host
    cdef object put_type

    def __cinit__(self, Py_ssize_t count, Py_ssize_t ids, bytes host not None, put_type):
        self.each = <Send *>malloc(count * sizeof(Send))
        self.ids = <int64_t *>malloc(ids * sizeof(int64_t))
        if self.each == NULL or self.ids == NULL:
            raise MemoryError
        self.topics, self.host, self.put_type = [], host, put_type

    def __dealloc__(self):
        free(self.each)
        free(self.ids)

    cdef int topic(self, object topic) except -1:
        """Its number; those of neighbours are mostly one."""
        cdef Py_ssize_t count = len(self.topics)
        if not count or self.topics[count - 1] is not topic:
            self.topics.append(topic)
            count += 1
        return <int>count - 1

    cdef object put(self, Py_ssize_t index, object status):
        """A put of its own, with what answers and log lines say."""
        cdef Send *send = &self.each[index]
        cdef list offsets = [self.ids[number] for number in range(send.ids_at, send.ids_at + send.ids)]
        return self.put_type(
            self.topics[send.topic],
            0,
            NO_ENTRIES,
            self.host,
            0,
            sys_flag=BORN_V6 if PyBytes_GET_SIZE(self.host) == 20 else 0,
            token=RemotingCommand(send.code, send.opaque, send.flag),
            answer_queue_id=send.queue_id,
            offset=send.offset,
            end=send.end,
            record_offsets=offsets,
            queue_offset=send.queue_offset,
            status=status,
        )


cdef class PackedSends:
    """As `HeldPuts`, of sends; a put that is asked for by itself has only what answers and log lines say."""

    cdef Sends _sends
    cdef Py_ssize_t _first, _count
    cdef object _status

    def __len__(self):
        return self._count

    cdef Py_ssize_t _place(self, Py_ssize_t index) except -1:
        if index < 0:
            index += self._count
        if not 0 <= index < self._count:
            raise IndexError("there are not so many puts")
        return self._first + index

    def __getitem__(self, index):
        if not isinstance(index, slice):
            return self._sends.put(self._place(index), self._status)
        start, stop, step = index.indices(self._count)
        if step != 1:
            raise ValueError("only neighbours are a part")
        return part_of(self._sends, self._first + start, max(0, stop - start), self._status)

    def __iter__(self):
        return iter([self._sends.put(self._first + index, self._status) for index in range(self._count)])

    def end(self, Py_ssize_t index):
        return self._sends.each[self._place(index)].end

    def covered(self, int64_t offset):
        cdef Send *each = self._sends.each
        cdef Py_ssize_t low = self._first, high = self._first + self._count, middle
        while low < high:
            middle = (low + high) // 2
            if each[middle].end <= offset:
                low = middle + 1
            else:
                high = middle
        return low - self._first

    def settle(self, status):
        self._status = status

    def count(self, Py_ssize_t first, dict topics not None, ok):
        """As `SettledPuts.count`."""
        cdef Py_ssize_t index
        cdef int64_t messages = 0, size = 0, puts = 0, all_messages = 0, all_size = 0
        cdef int topic = -1
        cdef Send *each = self._sends.each + self._first
        cdef Send *send
        cdef Arrays arrays
        if first < 0:
            raise IndexError("a negative place in the list")
        if self._status is not ok or first >= self._count:
            return 0, 0, first
        arrays.count, arrays.topic = 0, NULL
        for index in range(each[first].topic, each[self._count - 1].topic + 1):
            fetch_array(&arrays, <PyObject *>topics, <PyObject *>self._sends.topics[index])
        fetch_items(&arrays)
        for index in range(first, self._count):
            send = &each[index]
            if send.topic != topic:
                if puts:
                    count_run(topics, self._sends.topics[topic], messages, size, puts)
                topic, messages, size, puts = send.topic, 0, 0, 0
            messages += send.ids
            size += send.end - send.offset
            puts += 1
            all_messages += send.ids
            all_size += send.end - send.offset
        count_run(topics, self._sends.topics[topic], messages, size, puts)
        return all_messages, all_size, self._count

    def answers(self, Py_ssize_t first, bytes host not None, ok):
        """As `SendAnswers.encode`."""
        cdef Py_ssize_t index = first, size = 0, number, id_size = PyBytes_GET_SIZE(host) + OFFSET_DIGITS + 1
        cdef Send *each = self._sends.each + self._first
        cdef int64_t *ids = self._sends.ids
        cdef int32_t which
        cdef bytes room
        cdef char *begin
        cdef char *place
        cdef char *frame
        if first < 0:
            raise IndexError("a negative place in the list")
        if self._status is not ok:
            return b"", first
        while index < self._count and size < MOST:
            size += PLAIN + each[index].ids * id_size
            index += 1
        room = PyBytes_FromStringAndSize(NULL, size)
        begin = place = PyBytes_AS_STRING(room)
        for number in range(first, index):
            if each[number].flag & ONEWAY:
                continue
            frame = place
            place = begin_answer(frame, each[number].queue_id)
            for which in range(each[number].ids):
                place = add_id(place, host, ids[each[number].ids_at + which])
            place = end_answer(place, frame, each[number].queue_offset, each[number].opaque)
        return PyBytes_FromStringAndSize(begin, place - begin), index


cdef PackedSends part_of(Sends sends, Py_ssize_t first, Py_ssize_t count, object status):
    cdef PackedSends part = PackedSends.__new__(PackedSends)
    part._sends, part._first, part._count, part._status = sends, first, count, status
    return part


cdef class SettledPuts:
    """See `hatwisted.kernel.pure.SettledPuts`."""

    cdef object _put_type, _ok
    cdef Py_ssize_t topic, entries, token, status, offset, end, record_offsets, queue_offset, answer_queue_id
    cdef Py_ssize_t born_host, body, ext, code, opaque, flag, binary

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
        self.queue_offset = slot_place(put_type, b"queue_offset")
        self.answer_queue_id = slot_place(put_type, b"answer_queue_id")
        self.born_host = slot_place(put_type, b"born_host")
        self.body = slot_place(RemotingCommand, b"body")
        self.ext = slot_place(RemotingCommand, b"ext")
        self.code = slot_place(RemotingCommand, b"code")
        self.opaque = slot_place(RemotingCommand, b"opaque")
        self.flag = slot_place(RemotingCommand, b"flag")
        self.binary = slot_place(RemotingCommand, b"binary")
        for name, place in (
            (b"body", self.body), (b"ext", self.ext), (b"code", self.code), (b"opaque", self.opaque),
            (b"flag", self.flag), (b"binary", self.binary),
        ):
            if slot_place(SendCommand, name) != place or slot_place(SignedSendCommand, name) != place:
                raise TypeError("a send keeps its fields elsewhere")
        places = (
            self.topic, self.entries, self.token, self.status, self.offset, self.end, self.record_offsets,
            self.queue_offset, self.answer_queue_id, self.born_host, self.body, self.ext, self.code, self.opaque,
            self.flag, self.binary,
        )
        if min(places) < 0:
            raise TypeError(f"{put_type} doesn't keep its fields in slots")

    def hold(self, puts):
        cdef list all_puts = puts if type(puts) is list else list(puts)
        packed = self._pack(all_puts)
        if packed is None:
            self._lighten(all_puts)
            return HeldPuts(all_puts)
        return packed

    cdef PackedSends _pack(self, list puts):
        """None if one of them is unusual."""
        cdef Py_ssize_t ids = 0, index
        cdef PyObject *put
        cdef PyObject *request
        cdef object host = None
        for each in puts:
            if type(each) is not self._put_type:
                return None
            put = <PyObject *>each
            request = slot_get(put, self.token)
            kind = type(<object>request)
            if kind is not SEND and kind is not SIGNED and kind is not COMMAND:
                return None
            if <object>slot_get(put, self.status) is not None or <object>slot_get(request, self.binary) is not False:
                return None
            if type(<object>slot_get(put, self.record_offsets)) is not list:
                return None
            if host is None:
                host = <object>slot_get(put, self.born_host)
            elif <object>slot_get(put, self.born_host) is not host:
                return None
            if not <list>slot_get(put, self.record_offsets):
                return None
            ids += len(<list>slot_get(put, self.record_offsets))
        if type(host) is not bytes:
            return None
        cdef Sends sends = Sends(len(puts), ids, host, self._put_type)
        try:
            ids = 0
            for index in range(len(puts)):
                ids = self._add(sends, index, ids, <PyObject *>puts[index])
        except OverflowError:
            return None
        return part_of(sends, 0, len(puts), None)

    cdef Py_ssize_t _add(self, Sends sends, Py_ssize_t index, Py_ssize_t ids, PyObject *put) except -1:
        """Pack a put; returns how many ids there are by now."""
        cdef Send *send = &sends.each[index]
        cdef PyObject *request = slot_get(put, self.token)
        cdef list offsets = <list>slot_get(put, self.record_offsets)
        send.offset = <object>slot_get(put, self.offset)
        send.end = <object>slot_get(put, self.end)
        send.queue_offset = <object>slot_get(put, self.queue_offset)
        send.queue_id = <object>slot_get(put, self.answer_queue_id)
        send.opaque = <object>slot_get(request, self.opaque)
        send.flag = <object>slot_get(request, self.flag)
        send.code = <object>slot_get(request, self.code)
        send.topic = sends.topic(<object>slot_get(put, self.topic))
        send.ids_at, send.ids = ids, <int32_t>len(offsets)
        for each in offsets:
            sends.ids[ids] = each
            ids += 1
        return ids

    cdef _lighten(self, list puts):
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
        if type(puts) is PackedSends:
            return puts.count(first, topics, self._ok)
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

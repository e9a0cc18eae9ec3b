# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""Compiled twin of `hatwisted.kernel.pure.RunEncoder` and `decode_batch`.

The messages of a batch stay packed, as its body has them, from the check of that body to their records: as objects
they would cost a broker more than all the rest of their encoding.
"""

cimport cython
from cpython.array cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from isal import isal_zlib

from hatwisted.kernel.pure import decode_batch as decode_batch_pure
from hatwisted.logcodec.encoder import RecordEncoder
from hatwisted.wire import layout
from hatwisted.wire.batch import BATCH_ENTRY_FIXED, MAX_ENTRIES

cdef extern from "slots.h":
    Py_ssize_t slot_place(object type, const char *name)
    PyObject *slot_get(PyObject *object, Py_ssize_t place)
    void slot_set(PyObject *object, Py_ssize_t place, object value)
    void put32(char *at, uint32_t value) nogil
    void put64(char *at, uint64_t value) nogil
    uint32_t get32(const char *at) nogil

INTERFACE = 14
include "crc.pxi"
include "fetcharrays.pxi"

cdef object crc_of_python = isal_zlib.crc32
cdef uint32_t CRC_MASK = layout.CRC_MASK
cdef uint32_t MAGIC = layout.MAGIC_V1
cdef int BORN_V6 = layout.SYS_BORN_HOST_V6
cdef int STORE_V6 = layout.SYS_STORE_HOST_V6
cdef int UNQUEUED = layout.SYS_UNQUEUED
cdef Py_ssize_t IPV6_EXTRA = layout.IPV6_EXTRA
cdef Py_ssize_t FIXED = layout.FIXED_SIZE - 1
cdef Py_ssize_t MAX_FIELD = layout.MAX_TOPIC_LENGTH + 1
cdef Py_ssize_t MAX_PROPERTIES = layout.MAX_PROPERTIES_LENGTH
cdef Py_ssize_t ENTRY_FIXED = BATCH_ENTRY_FIXED
cdef Py_ssize_t MOST_ENTRIES = MAX_ENTRIES


cdef struct Member:
    const char *body
    const char *own  # properties
    Py_ssize_t body_size
    Py_ssize_t own_size
    uint32_t flag


cdef inline uint32_t checksum(Member *message) except? 7:
    if crc_of_c != NULL:
        return crc_of_c(0, <const unsigned char *>message.body, message.body_size) & CRC_MASK
    return <uint32_t>crc_of_python(PyBytes_FromStringAndSize(message.body, message.body_size)) & CRC_MASK


cdef inline const char *next_member(const char *at, Member *message) noexcept nogil:
    """The message of a checked batch body that begins there; where the next one does."""
    message.flag = get32(at + 12)
    message.body_size = <Py_ssize_t>get32(at + 16)
    message.body = at + ENTRY_FIXED - 2
    message.own = message.body + message.body_size + 2
    message.own_size = get32(message.own - 4) & 0xFFFF
    return message.own + message.own_size


@cython.auto_pickle(False)
@cython.final
cdef class PackedEntries:
    """The messages of a batch in its body, which `decode_batch` has checked; who iterates gets them as tuples."""

    cdef bytes body
    cdef Py_ssize_t count, content, most_own

    def __len__(self):
        return self.count

    def __iter__(self):
        cdef list entries = []
        cdef Member message
        cdef const char *at = NULL
        if self.count:
            at = PyBytes_AS_STRING(self.body)
        while len(entries) < self.count:
            at = next_member(at, &message)
            entries.append((
                <int>message.flag,
                PyBytes_FromStringAndSize(message.body, message.body_size),
                PyBytes_FromStringAndSize(message.own, message.own_size),
            ))
        return iter(entries)


cdef struct Head:
    char fixed[112]  # of a record with the longest hosts, up to its body
    Py_ssize_t size
    const char *topic
    Py_ssize_t topic_size
    const char *shared
    Py_ssize_t shared_size


cdef inline Py_ssize_t record_size(Head *head, Member *message) noexcept nogil:
    return head.size + message.body_size + head.topic_size + 2 + message.own_size + head.shared_size


cdef void write_record(
    Head *head, char *place, Member *message, uint32_t crc, int64_t queue_offset, int64_t at
) noexcept nogil:
    """One record at a place with room for it."""
    cdef Py_ssize_t properties = message.own_size + head.shared_size
    memcpy(place, head.fixed, head.size)
    put32(place, <uint32_t>record_size(head, message))
    put32(place + 8, crc)
    put32(place + 16, message.flag)
    put64(place + 20, <uint64_t>queue_offset)
    put64(place + 28, <uint64_t>at)
    put32(place + head.size - 4, <uint32_t>message.body_size)
    place += head.size
    memcpy(place, message.body, message.body_size)
    place += message.body_size
    memcpy(place, head.topic, head.topic_size)
    place += head.topic_size
    place[0] = <char>(properties >> 8)
    place[1] = <char>(properties & 0xFF)
    memcpy(place + 2, message.own, message.own_size)
    memcpy(place + 2 + message.own_size, head.shared, head.shared_size)


cdef int64_t take_offsets(queue_offsets, dict of_topics, topic, int queue_id, Py_ssize_t count) except? -2:
    """As `NextOffsets.take`, which does it where the queue isn't known yet."""
    cdef object found = of_topics.get(topic)
    cdef array offsets
    cdef int64_t first
    if type(found) is not array or not 0 <= queue_id < len(<array>found) or (<array>found).ob_descr.typecode != b"q":
        return queue_offsets.take(topic, queue_id, count)
    offsets = <array>found
    first = offsets.data.as_longlongs[queue_id]
    offsets.data.as_longlongs[queue_id] = first + count
    return first


cdef class RunEncoder:
    """See `hatwisted.kernel.pure.RunEncoder`."""

    cdef object _plain, _put_type
    cdef dict _topic_fields
    cdef bytes _store_host
    cdef Py_ssize_t topic, queue_id, entries, born_host, born_timestamp, sys_flag, reconsume_times, prepared
    cdef Py_ssize_t shared, content_size, offset, end, queue_offset, record_offsets, _batch_size

    def __init__(self, bytes store_host not None, put_type not None, Py_ssize_t batch_size=0):
        self._plain = RecordEncoder(store_host)
        self._put_type = put_type
        self._topic_fields = {}
        self._store_host = store_host
        self._batch_size = batch_size
        if PyBytes_GET_SIZE(store_host) not in (8, 20):
            raise ValueError("a host has 8 or 20 bytes")
        self.topic = slot_place(put_type, b"topic")
        self.queue_id = slot_place(put_type, b"queue_id")
        self.entries = slot_place(put_type, b"entries")
        self.born_host = slot_place(put_type, b"born_host")
        self.born_timestamp = slot_place(put_type, b"born_timestamp")
        self.sys_flag = slot_place(put_type, b"sys_flag")
        self.reconsume_times = slot_place(put_type, b"reconsume_times")
        self.prepared = slot_place(put_type, b"prepared_transaction_offset")
        self.shared = slot_place(put_type, b"shared_properties")
        self.content_size = slot_place(put_type, b"content_size")
        self.offset = slot_place(put_type, b"offset")
        self.end = slot_place(put_type, b"end")
        self.queue_offset = slot_place(put_type, b"queue_offset")
        self.record_offsets = slot_place(put_type, b"record_offsets")
        places = (
            self.topic, self.queue_id, self.entries, self.born_host, self.born_timestamp, self.sys_flag,
            self.reconsume_times, self.prepared, self.shared, self.content_size, self.offset, self.end,
            self.queue_offset, self.record_offsets,
        )
        if min(places) < 0:
            raise TypeError(f"{put_type} doesn't keep its fields in slots")

    def topic_field(self, topic):
        return self._plain.topic_field(topic)

    def size(self, put, topic_field):
        return self._plain.size(put, topic_field)

    cdef bytes _field(self, object topic):
        field = self._topic_fields.get(topic)
        if field is None:
            field = self._topic_fields[topic] = self._plain.topic_field(topic)
        return <bytes>field

    cdef Py_ssize_t _content(self, PyObject *put) except -1:
        """Bytes of all bodies and properties, counted: what the caller says is only compared with it."""
        cdef object entries = <object>slot_get(put, self.entries)
        cdef object shared = <object>slot_get(put, self.shared)
        if type(shared) is not bytes:
            raise TypeError("properties are bytes")
        cdef Py_ssize_t size = PyBytes_GET_SIZE(shared) * len(entries)
        if type(entries) is PackedEntries:
            size += (<PackedEntries>entries).content
        else:
            size += self._content_of(entries)
        cdef Py_ssize_t said = <object>slot_get(put, self.content_size)
        if said < 0:
            slot_set(put, self.content_size, size)
        elif said != size:
            raise ValueError(f"{size} bytes of content, {said} were announced")
        return size

    cdef Py_ssize_t _content_of(self, object entries) except -1:
        cdef Py_ssize_t size = 0
        if type(entries) is not tuple and type(entries) is not list:
            raise TypeError("entries are a list or a tuple, or packed")
        for entry in entries:
            if type(entry) is not tuple or len(<tuple>entry) != 3:
                raise TypeError("an entry is a tuple of flag, body and properties")
            body, properties = (<tuple>entry)[1], (<tuple>entry)[2]
            if type(body) is not bytes or type(properties) is not bytes:
                raise TypeError("body and properties are bytes")
            size += PyBytes_GET_SIZE(body) + PyBytes_GET_SIZE(properties)
        return size

    cdef Py_ssize_t _easy(self, PyObject *put, Py_ssize_t easy_size):
        """Bytes of this put's records that break no limit."""
        cdef object entries = <object>slot_get(put, self.entries)
        cdef object shared = <object>slot_get(put, self.shared)
        if easy_size < 0 or easy_size >= self._batch_size:
            return easy_size
        if type(entries) is not PackedEntries or type(shared) is not bytes:
            return easy_size
        if (<PackedEntries>entries).most_own + PyBytes_GET_SIZE(shared) > MAX_PROPERTIES:
            return easy_size
        return self._batch_size

    def encode_run(self, puts, Py_ssize_t first, run, timestamp, queue_offsets not None, Py_ssize_t easy_size):
        cdef list all_puts = puts if type(puts) is list else list(puts)
        cdef dict of_topics = queue_offsets.topics
        cdef Py_ssize_t count = len(all_puts), index = first, size
        cdef Py_ssize_t begin = run.at, at = begin, room_end = run.room_end
        cdef PyObject *put
        cdef bytes field
        cdef int flags
        cdef Py_ssize_t number
        cdef Arrays arrays
        if first < 0:
            raise IndexError("a negative place in the list")
        while index < count:
            each = all_puts[index]
            if type(each) is not self._put_type:
                raise TypeError(f"{type(each)} is no put")
            put = <PyObject *>each
            field = self._field(<object>slot_get(put, self.topic))
            flags = <object>slot_get(put, self.sys_flag)
            size = FIXED + PyBytes_GET_SIZE(field)
            if flags & BORN_V6:
                size += IPV6_EXTRA
            if PyBytes_GET_SIZE(self._store_host) == 20:
                size += IPV6_EXTRA
            size = size * len(<object>slot_get(put, self.entries)) + self._content(put)
            if size > self._easy(put, easy_size) or not 2 <= PyBytes_GET_SIZE(field) <= MAX_FIELD or at + size > room_end:
                break
            at += size
            index += 1
        if index == first:
            return index
        arrays.count, arrays.topic = 0, NULL
        for number in range(first, index):
            each = all_puts[number]
            fetch_array(&arrays, <PyObject *>of_topics, slot_get(<PyObject *>each, self.topic))
        fetch_items(&arrays)
        cdef bytes out = PyBytes_FromStringAndSize(NULL, at - begin)
        cdef char *place = PyBytes_AS_STRING(out)
        cdef char *stop = place + (at - begin)
        cdef int64_t stamp = timestamp
        at = begin
        for number in range(first, index):
            each = all_puts[number]
            put = <PyObject *>each
            size = self._encode(put, place, stop, at, stamp, queue_offsets, of_topics)
            place += size
            at += size
        if place != stop:
            raise RuntimeError("the puts have changed while they were encoded")
        run.at = at
        run.parts.append(out)
        run.puts.extend(all_puts if first == 0 and index == count else all_puts[first:index])
        return index

    cdef Py_ssize_t _encode(
        self, PyObject *put, char *place, char *stop, Py_ssize_t at, int64_t stamp, queue_offsets, dict of_topics
    ) except -1:
        """The records of one put; their bytes in all."""
        cdef object topic = <object>slot_get(put, self.topic)
        cdef bytes field = self._field(topic)
        cdef bytes shared = <bytes>slot_get(put, self.shared)
        cdef object entries = <object>slot_get(put, self.entries)
        cdef object born_host = <object>slot_get(put, self.born_host)
        cdef int flags = <object>slot_get(put, self.sys_flag)
        cdef int queue_id = <object>slot_get(put, self.queue_id)
        cdef int times = <object>slot_get(put, self.reconsume_times), flag
        cdef int64_t born = <object>slot_get(put, self.born_timestamp)
        cdef int64_t prepared = <object>slot_get(put, self.prepared)
        cdef int64_t queue_offset = 0, step = 0
        cdef Py_ssize_t born_size = 20 if flags & BORN_V6 else 8
        cdef Py_ssize_t store_size = PyBytes_GET_SIZE(self._store_host)
        cdef Py_ssize_t size, begin = at
        cdef Head head
        cdef Member message
        cdef PackedEntries packed = None
        cdef const char *following = NULL
        cdef char *fixed = head.fixed
        cdef list offsets = []
        cdef tuple entry
        if type(born_host) is not bytes or PyBytes_GET_SIZE(born_host) != born_size:
            raise ValueError(f"a born host of {len(born_host)} bytes, {born_size} by its sysFlag")
        flags = flags & ~STORE_V6
        if store_size == 20:
            flags |= STORE_V6
        if not flags & UNQUEUED:
            queue_offset = take_offsets(queue_offsets, of_topics, topic, queue_id, len(entries))
            step = 1
        slot_set(put, self.offset, at)
        slot_set(put, self.queue_offset, queue_offset)
        put32(fixed + 4, MAGIC)
        put32(fixed + 12, <uint32_t>queue_id)
        put32(fixed + 36, <uint32_t>flags)
        put64(fixed + 40, <uint64_t>born)
        memcpy(fixed + 48, PyBytes_AS_STRING(born_host), born_size)
        fixed += 48 + born_size
        put64(fixed, <uint64_t>stamp)
        memcpy(fixed + 8, PyBytes_AS_STRING(self._store_host), store_size)
        fixed += 8 + store_size
        put32(fixed, <uint32_t>times)
        put64(fixed + 4, <uint64_t>prepared)
        head.size = 72 + born_size + store_size
        head.topic, head.topic_size = PyBytes_AS_STRING(field), PyBytes_GET_SIZE(field)
        head.shared, head.shared_size = PyBytes_AS_STRING(shared), PyBytes_GET_SIZE(shared)
        if type(entries) is PackedEntries:
            packed = <PackedEntries>entries
            if packed.count:
                following = PyBytes_AS_STRING(packed.body)
            entries = range(packed.count)
        for each in entries:
            if packed is not None:
                following = next_member(following, &message)
            else:
                entry = <tuple>each
                flag = entry[0]
                message.flag = <uint32_t>flag
                message.body, message.body_size = PyBytes_AS_STRING(entry[1]), PyBytes_GET_SIZE(entry[1])
                message.own, message.own_size = PyBytes_AS_STRING(entry[2]), PyBytes_GET_SIZE(entry[2])
            if message.own_size + head.shared_size > 0xFFFF:
                raise OverflowError("properties are longer than their length field can say")
            size = record_size(&head, &message)
            if size > 0x7FFFFFFF:
                raise OverflowError("a record is longer than its length field can say")
            if size > stop - place:
                raise RuntimeError("the puts have changed while they were encoded")
            write_record(&head, place, &message, checksum(&message), queue_offset, at)
            place += size
            offsets.append(at)
            at += size
            queue_offset += step
        slot_set(put, self.record_offsets, offsets)
        slot_set(put, self.end, at)
        return at - begin


def decode_batch(bytes body not None):
    """See `hatwisted.kernel.pure.decode_batch`; `wire.batch` also says what is wrong with a body that isn't one."""
    cdef PackedEntries entries = PackedEntries.__new__(PackedEntries)
    cdef const char *data = PyBytes_AS_STRING(body)
    cdef int64_t end = PyBytes_GET_SIZE(body), position = 0, following, properties_at, size, body_size, own
    cdef int64_t last = end - ENTRY_FIXED
    cdef Py_ssize_t unended = 0
    entries.body = body
    while position <= last and entries.count < MOST_ENTRIES:
        size = <int>get32(data + position)
        body_size = <int>get32(data + position + 16)
        following = position + size
        properties_at = position + ENTRY_FIXED + body_size
        if body_size < 0 or properties_at > following or following > end:
            return decode_batch_pure(body)
        own = (<unsigned char>data[properties_at - 2]) << 8 | <unsigned char>data[properties_at - 1]
        if properties_at + own != following or own > MAX_PROPERTIES:
            return decode_batch_pure(body)
        if own and data[following - 1] != 2:
            unended += 1
        entries.count += 1
        entries.content += body_size + own
        entries.most_own = max(entries.most_own, <Py_ssize_t>own)
        position = following
    if position < end:
        return decode_batch_pure(body)
    return entries, unended

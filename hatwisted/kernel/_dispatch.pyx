# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""What usual records mean to queues and index; `store.dispatch.dispatcher` works out all others by columns.

Usual is a whole record of version 1 whose topic, tags and keys are ASCII, which isn't a delayed message, and whose
queue offset follows that of its queue's record before in the same bytes. The first that is anything else, valid or
not, ends the run: its neighbours before it are as good without it.

The bytes may come in pieces, as they came over a link: a record that lies in more than one of them is joined aside,
where it stays as long as the run is worked on.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcmp, memcpy, memset

from hatwisted.kernel.limits import INDEX_ITEMS, JOINED_BYTES, QUEUE_TAIL
from hatwisted.kernel.pure import QueueRun, UsualRun
from hatwisted.logcodec.scan import MAX_RECORDS
from hatwisted.wire import layout

include "wholerecord.pxi"

cdef extern from "slots.h":
    void put32(char *at, uint32_t value) nogil
    void put64(char *at, uint64_t value) nogil

cdef extern from "fetch.h":
    void fetch(const char *at) nogil

cdef extern from "Python.h":
    object PyUnicode_FromStringAndSize(const char *text, Py_ssize_t size)

INTERFACE = 14

cdef enum:
    ROOM = 2048
    ITEMS = 8192
    SLOTS = 4096
    ENTRY = 20
    TAIL = 4096
    JOINED = 524288
    AHEAD = 3
    LINE = 64

if (MAX_RECORDS != ROOM or INDEX_ITEMS != ITEMS or layout.QUEUE_ENTRY_SIZE != ENTRY or QUEUE_TAIL != TAIL
        or JOINED_BYTES != JOINED):
    raise ImportError("this was built for other sizes")

include "queuemap.pxi"

cdef int UNQUEUED = layout.SYS_UNQUEUED
cdef int TRANSACTION = layout.SYS_TRANSACTION_MASK
cdef int ROLLED_BACK = layout.SYS_TRANSACTION_ROLLBACK
cdef bytes SCHEDULE_TEXT = layout.SCHEDULE_TOPIC.encode()
cdef const char *SCHEDULE = SCHEDULE_TEXT
cdef int64_t SCHEDULE_SIZE = len(SCHEDULE_TEXT)


cdef struct Queue:
    const char *topic
    int32_t topic_size
    int32_t queue_id
    uint32_t prefix
    int32_t first
    int32_t last
    int32_t count
    int64_t next_offset
    uint64_t hash


cdef struct Found:
    int32_t records
    int32_t queues
    int32_t items
    int64_t position
    int64_t stored
    int64_t queued
    Queue queue[ROOM]
    int64_t offsets[ROOM]
    int64_t queue_offsets[ROOM]
    int32_t sizes[ROOM]
    int32_t tags[ROOM]
    int32_t following[ROOM]
    int32_t hashes[ITEMS]
    int64_t physical[ITEMS]
    int64_t timestamps[ITEMS]
    short slots[SLOTS]
    PyObject *tails[ROOM]
    char joined[JOINED]


cdef Found *spare = NULL
"""Kept from call to call: it would come fresh from the system each time. Of the room for joined records only what
was used takes memory."""


cdef inline bint add_hash(uint32_t *value, const char *at, const char *end) noexcept nogil:
    """Java's hash of ASCII, continued; False if it isn't ASCII."""
    cdef uint32_t found = value[0]
    cdef unsigned char every = 0
    while at < end:
        every |= <unsigned char>at[0]
        found = found * 31 + <unsigned char>at[0]
        at += 1
    value[0] = found
    return every < 128


cdef inline int32_t magnitude(uint32_t value) noexcept nogil:
    """Java's Math.abs, and 0 where that is negative."""
    if value >> 31:
        value = 0 - value
    return <int32_t>(value & 0x7FFFFFFF)


cdef inline bint add_item(Found *found, uint32_t value, int64_t physical, int64_t stamp) noexcept nogil:
    if found.items == ITEMS:
        return False
    found.hashes[found.items] = magnitude(value)
    found.physical[found.items] = physical
    found.timestamps[found.items] = stamp
    found.items += 1
    return True


cdef int find_queue(Found *found, const char *topic, int32_t size, int32_t queue_id) noexcept nogil:
    """The queue's number, a new one if need be; -1 if the topic isn't ASCII."""
    cdef uint32_t prefix = 0, slot
    cdef int number
    cdef Queue *queue
    if not add_hash(&prefix, topic, topic + size):
        return -1
    slot = ((prefix ^ <uint32_t>queue_id * 2654435761U) * 2246822519U) >> 20
    while True:
        number = found.slots[slot & (SLOTS - 1)] - 1
        if number < 0:
            break
        queue = &found.queue[number]
        if queue.queue_id == queue_id and queue.topic_size == size and memcmp(queue.topic, topic, size) == 0:
            return number
        slot += 1
    number = found.queues
    found.queues += 1
    found.slots[slot & (SLOTS - 1)] = <short>(number + 1)
    queue = &found.queue[number]
    queue.topic, queue.topic_size, queue.queue_id = topic, size, queue_id
    queue.prefix = prefix * 31 + 35  # "#" stands between topic and key
    queue.hash = queue_hash(topic, size, queue_id)
    queue.first = queue.last = -1
    queue.count = 0
    return number


cdef struct Properties:
    const char *tags
    const char *tags_end
    const char *id
    const char *id_end
    const char *keys
    const char *keys_end


cdef void read_properties(Properties *into, const char *at, const char *end) noexcept nogil:
    """The last value of each of three names; names and values that are empty don't count."""
    cdef const char *stop
    cdef const char *split
    memset(into, 0, sizeof(Properties))
    while at < end:
        stop = <const char *>memchr(at, 2, end - at)
        if stop == NULL:
            stop = end
        split = <const char *>memchr(at, 1, stop - at)
        if split != NULL and split + 1 < stop:
            if split - at == 4 and memcmp(at, b"TAGS", 4) == 0:
                into.tags, into.tags_end = split + 1, stop
            elif split - at == 4 and memcmp(at, b"KEYS", 4) == 0:
                into.keys, into.keys_end = split + 1, stop
            elif split - at == 8 and memcmp(at, b"UNIQ_KEY", 8) == 0:
                into.id, into.id_end = split + 1, stop
        at = stop + 1


cdef bint add_items(Found *found, Properties *said, uint32_t prefix, int64_t physical, int64_t stamp) noexcept nogil:
    """The index items of a record; False if they can't be told here, some of them may have been added then."""
    cdef uint32_t value = prefix
    cdef const char *at = said.keys
    cdef const char *stop
    if said.id != NULL:
        if not add_hash(&value, said.id, said.id_end) or not add_item(found, value, physical, stamp):
            return False
    while at != NULL and at < said.keys_end:
        stop = <const char *>memchr(at, 32, said.keys_end - at)
        if stop == NULL:
            stop = said.keys_end
        if stop > at:
            value = prefix
            if not add_hash(&value, at, stop) or not add_item(found, value, physical, stamp):
                return False
        at = stop + 1
    return True


cdef bint take(Found *found, const char *at, int64_t room, int64_t physical, bint keys) noexcept nogil:
    """The record at a place before `room` bytes, if it's a usual one; else nothing of it counts."""
    cdef int64_t stamp, queue_offset
    cdef int flags, number, items = found.items, queues = found.queues
    cdef uint32_t tags = 0
    cdef Queue *queue
    cdef Properties said
    cdef Whole record
    if not find_parts(&record, at, room, physical):
        return False
    if record.topic_size == SCHEDULE_SIZE and memcmp(record.topic, SCHEDULE, SCHEDULE_SIZE) == 0:
        return False
    flags, stamp = record.flags, record.stored
    read_properties(&said, record.properties, record.properties + record.properties_size)
    if said.tags != NULL and not add_hash(&tags, said.tags, said.tags_end):
        return False
    number = find_queue(found, record.topic, <int32_t>record.topic_size, <int32_t>get32(at + 12))
    if number < 0:
        return False
    queue = &found.queue[number]
    queue_offset = get64(at + 20)
    if not flags & UNQUEUED and queue.count and queue.next_offset != queue_offset:
        return False
    if keys and flags & TRANSACTION != ROLLED_BACK:
        if not add_items(found, &said, queue.prefix, physical, stamp):
            # A queue that is new by this record stays without one, which is told by its count.
            found.items = items
            return False
    number = found.records
    found.offsets[number] = physical
    found.sizes[number] = <int32_t>record.size
    found.tags[number] = <int32_t>tags
    found.stored = stamp
    found.records += 1
    if not flags & UNQUEUED:
        if queue.count == 0:
            queue.first = number
        else:
            found.following[queue.last] = number
        found.queue_offsets[number] = queue_offset
        queue.last = number
        queue.count += 1
        queue.next_offset = <int64_t>(<uint64_t>queue_offset + 1)
        found.queued = stamp
    return True


cdef void put_entries(char *place, Found *found, Queue *queue) noexcept nogil:
    cdef int32_t number = queue.first, left = queue.count
    while left:
        put64(place, <uint64_t>found.offsets[number])
        put32(place + 8, <uint32_t>found.sizes[number])
        put64(place + 12, <uint64_t><int64_t>found.tags[number])
        place += ENTRY
        left -= 1
        if left:
            number = found.following[number]


cdef bytes entries_of(Found *found, Queue *queue):
    cdef bytes out = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>queue.count * ENTRY)
    put_entries(PyBytes_AS_STRING(out), found, queue)
    return out


cdef bint gather_run(QueueTail tail, Found *found, Queue *queue) except -1:
    """Have a queue take the entries of its run; False if it doesn't."""
    cdef char *place = tail._room(
        found.queue_offsets[queue.first], <int64_t>queue.count * ENTRY, found.offsets[queue.first]
    )
    if place == NULL:
        return False
    put_entries(place, found, queue)
    tail.max_physical = found.offsets[queue.last] + found.sizes[queue.last]
    return True


cdef void fetch_tails(Found *found, QueueMap queues) noexcept:
    """Ask for what will be looked at of each queue, in steps: each reads what the one before has asked for."""
    cdef int number
    cdef QueueTail tail
    for number in range(found.queues):
        fetch(<const char *>queues._first(found.queue[number].hash))
    for number in range(found.queues):
        found.tails[number] = queues._guess(found.queue[number].hash)
        if found.tails[number] != NULL:
            fetch(<const char *>found.tails[number])
            fetch(<const char *>found.tails[number] + LINE)
    for number in range(found.queues):
        if found.tails[number] != NULL:
            tail = <QueueTail>found.tails[number]
            fetch(tail._name)
            fetch(<const char *><PyObject *>tail._tail)
    for number in range(found.queues):
        if found.tails[number] != NULL:
            tail = <QueueTail>found.tails[number]
            fetch(PyByteArray_AS_STRING(tail._tail) + PyByteArray_GET_SIZE(tail._tail))


cdef struct Source:
    Py_buffer *pieces
    int64_t count
    int64_t number
    const char *at
    int64_t room
    int64_t joined
    int64_t needed


cdef void skip(Source *source, int64_t size) noexcept nogil:
    """Go on behind so many bytes, which are there."""
    while size >= source.room and source.number < source.count:
        size -= source.room
        source.number += 1
        if source.number < source.count:
            source.at = <const char *>source.pieces[source.number].buf
            source.room = source.pieces[source.number].len
        else:
            source.room = 0
    source.at += size
    source.room -= size


cdef bint copy_ahead(Source *source, char *target, int64_t size) noexcept nogil:
    """The next bytes, without going on; False if there are fewer."""
    cdef int64_t number = source.number, part = source.room
    cdef const char *at = source.at
    while number < source.count:
        part = min(part, size)
        memcpy(target, at, part)
        target += part
        size -= part
        if not size:
            return True
        number += 1
        if number < source.count:
            at, part = <const char *>source.pieces[number].buf, source.pieces[number].len
    return False


cdef bint is_ahead(Source *source, int64_t size) noexcept nogil:
    """Are there so many bytes?"""
    cdef int64_t number = source.number + 1
    size -= source.room
    while size > 0 and number < source.count:
        size -= source.pieces[number].len
        number += 1
    return size <= 0


cdef inline void fetch_ahead(Source *source, int64_t size) noexcept nogil:
    """Ask for what will be looked at of a record further on, if all are about as long as this: what comes over a link
    has left the nearest cache by now, and waiting for it would take as long as all the rest."""
    cdef const char *begin = source.at + AHEAD * size
    cdef int64_t line
    if size <= source.room and AHEAD * size + 2 * LINE <= source.room:
        for line in range(-4, 2):
            fetch(begin + line * LINE)


cdef bint take_next(Found *found, Source *source, int64_t physical, bint keys) noexcept nogil:
    """The next record, if it's a usual one; else nothing of it counts."""
    cdef char *whole
    cdef int64_t size
    cdef char length[4]
    if source.room >= 4:
        size = <int32_t>get32(source.at)
    elif copy_ahead(source, length, 4):
        size = <int32_t>get32(length)
    else:
        return False
    if size <= source.room:
        fetch_ahead(source, size)
        if not take(found, source.at, source.room, physical, keys):
            return False
    else:
        if not is_ahead(source, size):
            source.needed = size if size >= SMALLEST else 0
            return False
        whole = found.joined + source.joined
        if size > JOINED - source.joined or not copy_ahead(source, whole, size):
            return False
        if not take(found, whole, size, physical, keys):
            return False
        source.joined += size
    skip(source, size)
    return True


cdef void take_all(Found *found, Source *source, int64_t base, bint keys) noexcept nogil:
    found.records = found.queues = found.items = 0
    found.position = found.stored = found.queued = 0
    memset(found.slots, 0, sizeof(found.slots))
    skip(source, 0)
    while (found.records < ROOM and found.queues < ROOM
            and take_next(found, source, base + found.position, keys)):
        found.position += found.sizes[found.records - 1]


cdef object outcome(Found *found, int64_t needed, QueueMap queues, list grown):
    cdef Queue *queue
    cdef QueueTail tail
    cdef int number
    if not found.records:
        return None
    fetch_tails(found, queues)
    runs = []
    for number in range(found.queues):
        queue = &found.queue[number]
        if queue.count:
            tail = queues._find(queue.hash, queue.topic, queue.topic_size, queue.queue_id)
            if tail is not None and gather_run(tail, found, queue):
                grown.append(tail)
                continue
            runs.append(QueueRun(
                PyUnicode_FromStringAndSize(queue.topic, queue.topic_size),
                queue.queue_id,
                found.queue_offsets[queue.first],
                found.offsets[queue.first],
                entries_of(found, queue),
            ))
    return UsualRun(
        found.records,
        found.position,
        runs,
        PyBytes_FromStringAndSize(<const char *>found.hashes, found.items * sizeof(int32_t)),
        PyBytes_FromStringAndSize(<const char *>found.physical, found.items * sizeof(int64_t)),
        PyBytes_FromStringAndSize(<const char *>found.timestamps, found.items * sizeof(int64_t)),
        found.stored,
        found.queued,
        needed,
    )


def usual_records(list pieces not None, int64_t base, bint keys, QueueMap queues not None, list grown not None):
    """See `hatwisted.kernel.pure`."""
    global spare
    cdef Source source
    cdef Py_ssize_t count = len(pieces), held = 0
    cdef Py_buffer *views = <Py_buffer *>malloc(max(count, 1) * sizeof(Py_buffer))
    cdef Found *found = spare
    spare = NULL
    if found == NULL:
        found = <Found *>malloc(sizeof(Found))
    try:
        if found == NULL or views == NULL:
            raise MemoryError
        for piece in pieces:
            if held == count:
                raise RuntimeError("pieces were added meanwhile")
            PyObject_GetBuffer(piece, &views[held], PyBUF_SIMPLE)
            held += 1
        source.pieces, source.count, source.number, source.joined, source.needed = views, held, 0, 0, 0
        source.at, source.room = NULL, 0
        if held:
            source.at, source.room = <const char *>views[0].buf, views[0].len
        with nogil:
            take_all(found, &source, base, keys)
        return outcome(found, source.needed, queues, grown)
    finally:
        while held:
            held -= 1
            PyBuffer_Release(&views[held])
        free(views)
        if spare == NULL:
            spare = found
        else:
            free(found)

"""Where the parts of a record lie, for `_dispatch`, `_walk` and `_columns`, each of which includes this."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from hatwisted.wire import layout

cdef extern from "slots.h":
    uint32_t get32(const char *at) nogil

cdef uint32_t MAGIC = layout.MAGIC_V1
cdef int64_t FIXED = layout.BODY_AT
cdef int64_t SMALLEST = layout.FIXED_SIZE
cdef int64_t MOST_TOPIC = layout.MAX_TOPIC_LENGTH


cdef inline int64_t get64(const char *at) noexcept nogil:
    return <int64_t>(<uint64_t>get32(at) << 32 | get32(at + 4))


cdef inline bint is_ascii(const char *at, int64_t size) noexcept nogil:
    cdef unsigned char every = 0
    cdef int64_t index
    for index in range(size):
        every |= <unsigned char>at[index]
    return every < 128


cdef struct Whole:
    int64_t size
    int64_t stored
    int flags
    const char *body
    int64_t body_size
    const char *topic
    int64_t topic_size
    const char *properties
    int64_t properties_size


cdef inline bint find_parts(Whole *record, const char *at, int64_t room, int64_t physical) noexcept nogil:
    """The record at a place before `room` bytes; False if it isn't a whole one of version 1 that carries its offset,
    and whose lengths add up."""
    cdef int64_t fixed
    cdef const char *length
    if room < SMALLEST or get32(at + 4) != MAGIC:
        return False
    record.size = <int32_t>get32(at)
    record.flags = <int32_t>get32(at + 36)
    record.stored = get64(at + 56 + 12 * (record.flags >> 4 & 1))
    fixed = FIXED + 12 * (record.flags >> 4 & 1) + 12 * (record.flags >> 5 & 1)
    if record.size > room or record.size < fixed + 3 or get64(at + 28) != physical:
        return False
    record.body = at + fixed
    record.body_size = <int32_t>get32(at + fixed - 4)
    if record.body_size < 0 or fixed + record.body_size + 3 > record.size:
        return False
    length = record.body + record.body_size
    record.topic_size = <unsigned char>length[0]
    record.topic = length + 1
    length = record.topic + record.topic_size
    record.properties = record.topic + record.topic_size + 2
    record.properties_size = record.size - (record.properties - at)
    if not 1 <= record.topic_size <= MOST_TOPIC or not 0 <= record.properties_size <= 0x7FFF:
        return False
    return (<unsigned char>length[0] << 8 | <unsigned char>length[1]) == record.properties_size

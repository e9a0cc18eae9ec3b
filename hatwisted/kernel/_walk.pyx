# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""Records looked at one after the other, without columns.

`whole_records` follows and checks them, as a recovery does with all. The first that isn't of version 1, has a topic
that isn't ASCII, or isn't valid at all ends the run: `logcodec.logwalk` looks at that one. `own_records` is for all
messages that a consumer gets; the first that isn't of version 1, or isn't the queue's, is left to
`logcodec.recordplace`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp

from hatwisted.logcodec.logwalk import WholeRun

include "crc.pxi"
include "wholerecord.pxi"

INTERFACE = 12

cdef uint32_t CRC_MASK = layout.CRC_MASK


def whole_records(bytes buf not None, int64_t base, bint check_crc):
    """See `hatwisted.logcodec.logwalk.WholeRecords`."""
    cdef const char *begin = PyBytes_AS_STRING(buf)
    cdef int64_t end = PyBytes_GET_SIZE(buf), at = 0, last = 0, count = 0, stored = 0
    cdef Whole record
    if check_crc and crc_of_c == NULL:
        return None
    with nogil:
        while find_parts(&record, begin + at, end - at, base + at):
            if not is_ascii(record.topic, record.topic_size):
                break
            if check_crc and record.body_size and (
                crc_of_c(0, <const unsigned char *>record.body, record.body_size) & CRC_MASK
            ) != get32(begin + at + 8):
                break
            last, stored = at, record.stored
            at += record.size
            count += 1
    return WholeRun(count, at, last, stored) if count else None


cdef struct Owner:
    int64_t queue_id
    const char *topic
    int64_t topic_size


cdef inline bint is_own(const char *at, int64_t size, int64_t index, int64_t position, Owner *queue) noexcept nogil:
    """Is a record of version 1 and of so many bytes, which are there, the queue's at this index?"""
    cdef int64_t topic_at, body
    if size < SMALLEST or <int32_t>get32(at) != size or get32(at + 4) != MAGIC:
        return False
    if <int32_t>get32(at + 12) != queue.queue_id or get64(at + 20) != index or get64(at + 28) != position:
        return False
    topic_at = FIXED + 12 * (get32(at + 36) >> 4 & 1) + 12 * (get32(at + 36) >> 5 & 1)
    if size < topic_at + SMALLEST - FIXED:
        return False
    body = <int32_t>get32(at + topic_at - 4)
    topic_at += body
    if body < 0 or topic_at + 1 + queue.topic_size > size:
        return False
    if <unsigned char>at[topic_at] != queue.topic_size:
        return False
    return memcmp(at + topic_at + 1, queue.topic, queue.topic_size) == 0


def own_records(bytes data not None, int64_t base, list run not None, list indexes not None, queue not None):
    """See `hatwisted.logcodec.recordplace.OwnRecords`."""
    cdef const char *begin = PyBytes_AS_STRING(data)
    cdef int64_t end = PyBytes_GET_SIZE(data), position, size, index
    cdef bytes topic = queue.raw_topic
    cdef Py_ssize_t number = 0
    cdef Owner owner
    if topic is None:
        raise TypeError("a queue without a topic")
    owner.queue_id, owner.topic, owner.topic_size = queue.queue_id, PyBytes_AS_STRING(topic), PyBytes_GET_SIZE(topic)
    if base < 0 or len(run) != len(indexes):
        raise ValueError("records have offsets, and each has one in its queue")
    for entry in run:
        if number >= len(indexes):  # a number's own code has taken some away
            break
        position, size = (<tuple?>entry)
        index = indexes[number]
        if position < base or size < 0 or size > end or position - base > end - size:
            break
        if not is_own(begin + (position - base), size, index, position, &owner):
            break
        number += 1
    return number

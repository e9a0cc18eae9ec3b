# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""What pulls read: entries chosen, and the records that they name checked and put together.

Both are the twins of `hatwisted.logcodec.entrychoice`. A record that isn't of version 1, or isn't the queue's at first
sight, is left to `logcodec.recordplace`, which has the last word.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp, memcpy, memset

from hatwisted.logcodec import entrychoice, queueentry

include "wholerecord.pxi"

INTERFACE = 14

cdef int64_t ENTRY = queueentry.ENTRY_SIZE
cdef int64_t PRE_BLANK = layout.PRE_BLANK_SIZE
cdef int64_t MAX_GAP = entrychoice.MAX_GAP
cdef int64_t PHYSICAL_LIMIT = queueentry.PHYSICAL_LIMIT
cdef enum:
    FEW = 16  # tags that are compared one by one

EntryChoice = entrychoice.EntryChoice


cdef struct Bounds:
    int64_t first_byte
    int64_t file_size
    int64_t cold_below
    int64_t max_count
    int64_t max_bytes
    int64_t cold_count
    int64_t cold_bytes


cdef class Tags:
    """The wanted ones' codes as Java's int."""

    cdef uint32_t few[FEW]
    cdef Py_ssize_t size
    cdef set many

    def __cinit__(self, frozenset codes not None):
        self.size = 0
        self.many = {code & 0xFFFFFFFF for code in codes} if len(codes) > FEW else None
        if self.many is None:
            for code in codes:
                self.few[self.size] = code & 0xFFFFFFFF
                self.size += 1

    cdef inline bint have(self, uint32_t code):
        cdef Py_ssize_t number
        if self.many is not None:
            return code in self.many
        for number in range(self.size):
            if self.few[number] == code:
                return True
        return False


cdef inline bint is_within(Bounds *bounds, int64_t position, int64_t count, int64_t total) noexcept nogil:
    """May a record be taken so that they are so many, of so many bytes?"""
    if position < bounds.cold_below:
        return count <= bounds.cold_count and total <= bounds.cold_bytes
    return count <= bounds.max_count and total <= bounds.max_bytes


def choose_entries(bytes entries not None, bounds not None, frozenset codes):
    """See `hatwisted.logcodec.entrychoice.choose_entries`."""
    cdef Bounds limits
    (
        limits.first_byte,
        limits.file_size,
        limits.cold_below,
        limits.max_count,
        limits.max_bytes,
        limits.cold_count,
        limits.cold_bytes,
    ) = bounds
    if limits.first_byte < 0 or limits.file_size <= 0:
        raise ValueError("a log's first byte has an offset, and its files have a size")
    cdef Tags tags = None if codes is None else Tags(codes)
    cdef const char *at = PyBytes_AS_STRING(entries)
    cdef int64_t whole = PyBytes_GET_SIZE(entries) // ENTRY, number = 0
    cdef int64_t count = 0, total = 0, position, size, last = 0
    cdef int64_t first = 0, start = 0, span = 0, file_end = 0, ahead
    cdef bint removing = False, gone
    cdef bytes taken = b""
    cdef char *mask = NULL
    cdef list runs = []
    while number < whole:
        position, size = get64(at), max(<int64_t><int32_t>get32(at + 8), 0)
        if count and not is_within(&limits, position, count + 1, total + size):
            break
        last = position
        gone = position < limits.first_byte or size == PRE_BLANK
        removing = removing or gone
        if gone or (tags is not None and not tags.have(get32(at + 16))):
            if mask == NULL:
                taken = PyBytes_FromStringAndSize(NULL, whole)
                mask = PyBytes_AS_STRING(taken)
                memset(mask, 1, number)
            mask[number] = 0
        else:
            if mask != NULL:
                mask[number] = 1
            # Counted from `start`, which is no further on than PHYSICAL_LIMIT where two are read together: where the
            # last record would end may be beyond what 64 bits hold.
            ahead = position - start
            if count and (position >= file_end or ahead < span or ahead > span + MAX_GAP):
                runs.append((start, span, first, number))
                start, first = position, number
            elif count == 0:
                start, first = position, number
            if start == position:
                file_end = 0
                if position < PHYSICAL_LIMIT:
                    file_end = position - position % limits.file_size + limits.file_size
            span = position - start + size
            count += 1
            total += size
        number += 1
        at += ENTRY
    if count:
        runs.append((start, span, first, number))
    if mask != NULL and number < whole:
        taken = taken[:number]
    return EntryChoice(runs, taken, number, count, removing, last)


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


def own_bytes(bytes data not None, tuple run not None, bytes entries not None, bytes taken not None,
              int64_t index, queue not None):
    """See `hatwisted.logcodec.entrychoice.own_bytes`."""
    cdef const char *begin = PyBytes_AS_STRING(data)
    cdef const char *places = PyBytes_AS_STRING(entries)
    cdef const char *mask = PyBytes_AS_STRING(taken)
    cdef int64_t end = PyBytes_GET_SIZE(data), masked = PyBytes_GET_SIZE(taken)
    cdef int64_t base, first, stop, number, position, size, kept = 0
    cdef bint joined = True
    cdef bytes topic = queue.raw_topic
    cdef Owner owner
    cdef char *to
    if topic is None:
        raise TypeError("a queue without a topic")
    owner.queue_id, owner.topic, owner.topic_size = queue.queue_id, PyBytes_AS_STRING(topic), PyBytes_GET_SIZE(topic)
    base, _, first, stop = run
    if base < 0 or first < 0 or stop > PyBytes_GET_SIZE(entries) // ENTRY or (masked and stop > masked):
        raise ValueError("a run has entries, and its records have offsets")
    if index > PHYSICAL_LIMIT:  # the sums below are to fit
        raise ValueError("no queue has so many entries")
    for number in range(first, stop):
        if masked and not mask[number]:
            continue
        position, size = get64(places + number * ENTRY), <int32_t>get32(places + number * ENTRY + 8)
        if position < base or size < 0 or size > end or position - base > end - size:
            return number
        if not is_own(begin + (position - base), size, index + number, position, &owner):
            if not queue.has(data, position - base, size, index + number, position):
                return number
        joined = joined and position - base == kept
        kept += size
    if joined and kept == end:
        return data
    cdef bytes whole = PyBytes_FromStringAndSize(NULL, kept)
    to = PyBytes_AS_STRING(whole)
    for number in range(first, stop):
        if masked and not mask[number]:
            continue
        position, size = get64(places + number * ENTRY), <int32_t>get32(places + number * ENTRY + 8)
        memcpy(to, begin + (position - base), size)
        to += size
    return whole

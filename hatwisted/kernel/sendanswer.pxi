# The answer to one stored send. Include after `put32` of slots.h, ANSWER_BYTES and the C functions for bytes.

from hatwisted.wire.codes import V4_9_7

cdef const char *DIGITS = b"0123456789ABCDEF"
cdef bytes HEAD = b'{"code":0,"extFields":{"queueId":"'
cdef bytes REGION = b'","TRACE_ON":"true","MSG_REGION":"DefaultRegion","msgId":"'
cdef bytes OFFSET = b'","queueOffset":"'
cdef bytes FLAG = b'"},"flag":1,"language":"JAVA","opaque":'
cdef bytes TAIL = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % V4_9_7
cdef Py_ssize_t MOST_DIGITS = 20
cdef Py_ssize_t PLAIN = 8 + len(HEAD) + len(REGION) + len(OFFSET) + len(FLAG) + len(TAIL) + 3 * MOST_DIGITS
"""Bytes of an answer at most, besides its ids."""
cdef Py_ssize_t OFFSET_DIGITS = 16


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


cdef inline char *begin_answer(char *frame, int64_t queue_id) noexcept:
    """Up to the ids."""
    cdef char *place = add(frame + 8, HEAD)
    return add(add_number(place, queue_id), REGION)


cdef inline char *add_id(char *place, bytes host, int64_t offset) noexcept:
    """An id, and the comma behind it."""
    cdef int shift
    place = add(place, host)
    for shift in range(60, -4, -4):
        place[0] = DIGITS[(<uint64_t>offset >> shift) & 15]
        place += 1
    place[0] = c","
    return place + 1


cdef inline char *end_answer(char *place, char *frame, int64_t queue_offset, int64_t opaque) noexcept:
    """From behind the last comma on."""
    place = add(place - 1, OFFSET)
    place = add(add_number(place, queue_offset), FLAG)
    place = add(add_number(place, opaque), TAIL)
    put32(frame, <uint32_t>(place - frame - 4))
    put32(frame + 4, <uint32_t>(place - frame - 8))
    return place

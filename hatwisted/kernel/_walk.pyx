# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""Records looked at one after the other, without columns.

`whole_records` follows and checks them, as a recovery does with all. The first that isn't of version 1, has a topic
that isn't ASCII, or isn't valid at all ends the run: `logcodec.logwalk` looks at that one.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from hatwisted.logcodec.logwalk import WholeRun

include "crc.pxi"
include "wholerecord.pxi"

INTERFACE = 14

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

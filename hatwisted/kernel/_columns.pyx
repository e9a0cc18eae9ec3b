# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""Records of a log as columns, in one pass: what `logcodec.scan` finds by a loop and two dozen calls of numpy.

The first record that isn't of version 1, has no topic, or isn't valid, and more topics than there is room for, leave
the piece to it; so does a topic that isn't UTF-8. Substrings are copied together and checksums computed without a
call for each.
"""

from libc.string cimport memchr, memcmp, memcpy, memset

include "crc.pxi"
include "wholerecord.pxi"

from hatwisted.logcodec.plaincolumns import COLUMNS, PlainRun
from hatwisted.logcodec.scan import Stop

INTERFACE = 14

cdef enum:
    TOPICS = 512
    SLOTS = 1024
    WIDTH = 88
    FIELDS = 10
    PAIRS = 64
    LAST_EDGE = 0x7FFFFFFF

if layout.BODY_AT != WIDTH or COLUMNS != FIELDS:
    raise ImportError("this was built for another format")

cdef uint32_t MAGIC_V2 = layout.MAGIC_V2
cdef int64_t HEAD_SIZE = layout.BLANK_HEAD_SIZE
cdef int64_t STORED_AT = layout.STORE_TIMESTAMP_AT
cdef int64_t QUEUE_ID_AT = layout.QUEUE_ID_AT
cdef int64_t QUEUE_OFFSET_AT = layout.QUEUE_OFFSET_AT
cdef int64_t PHYSICAL_AT = layout.PHYSICAL_OFFSET_AT
cdef int BOTH_V6 = layout.SYS_BORN_HOST_V6 | layout.SYS_STORE_HOST_V6
cdef int64_t RETRIES_AT = layout.RECONSUME_TIMES_AT
cdef int NAME_END = layout.NAME_END
cdef int PAIR_END = layout.PAIR_END
cdef bytes TAGS_TEXT = layout.PROPERTY_TAGS.encode()
cdef bytes KEYS_TEXT = layout.PROPERTY_KEYS.encode()
cdef bytes UNIQUE_TEXT = layout.PROPERTY_UNIQ_KEY.encode()
cdef const char *TAGS = TAGS_TEXT
cdef const char *KEYS = KEYS_TEXT
cdef const char *UNIQUE = UNIQUE_TEXT
cdef int64_t TAGS_SIZE = len(TAGS_TEXT)
cdef int64_t KEYS_SIZE = len(KEYS_TEXT)
cdef int64_t UNIQUE_SIZE = len(UNIQUE_TEXT)
LIMIT, NEED_DATA = Stop.LIMIT, Stop.NEED_DATA


cdef struct Topics:
    int32_t count
    const char *name[TOPICS]
    int32_t size[TOPICS]
    short slots[SLOTS]


cdef inline int32_t topic_number(Topics *topics, const char *name, int64_t size) noexcept nogil:
    """The topic's number, a new one if need be; -1 if there's no room for it."""
    cdef uint32_t key = <uint32_t>size
    cdef int64_t index
    cdef int32_t number
    for index in range(size):
        key = (key ^ <unsigned char>name[index]) * 16777619U
    key ^= key >> 15
    while True:
        number = topics.slots[key & (SLOTS - 1)] - 1
        if number < 0:
            break
        if topics.size[number] == size and memcmp(topics.name[number], name, size) == 0:
            return number
        key += 1
    number = topics.count
    if number == TOPICS:
        return -1
    topics.name[number] = name
    topics.size[number] = <int32_t>size
    topics.slots[key & (SLOTS - 1)] = <short>(number + 1)
    topics.count = number + 1
    return number


cdef inline void level(unsigned char *head, const char *at, int flags) noexcept nogil:
    """Put what follows long hosts where it is after short ones."""
    cdef int64_t born = 12 * (flags >> 4 & 1), both = born + 12 * (flags >> 5 & 1)
    memcpy(head + STORED_AT, at + STORED_AT + born, 8)
    memcpy(head + RETRIES_AT, at + RETRIES_AT + both, WIDTH - RETRIES_AT)


def plain_columns(
    const unsigned char[::1] buf not None,
    int64_t base,
    int64_t start,
    int64_t before,
    bint placed,
    unsigned char[::1] heads not None,
    int64_t[:, ::1] longs not None,
):
    """See `hatwisted.logcodec.plaincolumns.PlainColumns`."""
    cdef Topics topics
    cdef Whole record
    cdef int64_t end = buf.shape[0], at = start, count = 0, room = longs.shape[1]
    cdef int64_t last = min(end - HEAD_SIZE, before - 1)
    cdef int32_t topic = 0, size
    cdef uint32_t magic
    cdef const char *begin
    cdef unsigned char *head
    cdef bint usual = True, looked = False
    if longs.shape[0] != FIELDS or heads.shape[0] < room * WIDTH or not 0 <= start <= end or not room:
        raise ValueError("columns of another form")
    begin = <const char *>&buf[0]
    head = &heads[0]
    topics.count = 0
    memset(topics.slots, 0, sizeof(topics.slots))
    with nogil:
        while at <= last and count < room:
            magic = get32(begin + at + 4)
            size = <int32_t>get32(begin + at)
            if (magic != MAGIC and magic != MAGIC_V2) or size < SMALLEST or size > end - at:
                looked = True
                break
            if not find_parts(
                &record, begin + at, end - at, base + at if placed else get64(begin + at + PHYSICAL_AT)
            ):
                usual = False
                break
            # Of neighbours most have the same topic.
            if not (
                count
                and topics.size[topic] == record.topic_size
                and memcmp(topics.name[topic], record.topic, record.topic_size) == 0
            ):
                topic = topic_number(&topics, record.topic, record.topic_size)
                if topic < 0:
                    usual = False
                    break
            memcpy(head, begin + at, WIDTH)
            if record.flags & BOTH_V6:
                level(head, begin + at, record.flags)
            head += WIDTH
            longs[0, count] = at
            longs[1, count] = record.size
            longs[2, count] = <int32_t>get32(begin + at + QUEUE_ID_AT)
            longs[3, count] = get64(begin + at + QUEUE_OFFSET_AT)
            longs[4, count] = record.flags
            longs[5, count] = record.stored
            longs[6, count] = record.body - begin
            longs[7, count] = record.body - begin + record.body_size
            longs[8, count] = topic
            longs[9, count] = record.properties - begin
            at += record.size
            count += 1
    if not usual:
        return None
    try:
        names = [topics.name[topic][: topics.size[topic]].decode() for topic in range(topics.count)]
    except UnicodeDecodeError:
        return None
    if looked:
        return PlainRun(count, at, None, names)
    return PlainRun(count, at, LIMIT if count == room or at >= before else NEED_DATA, names)


cdef bint are_spans(const int64_t[::1] starts, const int64_t[::1] ends, int64_t size) noexcept:
    """Are they substrings of so many bytes?"""
    cdef int64_t index, count = starts.shape[0]
    if ends.shape[0] != count:
        return False
    with nogil:
        for index in range(count):
            if not 0 <= starts[index] <= ends[index] <= size:
                return False
    return True


def copy_spans(
    const unsigned char[::1] source not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] ends not None,
    int32_t[::1] edges not None,
    unsigned char[::1] target not None,
):
    """See `hatwisted.logcodec.plaincolumns.CopySpans`."""
    cdef int64_t index, size, at = 0, room = target.shape[0], count = starts.shape[0]
    if edges.shape[0] != count + 1 or not are_spans(starts, ends, source.shape[0]):
        raise ValueError("no substrings")
    if room > LAST_EDGE:
        raise ValueError("more than an edge counts")
    edges[0] = 0
    with nogil:
        for index in range(count):
            size = ends[index] - starts[index]
            if size > room - at:
                break
            if size:
                memcpy(&target[at], &source[starts[index]], size)
            at += size
            edges[index + 1] = <int32_t>at
        else:
            index = count
    if index < count or at != room:
        raise ValueError("room of another size")


def span_crcs(
    const unsigned char[::1] source not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] ends not None,
    uint32_t[::1] sums not None,
):
    """See `hatwisted.logcodec.plaincolumns.SpanSums`."""
    cdef int64_t index, count = starts.shape[0]
    if sums.shape[0] != count or not are_spans(starts, ends, source.shape[0]):
        raise ValueError("no substrings")
    with nogil:
        for index in range(count):
            sums[index] = 0
            if ends[index] > starts[index]:
                sums[index] = crc_of_c(0, &source[starts[index]], ends[index] - starts[index])


cdef inline bint same(
    const int64_t[:, ::1] spans, int64_t one, const char *begin, const char *name, int64_t size
) noexcept nogil:
    """Has this pair that name?"""
    return spans[1, one] - spans[0, one] == size and memcmp(begin + spans[0, one], name, size) == 0


def plain_pairs(
    const unsigned char[::1] buf not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] ends not None,
    int32_t[::1] firsts not None,
    int64_t[:, ::1] spans not None,
    int32_t[:, ::1] known not None,
):
    """See `hatwisted.logcodec.plaincolumns.PlainPairs`."""
    cdef int64_t row, rows = starts.shape[0], count = 0, first, one, room = spans.shape[1], size
    cdef const char *begin
    cdef const char *at
    cdef const char *end
    cdef const char *mark
    cdef const char *named
    cdef bint usual = True, ascii_values = True
    if (
        firsts.shape[0] != rows + 1
        or spans.shape[0] != 3
        or known.shape[0] != 3
        or known.shape[1] != rows
        or room > LAST_EDGE
        or not are_spans(starts, ends, buf.shape[0])
    ):
        raise ValueError("columns of another form")
    begin = <const char *>&buf[0]
    with nogil:
        for row in range(rows):
            first = count
            firsts[row] = <int32_t>first
            at, end = begin + starts[row], begin + ends[row]
            while at < end:
                mark = <const char *>memchr(at, PAIR_END, end - at)
                if mark == NULL:
                    mark = end
                named = <const char *>memchr(at, NAME_END, mark - at)
                if named != NULL and named > at and named + 1 < mark:
                    size = named - at
                    if count == room or count - first == PAIRS or not is_ascii(at, size):
                        usual = False
                        break
                    if ascii_values:
                        ascii_values = is_ascii(named, mark - named)
                    for one in range(first, count):
                        if same(spans, one, begin, at, size):
                            # Of a repeated name the last counts, where it stands.
                            count -= 1
                            while one < count:
                                spans[0, one] = spans[0, one + 1]
                                spans[1, one] = spans[1, one + 1]
                                spans[2, one] = spans[2, one + 1]
                                one += 1
                            break
                    spans[0, count] = at - begin
                    spans[1, count] = named - begin
                    spans[2, count] = mark - begin
                    count += 1
                at = mark + 1
            if not usual:
                break
            known[0, row] = known[1, row] = known[2, row] = -1
            for one in range(first, count):
                size = spans[1, one] - spans[0, one]
                if size == TAGS_SIZE and same(spans, one, begin, TAGS, TAGS_SIZE):
                    known[0, row] = <int32_t>one
                elif size == KEYS_SIZE and same(spans, one, begin, KEYS, KEYS_SIZE):
                    known[1, row] = <int32_t>one
                elif size == UNIQUE_SIZE and same(spans, one, begin, UNIQUE, UNIQUE_SIZE):
                    known[2, row] = <int32_t>one
    if not usual:
        return None
    firsts[rows] = <int32_t>count
    return count, ascii_values


def split_spans(
    const unsigned char[::1] source not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] ends not None,
    char separator,
    int32_t[::1] firsts not None,
    int64_t[:, ::1] parts not None,
):
    """See `hatwisted.logcodec.plaincolumns.SplitSpans`."""
    cdef int64_t index, count = 0, room = parts.shape[1], spans = starts.shape[0]
    cdef const char *begin
    cdef const char *at
    cdef const char *end
    cdef const char *mark
    if (
        firsts.shape[0] != spans + 1
        or parts.shape[0] != 2
        or room > LAST_EDGE
        or not are_spans(starts, ends, source.shape[0])
    ):
        raise ValueError("columns of another form")
    begin = <const char *>&source[0]
    with nogil:
        for index in range(spans):
            firsts[index] = <int32_t>count
            at, end = begin + starts[index], begin + ends[index]
            while at < end:
                mark = <const char *>memchr(at, separator, end - at)
                if mark == NULL:
                    mark = end
                if mark > at:
                    if count == room:
                        break
                    parts[0, count] = at - begin
                    parts[1, count] = mark - begin
                    count += 1
                at = mark + 1
            if at < end:
                break
        else:
            index = spans
    if index < spans:
        raise ValueError("too many parts")
    firsts[spans] = <int32_t>count
    return count


SUMS = crc_of_c != NULL
"""Can checksums be computed here?"""

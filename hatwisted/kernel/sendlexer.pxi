"""How a header's pieces are read, and a command made of them, for `_requests`
and `_signedsends`, each of which includes this."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from hatwisted.kernel.limits import SEEN_TOPICS
from hatwisted.wire.layout import MAX_TOPIC_LENGTH

cdef extern from "Python.h":
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 most)
    unsigned char *PyUnicode_1BYTE_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    object PyObject_Vectorcall(object called, PyObject **arguments, size_t count, PyObject *names)

cdef extern from "slots.h":
    uint32_t get32(const char *at) nogil
    Py_ssize_t plain_bytes(const char *at, Py_ssize_t size) nogil

cdef extern from "siphash.h":
    uint64_t siphash(const char *text, int64_t size, uint64_t first_key, uint64_t second_key) nogil

cdef object EMPTY = ""
cdef object NO = False
cdef int64_t INT32_END = 1 << 31
cdef list TEXTS = [""] * 19
"""The last text seen in each field that mostly has the same again; those behind the fields' are the language's and
the account's."""

cdef enum:
    TOPIC = 1
    PLACES = 1024
    LONGEST = 127

if SEEN_TOPICS != PLACES or MAX_TOPIC_LENGTH != LONGEST:
    raise ImportError("this was built for other sizes")

cdef list SEEN = [""] * PLACES
"""Topics of earlier sends, each where its bytes say: one of many topics comes as the object by which it's looked up
in all tables, with its hash, instead of one that has to be made and compared."""


cdef struct Cursor:
    const char *at
    const char *end


cdef inline bint literal(Cursor *cursor, const char *text, Py_ssize_t size) noexcept nogil:
    """Are the next bytes these? Then go behind them."""
    if cursor.end - cursor.at < size or memcmp(cursor.at, text, size) != 0:
        return False
    cursor.at += size
    return True


cdef inline bint number(Cursor *cursor, int64_t *value) noexcept nogil:
    """A number of at most 18 digits as JSON writes it; else nothing is sure."""
    cdef bint minus = False
    cdef int64_t found = 0
    cdef const char *begin
    if cursor.at < cursor.end and cursor.at[0] == c"-":
        minus = True
        cursor.at += 1
    begin = cursor.at
    while cursor.at < cursor.end and c"0" <= cursor.at[0] <= c"9":
        if cursor.at - begin == 18:
            return False
        found = found * 10 + (cursor.at[0] - c"0")
        cursor.at += 1
    if cursor.at == begin or (begin[0] == c"0" and (cursor.at - begin > 1 or minus)):
        return False
    value[0] = -found if minus else found
    return True


cdef inline bint small_number(Cursor *cursor, int64_t *value) noexcept nogil:
    """The same of one that is an int32."""
    return number(cursor, value) and -INT32_END <= value[0] < INT32_END


cdef inline int unescaped(const char *at, const char *end, int *used) noexcept nogil:
    """The character that an escape (after its backslash) stands for; -1 if that isn't so simple."""
    cdef int high, low
    used[0] = 1
    if at >= end:
        return -1
    if at[0] == c"u":
        if end - at < 5 or at[1] != c"0" or at[2] != c"0" or not c"0" <= at[3] <= c"7":
            return -1
        high, low = at[3] - c"0", at[4]
        if c"0" <= low <= c"9":
            low -= c"0"
        elif c"a" <= low <= c"f":
            low -= c"a" - 10
        elif c"A" <= low <= c"F":
            low -= c"A" - 10
        else:
            return -1
        used[0] = 5
        return high << 4 | low
    if at[0] == c'"' or at[0] == c"\\" or at[0] == c"/":
        return at[0]
    if at[0] == c"n":
        return 10
    if at[0] == c"t":
        return 9
    if at[0] == c"r":
        return 13
    if at[0] == c"b":
        return 8
    if at[0] == c"f":
        return 12
    return -1


cdef object text(Cursor *cursor, int field):
    """A string up to and with its closing quote, of plain ASCII or its escapes; None if it isn't that."""
    cdef const char *begin = cursor.at
    cdef const char *at = begin
    cdef const char *end = cursor.end
    cdef unsigned char *into
    cdef Py_ssize_t size = 0
    cdef int used
    cdef bint plain = True
    cdef Py_ssize_t place = -1
    cdef object last = TEXTS[field]
    # Mostly it's the same again, which has nothing in it that ends or escapes.
    size = PyUnicode_GET_LENGTH(last)
    if end - begin > size and begin[size] == c'"' and memcmp(PyUnicode_1BYTE_DATA(last), begin, size) == 0:
        cursor.at = begin + size + 1
        return last
    size = plain_bytes(begin, end - begin)
    at += size
    while True:
        if at >= end or <signed char>at[0] < 32:
            return None
        if at[0] == c'"':
            break
        if at[0] == c"\\":
            plain = False
            if unescaped(at + 1, end, &used) < 0:
                return None
            at += used
        at += 1
        size += 1
    cursor.at = at + 1
    if size == 0:
        return EMPTY
    if field == TOPIC and plain and size <= LONGEST:
        place = <Py_ssize_t>(siphash(begin, size, 0, 0) % PLACES)  # who guesses it wins nothing
        last = SEEN[place]
        if PyUnicode_GET_LENGTH(last) == size and memcmp(PyUnicode_1BYTE_DATA(last), begin, size) == 0:
            TEXTS[field] = last
            return last
    found = PyUnicode_New(size, 127)
    into = PyUnicode_1BYTE_DATA(found)
    if plain:
        memcpy(into, begin, size)
        TEXTS[field] = found
        if place >= 0:
            SEEN[place] = found
        return found
    at = begin
    while size:
        if at[0] == c"\\":
            into[0] = <unsigned char>unescaped(at + 1, end, &used)
            at += used
        else:
            into[0] = <unsigned char>at[0]
        at += 1
        into += 1
        size -= 1
    return found


cdef inline object truth(Cursor *cursor):
    if literal(cursor, b'false"', 6):
        return False
    if literal(cursor, b'true"', 5):
        return True
    return None


cdef inline object read_code(Cursor *cursor):
    """The code of a send, up to and with the opening brace of its fields; None if it is unusual."""
    if literal(cursor, b'{"code":310,"extFields":{', 25):
        return 310
    if literal(cursor, b'{"code":320,"extFields":{', 25):
        return 320
    return None


cdef struct Tail:
    int64_t flag, opaque, version


cdef inline object read_tail(Cursor *cursor, Tail *tail):
    """The language of a header, and its numbers, behind the closing brace of its fields; None if it is unusual."""
    tail.flag = tail.opaque = tail.version = 0
    if not literal(cursor, b',"flag":', 8) or not small_number(cursor, &tail.flag):
        return None
    if not literal(cursor, b',"language":"', 13):
        return None
    language = text(cursor, 14)
    if language is None or not literal(cursor, b',"opaque":', 10) or not small_number(cursor, &tail.opaque):
        return None
    if not literal(cursor, b',"serializeTypeCurrentRPC":"JSON","version":', 44):
        return None
    if not small_number(cursor, &tail.version) or not literal(cursor, b"}", 1) or cursor.at != cursor.end:
        return None
    return language


cdef inline object new_command(
    object code, Tail *tail, object language, object body, object header, object encoded, object signed
):
    """A COMMAND, which is the including module's, of what has been read. encoded, signed: its last two fields, None
    where it has none."""
    cdef PyObject *arguments[12]
    cdef object a_flag = tail.flag, an_opaque = tail.opaque, a_version = tail.version, ext = {}
    arguments[0] = <PyObject *>code
    arguments[1] = <PyObject *>an_opaque
    arguments[2] = <PyObject *>a_flag
    arguments[3] = <PyObject *>language
    arguments[4] = <PyObject *>a_version
    arguments[5] = <PyObject *>None
    arguments[6] = <PyObject *>ext
    arguments[7] = <PyObject *>body
    arguments[8] = <PyObject *>NO
    arguments[9] = <PyObject *>header
    arguments[10] = <PyObject *>encoded
    arguments[11] = <PyObject *>signed
    return PyObject_Vectorcall(COMMAND, arguments, 10 if encoded is None else 12, NULL)


cdef struct Frame:
    # Bytes of the read: where the frame begins, its body, where it stops; where the read ends.
    int64_t at, body_at, stop, end
    int64_t most_length, most_header


cdef inline bint next_frame(const char *begin, Frame *frame) noexcept nogil:
    """Go on to the frame that follows; False, with `stop` where it was, unless it is whole, JSON and not too long."""
    cdef int64_t length, mark, stop, body_at
    if frame.end - frame.stop < 8:
        return False
    length = get32(begin + frame.stop)
    mark = get32(begin + frame.stop + 4)
    stop = frame.stop + 4 + length
    body_at = frame.stop + 8 + mark
    # With another type of header, mark is beyond any limit.
    if mark >> 24 or length > frame.most_length or mark > frame.most_header or body_at > stop or stop > frame.end:
        return False
    frame.at, frame.body_at, frame.stop = frame.stop, body_at, stop
    return True

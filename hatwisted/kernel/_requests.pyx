# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""The frames of a read that are sends as Java clients write them; `wire.remoting` reads all others.

A header is taken here only if each of its bytes is where fastjson puts it. Whatever is unusual, be it valid or
not (another order, a letter beyond ASCII, a field twice, a number with a leading zero), is left to the ordinary
decoder, so that this one can't differ from it in what it accepts or how it refuses.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcmp, memcpy

from hatwisted.wire.remoting import SendCommand
from hatwisted.wire.requestheader import NOT_SAID, SendHeader

cdef extern from "Python.h":
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 most)
    unsigned char *PyUnicode_1BYTE_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    object PyObject_Vectorcall(object called, PyObject **arguments, size_t count, PyObject *names)
    ctypedef struct PyListObject:
        PyObject **ob_item

cdef extern from "slots.h":
    uint32_t get32(const char *at) nogil

INTERFACE = 5

cdef object COMMAND = SendCommand
cdef object HEADER = SendHeader
cdef object UNSAID = NOT_SAID
cdef object EMPTY = ""
cdef object NO = False
cdef int64_t INT32_END = 1 << 31
cdef int FIELDS = 14
cdef unsigned int REQUIRED = 0xFF
cdef list TEXTS = [""] * 15
"""The last text seen in each field that mostly has the same again; the last one is the language."""

if SendHeader.__struct_fields__ != (
    "producer_group", "topic", "default_topic", "default_topic_queue_nums", "queue_id", "sys_flag",
    "born_timestamp", "flag", "properties", "reconsume_times", "unit_mode", "max_reconsume_times", "batch",
    "broker_name",
) or SendCommand.__struct_fields__ != (
    "code", "opaque", "flag", "language", "version", "remark", "ext", "body", "binary", "header",
):
    raise ImportError("this was built for other fields")


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
    cdef object last = TEXTS[field]
    if plain and PyUnicode_GET_LENGTH(last) == size and memcmp(PyUnicode_1BYTE_DATA(last), begin, size) == 0:
        return last
    found = PyUnicode_New(size, 127)
    into = PyUnicode_1BYTE_DATA(found)
    if plain:
        memcpy(into, begin, size)
        TEXTS[field] = found
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


cdef object read_fields(Cursor *cursor):
    """The extFields behind their opening brace, up to and with the closing one; None if they are unusual."""
    cdef list values = [None, None, None, None, None, None, None, None, EMPTY, 0, False, UNSAID, False, EMPTY]
    cdef unsigned int seen = 0
    cdef int field
    cdef int64_t found = 0
    cdef char mark
    while True:
        if cursor.end - cursor.at < 5 or cursor.at[0] != c'"':
            return None
        field = cursor.at[1] - c"a"
        if not 0 <= field < FIELDS or seen >> field & 1:
            return None
        seen |= 1 << field
        cursor.at += 2
        if not literal(cursor, b'":"', 3):
            return None
        if field < 3 or field == 8 or field == 13:
            value = text(cursor, field)
        elif field == 10 or field == 12:
            value = truth(cursor)
        else:
            if not number(cursor, &found) or not literal(cursor, b'"', 1):
                return None
            if field != 6 and not -INT32_END <= found < INT32_END:
                return None
            value = found
        if value is None or cursor.at >= cursor.end:
            return None
        values[field] = value
        mark = cursor.at[0]
        cursor.at += 1
        if mark == c"}":
            break
        if mark != c",":
            return None
    if seen & REQUIRED != REQUIRED:
        return None
    return PyObject_Vectorcall(HEADER, (<PyListObject *>values).ob_item, FIELDS, NULL)


cdef object read_header(const char *at, const char *end, bytes data, Py_ssize_t body_at, Py_ssize_t stop):
    """The command of a send's header, with its body; None if the header is unusual."""
    cdef Cursor cursor
    cdef int64_t flag = 0, opaque = 0, version = 0
    cdef object code
    cdef PyObject *arguments[10]
    cursor.at, cursor.end = at, end
    if literal(&cursor, b'{"code":310,"extFields":{', 25):
        code = 310
    elif literal(&cursor, b'{"code":320,"extFields":{', 25):
        code = 320
    else:
        return None
    header = read_fields(&cursor)
    if header is None or not literal(&cursor, b',"flag":', 8) or not number(&cursor, &flag):
        return None
    if not literal(&cursor, b',"language":"', 13):
        return None
    language = text(&cursor, 14)
    if language is None or not literal(&cursor, b',"opaque":', 10) or not number(&cursor, &opaque):
        return None
    if not literal(&cursor, b',"serializeTypeCurrentRPC":"JSON","version":', 44):
        return None
    if not number(&cursor, &version) or not literal(&cursor, b"}", 1) or cursor.at != end:
        return None
    cdef object body = PyBytes_FromStringAndSize(PyBytes_AS_STRING(data) + body_at, stop - body_at)
    cdef object a_flag = flag, an_opaque = opaque, a_version = version, ext = {}
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
    return PyObject_Vectorcall(COMMAND, arguments, 10, NULL)


def take_sends(bytes data not None, Py_ssize_t position, list commands not None, max_frame, max_header):
    """See `hatwisted.kernel.pure`."""
    cdef const char *begin = PyBytes_AS_STRING(data)
    cdef int64_t end = PyBytes_GET_SIZE(data), at = position, stop, body_at, length, mark
    cdef int64_t most_length = max_frame - 4, most_header = max_header
    if position < 0:
        raise IndexError("a negative place in the read")
    while end - at >= 8:
        length = get32(begin + at)
        mark = get32(begin + at + 4)
        stop = at + 4 + length
        body_at = at + 8 + mark
        # With another type of header, mark is beyond any limit.
        if mark >> 24 or length > most_length or mark > most_header or body_at > stop or stop > end:
            break
        command = read_header(begin + at + 8, begin + body_at, data, body_at, stop)
        if command is None:
            break
        commands.append(command)
        at = stop
    return at

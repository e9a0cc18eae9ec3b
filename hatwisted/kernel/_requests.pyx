# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""The frames of a read that are sends as Java clients write them; `wire.remoting` reads all others.

A header is taken here only if each of its bytes is where fastjson puts it. Whatever is unusual, be it valid or
not (another order, a letter beyond ASCII, a field twice, a number with a leading zero), is left to the ordinary
decoder, so that this one can't differ from it in what it accepts or how it refuses.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from hatwisted.wire.remoting import SendCommand
from hatwisted.wire.requestheader import NOT_SAID, SendHeader

include "sendlexer.pxi"

cdef extern from "Python.h":
    ctypedef struct PyListObject:
        PyObject **ob_item

INTERFACE = 14

cdef object COMMAND = SendCommand
cdef object HEADER = SendHeader
cdef object UNSAID = NOT_SAID
cdef int FIELDS = 14
cdef unsigned int REQUIRED = 0xFF

if SendHeader.__struct_fields__ != (
    "producer_group", "topic", "default_topic", "default_topic_queue_nums", "queue_id", "sys_flag",
    "born_timestamp", "flag", "properties", "reconsume_times", "unit_mode", "max_reconsume_times", "batch",
    "broker_name",
) or SendCommand.__struct_fields__ != (
    "code", "opaque", "flag", "language", "version", "remark", "ext", "body", "binary", "header",
):
    raise ImportError("this was built for other fields")


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
    cdef Tail tail
    cursor.at, cursor.end = at, end
    code = read_code(&cursor)
    if code is None:
        return None
    header = read_fields(&cursor)
    if header is None:
        return None
    language = read_tail(&cursor, &tail)
    if language is None:
        return None
    cdef object body = PyBytes_FromStringAndSize(PyBytes_AS_STRING(data) + body_at, stop - body_at)
    return new_command(code, &tail, language, body, header, None, None)


def take_sends(bytes data not None, Py_ssize_t position, list commands not None, max_frame, max_header):
    """See `hatwisted.kernel.pure`."""
    cdef const char *begin = PyBytes_AS_STRING(data)
    cdef Frame frame
    frame.stop, frame.end = position, PyBytes_GET_SIZE(data)
    frame.most_length, frame.most_header = max_frame - 4, max_header
    if position < 0:
        raise IndexError("a negative place in the read")
    while next_frame(begin, &frame):
        command = read_header(begin + frame.at + 8, begin + frame.body_at, data, frame.body_at, frame.stop)
        if command is None:
            return frame.at
        commands.append(command)
    return frame.stop

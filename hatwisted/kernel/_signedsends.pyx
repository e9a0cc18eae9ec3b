# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""The frames of a read that are signed sends as Java clients write them, each with the bytes that its signature
covers; `wire.remoting` reads all others.

What is taken here, and what is left to the ordinary decoder, is as in `_requests`. So each value stands in the
header just as its text is signed, and what is covered is put together from the header's own bytes.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from hatwisted.wire.remoting import SignedSendCommand
from hatwisted.wire.signedsend import SignedSendHeader

include "sendlexer.pxi"

cdef extern from "Python.h":
    ctypedef struct PyListObject:
        PyObject **ob_item

INTERFACE = 14

cdef object COMMAND = SignedSendCommand
cdef object HEADER = SignedSendHeader
cdef enum:
    LETTERS = 14
    ACCESS_KEY = 14
    SECURITY_TOKEN = 15
    SIGNATURE = 16
    FIELDS = 17
    REQUIRED = 0xFF
cdef list UNSENT = [None] * (FIELDS - len(SignedSendHeader.__struct_defaults__))
UNSENT += SignedSendHeader.__struct_defaults__
"""What a header has where a field isn't sent."""

if SignedSendHeader.__struct_fields__ != (
    "producer_group", "topic", "default_topic", "default_topic_queue_nums", "queue_id", "sys_flag",
    "born_timestamp", "flag", "properties", "reconsume_times", "unit_mode", "max_reconsume_times", "batch",
    "broker_name", "access_key", "security_token", "signature",
) or SignedSendCommand.__struct_fields__ != (
    "code", "opaque", "flag", "language", "version", "remark", "ext", "body", "binary", "header", "encoded",
    "signed",
):
    raise ImportError("this was built for other fields")


cdef struct Covered:
    # The values as they are signed, and their bytes in all; the signature's own isn't.
    const char *at[FIELDS]
    Py_ssize_t size[FIELDS]
    Py_ssize_t total


cdef inline int field_named(Cursor *cursor) noexcept nogil:
    """The place of the field whose name comes next, up to and with the opening quote of its value; -1 if none is
    known by that name."""
    cdef int field
    if cursor.end - cursor.at < 5 or cursor.at[0] != c'"':
        return -1
    if cursor.at[2] == c'"':
        field = cursor.at[1] - c"a"
        if not 0 <= field < LETTERS:
            return -1
        cursor.at += 2
    elif literal(cursor, b'"AccessKey', 10):
        field = ACCESS_KEY
    elif literal(cursor, b'"SecurityToken', 14):
        field = SECURITY_TOKEN
    elif literal(cursor, b'"Signature', 10):
        field = SIGNATURE
    else:
        return -1
    return field if literal(cursor, b'":"', 3) else -1


cdef inline object read_fields(Cursor *cursor, list values, Covered *covered):
    """The header of the extFields behind their opening brace, up to and with the closing one; None if they are
    unusual. values: get the fields, which covered points into."""
    cdef unsigned int seen = 0
    cdef int field
    cdef int64_t found = 0
    cdef char mark
    while True:
        field = field_named(cursor)
        if field < 0 or seen >> field & 1:
            return None
        seen |= 1 << field
        covered.at[field] = cursor.at
        if field < 3 or field == 8 or field >= 13:
            # The language has its last text between those of the letters and these.
            value = text(cursor, field + (field >= LETTERS))
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
        if field < 3 or field == 8 or field >= 13:
            covered.at[field] = <const char *>PyUnicode_1BYTE_DATA(value)
            covered.size[field] = PyUnicode_GET_LENGTH(value)
        else:
            covered.size[field] = cursor.at - 1 - covered.at[field]
        if field != SIGNATURE:
            covered.total += covered.size[field]
        mark = cursor.at[0]
        cursor.at += 1
        if mark == c"}":
            break
        if mark != c",":
            return None
    if seen & REQUIRED != REQUIRED:
        return None
    return PyObject_Vectorcall(HEADER, (<PyListObject *>values).ob_item, FIELDS, NULL)


cdef inline char *add(char *place, Covered *covered, int field) noexcept nogil:
    memcpy(place, covered.at[field], covered.size[field])
    return place + covered.size[field]


cdef bytes signed_bytes(Covered *covered, const char *body, Py_ssize_t size):
    """The values in the order of their names, and the body."""
    cdef bytes content = PyBytes_FromStringAndSize(NULL, covered.total + size)
    cdef char *place = PyBytes_AS_STRING(content)
    cdef int field
    place = add(place, covered, ACCESS_KEY)
    place = add(place, covered, SECURITY_TOKEN)
    for field in range(LETTERS):
        place = add(place, covered, field)
    memcpy(place, body, size)
    return content


cdef object read_header(const char *at, const char *end, const char *stop):
    """The command of a send's header, with the body behind it; None if the header is unusual."""
    cdef Cursor cursor
    cdef Tail tail
    cdef Covered covered
    cdef list values = UNSENT[:]
    cdef int field
    for field in range(FIELDS):
        covered.at[field], covered.size[field] = at, 0
    covered.total = 0
    cursor.at, cursor.end = at, end
    code = read_code(&cursor)
    if code is None:
        return None
    header = read_fields(&cursor, values, &covered)
    if header is None:
        return None
    language = read_tail(&cursor, &tail)
    if language is None:
        return None
    cdef object body = PyBytes_FromStringAndSize(end, stop - end)
    cdef object encoded = PyBytes_FromStringAndSize(at, end - at)
    cdef object content = signed_bytes(&covered, end, stop - end)
    return new_command(code, &tail, language, body, header, encoded, content)


def take_signed_sends(bytes data not None, Py_ssize_t position, list commands not None, max_frame, max_header):
    """See `hatwisted.kernel.pure`."""
    cdef const char *begin = PyBytes_AS_STRING(data)
    cdef Frame frame
    frame.stop, frame.end = position, PyBytes_GET_SIZE(data)
    frame.most_length, frame.most_header = max_frame - 4, max_header
    if position < 0:
        raise IndexError("a negative place in the read")
    while next_frame(begin, &frame):
        command = read_header(begin + frame.at + 8, begin + frame.body_at, begin + frame.stop)
        if command is None:
            return frame.at
        commands.append(command)
    return frame.stop

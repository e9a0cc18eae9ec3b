# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""The puts of usual sends; `broker.send.admission` judges all others.

Usual is a single message to a topic and a queue that this read is known to be allowed, neither prepared nor
delayed, with properties of plain ASCII that say nothing of waiting, or say it as Java producers do.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.string cimport memcpy

from hatwisted.wire import layout
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import SendCommand, SignedSendCommand
from hatwisted.wire.requestheader import SendHeader
from hatwisted.wire.signedsend import SignedSendHeader

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    unsigned char *PyUnicode_1BYTE_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    object PyObject_Vectorcall(object called, PyObject **arguments, size_t count, PyObject *names)

cdef extern from "slots.h":
    Py_ssize_t slot_place(object type, const char *name)
    PyObject *slot_get(PyObject *object, Py_ssize_t place)
    const char *find_bytes(const char *text, Py_ssize_t size, const char *sought, Py_ssize_t length)

INTERFACE = 14

cdef object COMMAND = SendCommand
cdef object HEADER = SendHeader
cdef object SIGNED_COMMAND = SignedSendCommand
cdef object SIGNED_HEADER = SignedSendHeader
cdef int SINGLE = RequestCode.SEND_MESSAGE_V2
cdef int TRANSACTION = layout.SYS_TRANSACTION_MASK
cdef int BORN_V6 = layout.SYS_BORN_HOST_V6
cdef bytes TRAN_MSG = layout.PROPERTY_TRANSACTION.encode() + b"\x01"
cdef bytes DELAY = layout.PROPERTY_DELAY.encode() + b"\x01"
cdef bytes WAIT = layout.PROPERTY_WAIT.encode() + b"\x01"
cdef bytes USUAL_WAIT = b"\x02" + layout.PROPERTY_WAIT.encode() + b"\x01true\x02"
cdef object YES = True
cdef object ZERO = 0
cdef bytes NOTHING = b""


cdef inline const char *find(const char *text, Py_ssize_t size, bytes sought):
    return find_bytes(text, size, PyBytes_AS_STRING(sought), PyBytes_GET_SIZE(sought))


cdef bytes stored(object text, bytes pair):
    """The properties as the log is to have them, of a put that wants to wait; None if they are unusual."""
    cdef const char *begin = <const char *>PyUnicode_1BYTE_DATA(text)
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(text), kept = size, dropped = 0
    if find(begin, size, TRAN_MSG) != NULL or find(begin, size, DELAY) != NULL:
        return None
    cdef const char *wait = find(begin, size, WAIT)
    if wait != NULL:
        # What counts is the first that says so in full, and only if something follows.
        wait = find(begin, size, USUAL_WAIT)
        if wait == NULL or wait + PyBytes_GET_SIZE(USUAL_WAIT) == begin + size:
            return None
        kept = wait - begin
        dropped = PyBytes_GET_SIZE(USUAL_WAIT) - 1
    cdef bint ended = size == 0 or begin[size - 1] == 2
    cdef Py_ssize_t rest = size - kept - dropped
    cdef bytes out = PyBytes_FromStringAndSize(NULL, kept + rest + (not ended) + PyBytes_GET_SIZE(pair))
    cdef char *place = PyBytes_AS_STRING(out)
    memcpy(place, begin, kept)
    memcpy(place + kept, begin + kept + dropped, rest)
    place += kept + rest
    if not ended:
        place[0] = 2
        place += 1
    memcpy(place, PyBytes_AS_STRING(pair), PyBytes_GET_SIZE(pair))
    return out


cdef struct Places:
    Py_ssize_t code, header, body
    Py_ssize_t topic, queue_id, sys_flag, born_timestamp, flag, properties, reconsume_times, batch


cdef Places places_of(object command, object header) except *:
    """Where the fields of a kind of request and of its header are kept."""
    cdef Places places
    places.code = slot_place(command, b"code")
    places.header = slot_place(command, b"header")
    places.body = slot_place(command, b"body")
    places.topic = slot_place(header, b"topic")
    places.queue_id = slot_place(header, b"queue_id")
    places.sys_flag = slot_place(header, b"sys_flag")
    places.born_timestamp = slot_place(header, b"born_timestamp")
    places.flag = slot_place(header, b"flag")
    places.properties = slot_place(header, b"properties")
    places.reconsume_times = slot_place(header, b"reconsume_times")
    places.batch = slot_place(header, b"batch")
    if min(
        places.code, places.header, places.body, places.topic, places.queue_id, places.sys_flag,
        places.born_timestamp, places.flag, places.properties, places.reconsume_times, places.batch,
    ) < 0:
        raise TypeError("requests don't keep their fields in slots")
    return places


cdef class UsualPuts:
    """See `hatwisted.kernel.UsualPuts`."""

    cdef object _put_type
    cdef bytes _pair
    cdef Places _plain, _signed

    def __init__(self, bytes pair not None, put_type not None):
        self._pair = pair
        self._put_type = put_type
        if put_type.__struct_fields__[:13] != (
            "topic", "queue_id", "entries", "born_host", "born_timestamp", "sys_flag", "reconsume_times",
            "prepared_transaction_offset", "wait", "token", "shared_properties", "content_size",
            "answer_queue_id",
        ):
            raise TypeError("this was built for other puts")
        self._plain = places_of(SendCommand, SendHeader)
        self._signed = places_of(SignedSendCommand, SignedSendHeader)

    cdef object _put(self, object request, dict known, bytes host):
        """The put of one request; None if it is unusual."""
        cdef Places *places
        cdef object wanted
        if type(request) is COMMAND:
            places, wanted = &self._plain, HEADER
        elif type(request) is SIGNED_COMMAND:
            places, wanted = &self._signed, SIGNED_HEADER
        else:
            return None
        if <int><object>slot_get(<PyObject *>request, places.code) != SINGLE:
            return None
        cdef object head = <object>slot_get(<PyObject *>request, places.header)
        if type(head) is not wanted:
            return None
        cdef PyObject *header = <PyObject *>head
        cdef object topic = <object>slot_get(header, places.topic)
        cdef object text = <object>slot_get(header, places.properties)
        cdef object body = <object>slot_get(<PyObject *>request, places.body)
        cdef object count = known.get(topic)
        cdef object queue_id = <object>slot_get(header, places.queue_id)
        cdef int flags = <object>slot_get(header, places.sys_flag)
        if count is None or not 0 <= <int>queue_id < <int>count or flags & TRANSACTION:
            return None
        if <object>slot_get(header, places.batch) is YES or not PyUnicode_IS_COMPACT_ASCII(text):
            return None
        if type(body) is not bytes:
            return None
        cdef bytes properties = stored(text, self._pair)
        if properties is None:
            return None
        flags &= ~BORN_V6
        if PyBytes_GET_SIZE(host) == 20:
            flags |= BORN_V6
        cdef object entries = ((<object>slot_get(header, places.flag), body, properties),)
        cdef object sys_flag = flags, size = PyBytes_GET_SIZE(body) + PyBytes_GET_SIZE(properties)
        cdef PyObject *arguments[13]
        arguments[0] = <PyObject *>topic
        arguments[1] = <PyObject *>queue_id
        arguments[2] = <PyObject *>entries
        arguments[3] = <PyObject *>host
        arguments[4] = slot_get(header, places.born_timestamp)
        arguments[5] = <PyObject *>sys_flag
        arguments[6] = slot_get(header, places.reconsume_times)
        arguments[7] = <PyObject *>ZERO
        arguments[8] = <PyObject *>YES
        arguments[9] = <PyObject *>request
        arguments[10] = <PyObject *>NOTHING
        arguments[11] = <PyObject *>size
        arguments[12] = <PyObject *>queue_id
        return PyObject_Vectorcall(self._put_type, arguments, 13, NULL)

    def take(self, requests, Py_ssize_t first, dict known not None, bytes host not None, list puts not None):
        cdef list all_requests = requests if type(requests) is list else list(requests)
        cdef Py_ssize_t index = first
        if first < 0:
            raise IndexError("a negative place in the list")
        while index < len(all_requests):
            put = self._put(all_requests[index], known, host)
            if put is None:
                break
            puts.append(put)
            index += 1
        return index

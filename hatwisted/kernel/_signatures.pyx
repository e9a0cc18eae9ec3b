# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""The signatures of usual signed sends, many at once; `acl.accounts` checks all others.

Usual is a send of an account that is known to be allowed to send to this topic, decoded by `_signedsends`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.string cimport memcpy, memset

from hashlib import sha1

from hatwisted.kernel.limits import SIGNATURES
from hatwisted.wire.remoting import SignedSendCommand
from hatwisted.wire.signedsend import SignedSendHeader

cdef extern from "Python.h":
    bint PyUnicode_CheckExact(object text)
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    unsigned char *PyUnicode_1BYTE_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)

cdef extern from "slots.h":
    Py_ssize_t slot_place(object type, const char *name)
    PyObject *slot_get(PyObject *object, Py_ssize_t place)
    void slot_set(PyObject *object, Py_ssize_t place, PyObject *value)

cdef extern from "sha1lanes.h":
    enum:
        BLOCK
        DIGEST_SIZE
    ctypedef struct lanes_key:
        pass
    ctypedef struct lanes_message:
        const unsigned char *at
        size_t size
        const lanes_key *key
        unsigned char *digest
    bint lanes_wide
    bint lanes_usable()
    void lanes_prepare(const unsigned char *secret, lanes_key *key)
    void lanes_sign(lanes_message *messages, size_t count)

INTERFACE = 14
USABLE = lanes_usable()
"""Can this processor do it?"""

cdef enum:
    TOGETHER = 32
    FEW = 3
    TEXT_SIZE = 28
if SIGNATURES != TOGETHER:
    raise ImportError("this was built for another number")

cdef object COMMAND = SignedSendCommand
cdef object HEADER = SignedSendHeader
cdef bytes NOTHING = b""
cdef const char *LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

cdef Py_ssize_t CODE = slot_place(SignedSendCommand, b"code")
cdef Py_ssize_t HEAD = slot_place(SignedSendCommand, b"header")
cdef Py_ssize_t ENCODED = slot_place(SignedSendCommand, b"encoded")
cdef Py_ssize_t SIGNED = slot_place(SignedSendCommand, b"signed")
cdef Py_ssize_t TOPIC = slot_place(SignedSendHeader, b"topic")
cdef Py_ssize_t ACCESS_KEY = slot_place(SignedSendHeader, b"access_key")
cdef Py_ssize_t SIGNATURE = slot_place(SignedSendHeader, b"signature")
if min(CODE, HEAD, ENCODED, SIGNED, TOPIC, ACCESS_KEY, SIGNATURE) < 0:
    raise ImportError("requests don't keep their fields in slots")


def take_avx512(bint wide):
    """Where it is there; a test wants to see AVX2, too."""
    global lanes_wide
    lanes_wide = wide


def signing_key(bytes secret not None):
    """See `hatwisted.kernel.pure.SigningKey`."""
    cdef unsigned char padded[BLOCK]
    cdef lanes_key key
    if not USABLE:
        raise RuntimeError("this processor has no vectors for it")
    if PyBytes_GET_SIZE(secret) > BLOCK:
        secret = sha1(secret).digest()
    memset(padded, 0, BLOCK)
    memcpy(padded, PyBytes_AS_STRING(secret), PyBytes_GET_SIZE(secret))
    lanes_prepare(padded, &key)
    return PyBytes_FromStringAndSize(<char *>&key, sizeof(lanes_key))


cdef bint is_text_of(const unsigned char *digest, const unsigned char *given) noexcept nogil:
    """Is `given` the digest in base64? In constant time."""
    cdef unsigned int difference = 0, three
    cdef int index
    for index in range(6):
        three = digest[3 * index] << 16 | digest[3 * index + 1] << 8 | digest[3 * index + 2]
        difference |= <unsigned char>LETTERS[three >> 18] ^ given[4 * index]
        difference |= <unsigned char>LETTERS[three >> 12 & 63] ^ given[4 * index + 1]
        difference |= <unsigned char>LETTERS[three >> 6 & 63] ^ given[4 * index + 2]
        difference |= <unsigned char>LETTERS[three & 63] ^ given[4 * index + 3]
    three = digest[18] << 8 | digest[19]
    difference |= <unsigned char>LETTERS[three >> 10] ^ given[24]
    difference |= <unsigned char>LETTERS[three >> 4 & 63] ^ given[25]
    difference |= <unsigned char>LETTERS[three << 2 & 63] ^ given[26]
    return difference | (c"=" ^ given[27]) == 0


cdef class Wish:
    """What one send of many asks for, which is mostly what the last one has asked for."""

    cdef object access_key, code, topic
    cdef bytes key

    cdef bint fits(self, PyObject *request, PyObject *header, dict keys, set granted) except -1:
        cdef object access_key = <object>slot_get(header, ACCESS_KEY)
        cdef object code = <object>slot_get(request, CODE)
        cdef object topic = <object>slot_get(header, TOPIC)
        if access_key is self.access_key and code is self.code and topic is self.topic:
            return True
        if (access_key, code, topic) not in granted:
            return False
        key = keys.get(access_key)
        if key is None or PyBytes_GET_SIZE(key) != sizeof(lanes_key):
            return False
        self.access_key, self.code, self.topic, self.key = access_key, code, topic, key
        return True


def check_signatures(requests, Py_ssize_t first, dict keys not None, set granted not None):
    """See `hatwisted.kernel.pure.CheckSignatures`."""
    cdef lanes_message messages[TOGETHER]
    cdef const unsigned char *given[TOGETHER]
    cdef list sends = requests if type(requests) is list else list(requests)
    cdef PyObject *header
    cdef Py_ssize_t index = first, count, checked, end = len(sends)
    cdef Wish wish = Wish.__new__(Wish)
    if first < 0:
        raise IndexError("a negative place among the requests")
    while end - index >= FEW:
        count = 0
        while count < TOGETHER and index + count < end:
            request = sends[index + count]
            if type(request) is not COMMAND:
                break
            head = <object>slot_get(<PyObject *>request, HEAD)
            if type(head) is not HEADER:
                break
            header = <PyObject *>head
            signed, text = <object>slot_get(<PyObject *>request, SIGNED), <object>slot_get(header, SIGNATURE)
            if not PyBytes_CheckExact(signed) or PyBytes_GET_SIZE(signed) == 0 or not PyUnicode_CheckExact(text):
                break
            if not PyUnicode_IS_COMPACT_ASCII(text) or PyUnicode_GET_LENGTH(text) != TEXT_SIZE:
                break
            if not wish.fits(<PyObject *>request, header, keys, granted):
                break
            messages[count].at = <const unsigned char *>PyBytes_AS_STRING(signed)
            messages[count].size = PyBytes_GET_SIZE(signed)
            messages[count].key = <const lanes_key *>PyBytes_AS_STRING(wish.key)
            given[count] = PyUnicode_1BYTE_DATA(text)
            count += 1
        if count < FEW:
            return index
        lanes_sign(messages, count)
        for checked in range(count):
            if not is_text_of(messages[checked].digest, given[checked]):
                return index
            request = sends[index]
            slot_set(<PyObject *>request, ENCODED, <PyObject *>NOTHING)
            slot_set(<PyObject *>request, SIGNED, <PyObject *>NOTHING)
            index += 1
        if count < TOGETHER:
            return index
    return index

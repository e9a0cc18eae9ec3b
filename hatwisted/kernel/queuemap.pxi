# Ends of queues, and where they are found by the bytes of a topic. See `hatwisted.kernel.queueends` for both.
#
# A message to one queue of thousands finds nothing of that queue in the processor's caches. So little is looked at (a
# slot of the map, the queue's end, the name it's compared with), and it's asked for ahead, of all queues of a run
# together.

from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdlib cimport calloc

from types import MappingProxyType

cdef extern from "siphash.h":
    uint64_t siphash(const char *text, int64_t size, uint64_t first_key, uint64_t second_key) nogil

cdef extern from "Python.h":
    ctypedef struct ByteArray "PyByteArrayObject":
        Py_ssize_t ob_alloc

cdef enum:
    FIRST_BITS = 6

# As hard to guess as the key of Python's own tables of texts, and as settled where PYTHONHASHSEED settles that.
cdef uint64_t FIRST_KEY = <uint64_t><int64_t>hash("queues of the map")
cdef uint64_t SECOND_KEY = <uint64_t><int64_t>hash("map of queues")


cdef inline uint64_t queue_hash(const char *topic, int64_t size, int64_t queue_id) noexcept nogil:
    return siphash(topic, size, FIRST_KEY ^ <uint64_t>queue_id, SECOND_KEY)


cdef class QueueTail:
    """See `hatwisted.kernel.queueends`."""

    cdef readonly int64_t queue_id
    cdef public int64_t max_offset, max_physical, _end, _written, _file_end
    cdef readonly bytearray _tail
    cdef object _on_tail
    cdef const char *_name
    cdef Py_ssize_t _name_size
    cdef readonly str topic

    def __cinit__(self, *_, **__):
        self._tail = bytearray()

    def __init__(self, str topic not None, int64_t queue_id, on_tail):
        if self._name != NULL:
            raise TypeError("a queue keeps its name")
        self.topic, self.queue_id, self._on_tail = topic, queue_id, on_tail
        if topic.isascii():
            self._name = PyUnicode_AsUTF8AndSize(topic, &self._name_size)
        else:  # no usual record is for this one, and no slot
            self._name, self._name_size = b"", -1

    cdef inline bint _is_named(self, const char *topic, int64_t size, int64_t queue_id) noexcept nogil:
        return self.queue_id == queue_id and self._name_size == size and memcmp(self._name, topic, size) == 0

    cdef char *_room(self, int64_t first_index, int64_t size, int64_t physical) except? NULL:
        """Where so many bytes of entries go; NULL if the tail doesn't take them."""
        cdef Py_ssize_t waiting = PyByteArray_GET_SIZE(self._tail)
        if (first_index != self.max_offset or physical < self.max_physical or waiting + size > TAIL or size < ENTRY
                or self._written + waiting + size > self._file_end):
            return NULL
        if not waiting:
            self._on_tail(self)
        if waiting + size >= (<ByteArray *>self._tail).ob_alloc:
            # Python would give it little more than that, and the next entry other memory again.
            PyByteArray_Resize(self._tail, 2 * (waiting + size) - 1)
        PyByteArray_Resize(self._tail, waiting + size)
        self._end = self._written + waiting + size
        self.max_offset = self._end // ENTRY
        return PyByteArray_AS_STRING(self._tail) + waiting

    def gather(self, int64_t first_index, bytes entries not None, int64_t physical):
        """See `hatwisted.kernel.queueends`."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(entries)
        cdef char *place = self._room(first_index, size, physical)
        if place == NULL:
            return False
        memcpy(place, PyBytes_AS_STRING(entries), size)
        self.max_physical = get64(place + size - ENTRY) + <int32_t>get32(place + size - ENTRY + 8)
        return True

    def _advance(self, int64_t end, bytes entries not None):
        """See `hatwisted.kernel.queueends`."""
        cdef const char *last = PyBytes_AS_STRING(entries) + PyBytes_GET_SIZE(entries) - ENTRY
        if PyBytes_GET_SIZE(entries) < ENTRY:
            raise ValueError("no entry")
        self._end = end
        self.max_offset = end // ENTRY
        self.max_physical = get64(last) + <int32_t>get32(last + 8)


cdef struct Slot:
    uint64_t hash
    PyObject *tail
    bint used


cdef class QueueMap:
    """See `hatwisted.kernel.queueends`. Slots refer to what the dict holds, if its topic is ASCII; one whose queue was
    removed stays used, without a queue, until the slots are made anew."""

    cdef dict _queues
    cdef readonly object by_name
    cdef Slot *_slots
    cdef int _bits
    cdef Py_ssize_t _used

    def __cinit__(self):
        self._queues = {}
        self.by_name = MappingProxyType(self._queues)
        self._make(FIRST_BITS)

    def __dealloc__(self):
        free(self._slots)

    def put(self, QueueTail queue not None):
        """See `hatwisted.kernel.queueends`."""
        key = (queue.topic, queue.queue_id)
        if queue._name == NULL:
            raise TypeError("a queue that hasn't got its name yet")
        if key in self._queues:
            raise KeyError(f"{key} is there")
        if 2 * (self._used + 1) > (<Py_ssize_t>1 << self._bits):
            self._make(self._bits_for(len(self._queues) + 1))
        self._queues[key] = queue
        self._link(queue)

    def remove(self, QueueTail queue not None):
        """See `hatwisted.kernel.queueends`."""
        if self._queues.get((queue.topic, queue.queue_id)) is not queue:
            raise KeyError(f"{queue.topic!r}, {queue.queue_id} isn't there")
        if queue._name_size >= 0:
            self._slot_of(queue).tail = NULL
        del self._queues[queue.topic, queue.queue_id]

    cdef int _bits_for(self, Py_ssize_t queues):
        """For at most a quarter of the slots used."""
        cdef int bits = FIRST_BITS
        while (<Py_ssize_t>1 << bits) < 4 * queues:
            bits += 1
        return bits

    cdef _make(self, int bits):
        """The slots anew, for what the dict holds."""
        cdef Slot *slots = <Slot *>calloc(<size_t>1 << bits, sizeof(Slot))
        if slots == NULL:
            raise MemoryError
        free(self._slots)
        self._slots, self._bits, self._used = slots, bits, 0
        for queue in self._queues.values():
            self._link(<QueueTail>queue)

    cdef void _link(self, QueueTail queue) noexcept:
        cdef uint64_t hashed
        cdef Slot *slot
        if queue._name_size < 0:
            return
        hashed = queue_hash(queue._name, queue._name_size, queue.queue_id)
        slot = self._first(hashed)
        while slot.used:
            slot = self._next(slot)
        slot.hash, slot.tail, slot.used = hashed, <PyObject *>queue, True
        self._used += 1

    cdef inline Slot *_first(self, uint64_t hashed) noexcept nogil:
        return &self._slots[hashed >> (64 - self._bits)]

    cdef inline Slot *_next(self, Slot *slot) noexcept nogil:
        return self._slots if slot + 1 == self._slots + (<Py_ssize_t>1 << self._bits) else slot + 1

    cdef Slot *_slot_of(self, QueueTail queue) noexcept:
        """Of a queue that has one."""
        cdef Slot *slot = self._first(queue_hash(queue._name, queue._name_size, queue.queue_id))
        while slot.tail != <PyObject *>queue:
            slot = self._next(slot)
        return slot

    cdef PyObject *_guess(self, uint64_t hashed) noexcept nogil:
        """The queue that is probably meant, without a look at it; NULL if there's none."""
        cdef Slot *slot = self._first(hashed)
        while slot.used and (slot.hash != hashed or slot.tail == NULL):
            slot = self._next(slot)
        return slot.tail if slot.used else NULL

    cdef QueueTail _find(self, uint64_t hashed, const char *topic, int64_t size, int64_t queue_id):
        cdef Slot *slot = self._first(hashed)
        while slot.used:
            if slot.hash == hashed and slot.tail != NULL and (<QueueTail>slot.tail)._is_named(topic, size, queue_id):
                return <QueueTail>slot.tail
            slot = self._next(slot)
        return None

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""Items of an index file and their chains; `store.index.indexfile` does the same by columns."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

cdef extern from "slots.h":
    void put32(char *at, uint32_t value) nogil
    void put64(char *at, uint64_t value) nogil
    uint32_t get32(const char *at) nogil

cdef extern from "fetch.h":
    void fetch(const char *at) nogil

INTERFACE = 14

cdef enum:
    ITEM = 20
    SLOT = 4
    AHEAD = 32  # items

cdef int64_t MOST_SECONDS = 0x7FFFFFFF
cdef Py_ssize_t MOST_ITEMS = 1 << 24


cdef inline int32_t seconds_since(int64_t begin, int64_t stamp) noexcept nogil:
    cdef int64_t passed = <int64_t>(<uint64_t>stamp - <uint64_t>begin)
    if begin <= 0 or passed <= 0:
        return 0
    passed //= 1000
    return <int32_t>(passed if passed < MOST_SECONDS else MOST_SECONDS)


cdef inline int64_t slot_of_hash(int32_t hashed, int64_t slot_count) noexcept nogil:
    cdef int64_t slot = hashed % slot_count
    return slot if slot >= 0 else slot + slot_count


cdef class ItemLinker:
    """See `hatwisted.kernel.pure.ItemLinkerTwin`."""

    cdef Py_ssize_t _slots_at
    cdef int64_t _slot_count

    def __init__(self, Py_ssize_t slots_at, Py_ssize_t slot_count):
        if slots_at < 0 or not 0 < slot_count < 1 << 31:
            raise ValueError(f"{slot_count} slots at {slots_at}")
        self._slots_at = slots_at
        self._slot_count = slot_count

    def link(
        self,
        const unsigned char[::1] pages not None,
        int32_t first,
        int64_t begin,
        const int32_t[::1] hashes not None,
        const int64_t[::1] physical not None,
        const int64_t[::1] timestamps not None,
    ):
        cdef Py_ssize_t count = hashes.shape[0], room = 2, place, number, touched = 0, unused = 0
        cdef int64_t slot
        cdef int32_t previous
        cdef int32_t *last
        if physical.shape[0] != count or timestamps.shape[0] != count:
            raise ValueError("columns of different lengths")
        if not 0 < count <= MOST_ITEMS or not 0 < first <= 0x7FFFFFFF - count:
            raise ValueError(f"{count} items from {first} on")
        if pages.shape[0] - self._slots_at < self._slot_count * SLOT:
            raise ValueError("the pages have no room for the slots")
        while room < 2 * count:
            room *= 2
        cdef bytes items = PyBytes_FromStringAndSize(NULL, count * ITEM)
        cdef bytes slots = PyBytes_FromStringAndSize(NULL, count * sizeof(int64_t))
        cdef char *item = PyBytes_AS_STRING(items)
        cdef int64_t *slot_of = <int64_t *>PyBytes_AS_STRING(slots)
        # By slot: its place in `slot_of`, and its newest item here, counted from 1.
        cdef int32_t *table = <int32_t *>malloc((2 * room + count) * sizeof(int32_t))
        if table == NULL:
            raise MemoryError
        cdef int32_t *newest = table + 2 * room
        cdef const char *heads = <const char *>&pages[0] + self._slots_at
        try:
            with nogil:
                memset(table, 0, room * sizeof(int32_t))
                # Heads lie all over the file's slots: each is asked for some items before it's read.
                for number in range(min(count, AHEAD)):
                    fetch(heads + slot_of_hash(hashes[number], self._slot_count) * SLOT)
                for number in range(count):
                    if number + AHEAD < count:
                        fetch(heads + slot_of_hash(hashes[number + AHEAD], self._slot_count) * SLOT)
                    slot = slot_of_hash(hashes[number], self._slot_count)
                    place = <Py_ssize_t>((<uint32_t>slot * 2654435761U) & <uint32_t>(room - 1))
                    while table[place] != 0 and slot_of[table[place] - 1] != slot:
                        place = (place + 1) & (room - 1)
                    if table[place] != 0:
                        last = newest + table[place] - 1
                        previous = last[0]
                    else:
                        previous = <int32_t>get32(heads + slot * SLOT)
                        # A head that isn't below `first` is a leftover.
                        if previous < 0 or previous >= first:
                            previous = 0
                        unused += previous == 0
                        slot_of[touched] = slot
                        last = newest + touched
                        touched += 1
                        table[place] = <int32_t>touched
                    last[0] = first + <int32_t>number
                    put32(item, <uint32_t>hashes[number])
                    put64(item + 4, <uint64_t>physical[number])
                    put32(item + 12, <uint32_t>seconds_since(begin, timestamps[number]))
                    put32(item + 16, <uint32_t>previous)
                    item += ITEM
            values = PyBytes_FromStringAndSize(NULL, touched * SLOT)
            for number in range(touched):
                put32(PyBytes_AS_STRING(values) + number * SLOT, <uint32_t>newest[number])
        finally:
            free(table)
        return items, slots[: touched * sizeof(int64_t)], values, unused

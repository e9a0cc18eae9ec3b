"""isal's CRC-32 itself, where its library shows it: a call through Python costs as much as a KiB's sum. For `_records`,
`_walk` and `_columns`, each of which includes this."""

import ctypes

from libc.stdint cimport uint32_t, uint64_t, uintptr_t

from isal import isal_zlib

ctypedef uint32_t (*Crc)(uint32_t, const unsigned char *, uint64_t) noexcept nogil

cdef Crc crc_of_c = NULL


def _find_crc():
    global crc_of_c
    try:
        address = ctypes.cast(ctypes.CDLL(isal_zlib.__file__).crc32_gzip_refl, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return
    cdef Crc found = <Crc><uintptr_t>address
    if found(0, b"123456789", 9) == 0xCBF43926:
        crc_of_c = found


_find_crc()

"""How much freed memory this process keeps, of what it will want again within milliseconds.

A slave that catches up gets its log in reads of 2 MiB and holds some of them until they're dispatched. By itself
glibc gives back the end of the heap whenever 2 MiB there are free, and the kernel then clears the same pages anew:
a tenth of the slave's processor time. What is kept instead is bounded here, and given back once its link
rests or is lost.
"""

from __future__ import annotations

import ctypes
from typing import Final

KEPT_FREE: Final = 16 << 20
"""Bytes at the heap's end that may be free before they're given back: twice what a slave keeps for dispatch."""

OF_ITS_OWN: Final = 4 << 20
"""Bytes of a piece of memory that gets a mapping of its own, which goes back to the kernel with it: above any read
of a socket, and below the largest messages."""

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""glibc's names of the two in malloc.h."""


def keep_freed_memory() -> bool:
    """Set both limits for this process; False where its C library has none."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    set_apart = bool(mallopt(_MMAP_THRESHOLD, OF_ITS_OWN))
    kept = bool(mallopt(_TRIM_THRESHOLD, KEPT_FREE))
    return set_apart and kept


def give_back_memory() -> bool:
    """Give all freed memory that can be back to the system, in a few milliseconds. False if there was none, or
    where the C library can't."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and bool(trim(ctypes.c_size_t(0)))

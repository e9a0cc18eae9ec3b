"""Content for logs that is compared as bytes."""

from __future__ import annotations

from random import Random


def pattern(size: int, seed: int = 7) -> bytes:
    """Bytes without a period, so that a lost or repeated byte shows."""
    return Random(seed).randbytes(size)

"""The bytes of a piece of log as numpy sees them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Buffer = bytes | memoryview
Longs = npt.NDArray[np.int64]


def at_every_byte(buf: Buffer, width: int, dtype: str | None = None) -> npt.NDArray[Any]:
    """What begins at every byte position, without a copy.

    - buf: the bytes
    - width: bytes at each position
    - dtype: numpy's name of what they are; None: plain bytes
    """
    return np.ndarray((max(len(buf) - width + 1, 0),), dtype or f"V{width}", buf, 0, (1,))

"""Bodies as they travel: compressed from a size on, marked by bits of the sysFlag.

zlib is what every version reads, so it's what we write. LZ4 and Zstandard come from 5.x producers; their
libraries are used when they are installed and never required.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Any, Final

from hatwisted.clientcore.errors import UnreadableBody
from hatwisted.wire import layout
from hatwisted.wire.inflate import MAX_INFLATED, NotInflated, inflate

COMPRESS_ABOVE: Final = 4096
"""Bytes of a body from which it is compressed (4.9.7: compressMsgBodyOverHowmuch)."""
LEVEL: Final = 5


def compress(body: bytes, above: int = COMPRESS_ABOVE) -> tuple[bytes, int]:
    """(body as it travels, sysFlag bits). Left as it is below `above` bytes, or if it wouldn't shrink."""
    if len(body) <= above:
        return body, 0
    packed = zlib.compress(body, LEVEL)
    if len(packed) >= len(body):
        return body, 0
    return packed, layout.SYS_COMPRESSED | layout.SYS_COMPRESSION_ZLIB


def decompress(body: bytes, sys_flag: int) -> bytes:
    """The body its producer gave. Raises UnreadableBody."""
    if not sys_flag & layout.SYS_COMPRESSED:
        return body
    kind = sys_flag & layout.SYS_COMPRESSION_MASK
    if kind in (0, layout.SYS_COMPRESSION_ZLIB):
        try:
            return inflate(body)
        except NotInflated as error:
            raise UnreadableBody(f"the body is {error}") from None
    name, unpack = _UNPACKED.get(kind, ("", None))
    if unpack is None:
        raise UnreadableBody(
            f"the body is compressed with compression type {kind >> 8}; install a later version"
        )
    try:
        return unpack(body)
    except ImportError:
        raise UnreadableBody(
            f"the body is compressed with {name}: pip install 'hatwisted[compression]'"
        ) from None
    except Exception as error:
        raise UnreadableBody(f"not a {name} body: {error}") from None


def _of_lz4(body: bytes) -> bytes:
    library: Any = importlib.import_module("lz4.frame")
    frame = library.LZ4FrameDecompressor()
    plain: bytes = frame.decompress(body, max_length=MAX_INFLATED + 1)
    if len(plain) > MAX_INFLATED:
        raise ValueError(_TOO_MUCH)
    if not frame.eof:
        raise ValueError("it breaks off")
    return plain


def _of_zstandard(body: bytes) -> bytes:
    library: Any = importlib.import_module("zstandard")
    # A frame that says its size is given room for that, whatever the limit is.
    if library.frame_content_size(body) > MAX_INFLATED:
        raise ValueError(_TOO_MUCH)
    plain: bytes = library.ZstdDecompressor().decompress(body, max_output_size=MAX_INFLATED)
    return plain


_TOO_MUCH: Final = f"more than {MAX_INFLATED} bytes when decompressed"
_UNPACKED: Final[dict[int, tuple[str, Callable[[bytes], bytes]]]] = {
    layout.SYS_COMPRESSION_LZ4: ("LZ4", _of_lz4),
    layout.SYS_COMPRESSION_ZSTD: ("Zstandard", _of_zstandard),
}

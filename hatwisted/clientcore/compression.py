"""Bodies as they travel: compressed from a size on, marked by bits of the sysFlag.

zlib is what every version reads, so it's what we write. LZ4 and Zstandard come from 5.x producers; their
libraries are used when they are installed and never required.
"""

from __future__ import annotations

import importlib
import zlib
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
    module, name = {
        layout.SYS_COMPRESSION_LZ4: ("lz4.frame", "LZ4"),
        layout.SYS_COMPRESSION_ZSTD: ("zstandard", "Zstandard"),
    }.get(kind, ("", f"compression type {kind >> 8}"))
    try:
        library = importlib.import_module(module)
    except (ImportError, ValueError):
        raise UnreadableBody(
            f"the body is compressed with {name}; install {module or 'a later version'}"
        ) from None
    try:
        return _unpack(library, body, kind)
    except Exception as error:
        raise UnreadableBody(f"not a {name} body: {error}") from None


def _unpack(library: Any, body: bytes, kind: int) -> bytes:
    if kind == layout.SYS_COMPRESSION_LZ4:
        return bytes(library.decompress(body))
    # Frames written as a stream don't say their size: the limit has to be given.
    return bytes(library.ZstdDecompressor().decompress(body, max_output_size=MAX_INFLATED))

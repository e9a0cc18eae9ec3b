"""The PROXY protocol's header, versions 1 and 2: what a load balancer writes before a client's bytes to say whose
they are (https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt).

Version 1 is a line of text, `PROXY TCP4 10.1.2.3 10.0.0.1 50312 10911`. Version 2 is binary: a signature of 12
bytes, version and command, family and protocol, a length, then addresses and ports, and type-length-values that
mean nothing here.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

SIGNATURE_1: Final = b"PROXY "
SIGNATURE_2: Final = b"\r\n\r\n\0\r\nQUIT\n"

MAX_LINE: Final = 107
"""Bytes of a version 1 header with its CRLF: the protocol's own limit."""
MAX_HEADER: Final = 2048
"""Bytes of a version 2 header: addresses take 52 of them, the rest are type-length-values that proxies add."""

_FIXED: Final = struct.Struct(">12sBBH")
_LOCAL, _PROXY = 0x20, 0x21
"""Version and command: the proxy speaks for itself, or for a client."""
_TCP: Final = {0x11: (4, IPv4Address), 0x21: (16, IPv6Address)}
"""Family and protocol -> bytes of an address, and its type."""


class ProxyHeaderError(ValueError):
    """The bytes are no such header."""


class ProxyHeader(NamedTuple):
    """client: (address, port) of whom the proxy speaks for; None: for itself, or for somebody it can't name.
    size: bytes that the header took."""

    client: tuple[str, int] | None
    size: int


def parse_proxy_header(data: bytes) -> ProxyHeader | None:
    """The header that `data` begins with; None if it hasn't come whole. Raises ProxyHeaderError."""
    if data.startswith(SIGNATURE_2):
        return _parse_2(data)
    if data.startswith(SIGNATURE_1):
        return _parse_1(data)
    if SIGNATURE_1.startswith(data) or SIGNATURE_2.startswith(data):
        return None
    raise ProxyHeaderError("no PROXY header")


def _parse_1(data: bytes) -> ProxyHeader | None:
    line, end, _ = data[:MAX_LINE].partition(b"\r\n")
    if not end:
        if len(data) >= MAX_LINE:
            raise ProxyHeaderError(f"a PROXY line of more than {MAX_LINE} bytes")
        return None
    words = line.split(b" ")
    size = len(line) + 2
    if words[1] == b"UNKNOWN":
        return ProxyHeader(None, size)
    if len(words) != 6 or words[1] not in (b"TCP4", b"TCP6"):
        raise ProxyHeaderError(f"a malformed PROXY line: {line!r}")
    (source, _), (port, _) = (
        [_address(word, words[1]) for word in words[2:4]],
        [_port(word) for word in words[4:]],
    )
    return ProxyHeader((source, port), size)


def _address(text: bytes, family: bytes) -> str:
    try:
        address = ip_address(text.decode("ascii"))
    except ValueError:
        raise ProxyHeaderError(f"{text!r} isn't an address") from None
    if address.version != int(family[-1:]):
        raise ProxyHeaderError(f"{address} isn't an address of {family.decode()}")
    return str(address)


def _port(text: bytes) -> int:
    if not text.isdigit() or len(text) > 5 or int(text) > 0xFFFF:
        raise ProxyHeaderError(f"{text!r} isn't a port")
    return int(text)


def _parse_2(data: bytes) -> ProxyHeader | None:
    if len(data) < _FIXED.size:
        return None
    _, command, family, length = _FIXED.unpack_from(data)
    size = _FIXED.size + length
    if size > MAX_HEADER:
        raise ProxyHeaderError(f"a PROXY header of {size} bytes, at most {MAX_HEADER} are allowed")
    if command not in (_LOCAL, _PROXY):
        raise ProxyHeaderError(f"version and command {command:#04x} of a PROXY header")
    if len(data) < size:
        return None
    if command == _LOCAL or family not in _TCP:
        return ProxyHeader(None, size)
    width, kind = _TCP[family]
    if length < 2 * width + 4:
        raise ProxyHeaderError(f"a PROXY header with {length} bytes of addresses")
    at = _FIXED.size
    (port,) = struct.unpack_from(">H", data, at + 2 * width)
    return ProxyHeader((str(kind(data[at : at + width])), port), size)

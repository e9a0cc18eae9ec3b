"""A host as records and message ids store it (raw address bytes and a port), and as servers name it."""

from __future__ import annotations

import ipaddress
import struct
from typing import Final, NamedTuple

_V4: Final = struct.Struct(">4si")
_V6: Final = struct.Struct(">16si")


class HostPort(NamedTuple):
    """An IPv4 or IPv6 address (4 or 16 bytes) and a port. The port is an int32 on disk and isn't checked."""

    address: bytes
    port: int

    @property
    def is_ipv6(self) -> bool:
        """Does it take 20 bytes instead of 8?"""
        return len(self.address) == 16

    def pack(self) -> bytes:
        """8 bytes, or 20 for IPv6: address, then port as int32."""
        layout = {4: _V4, 16: _V6}.get(len(self.address))
        if layout is None:
            raise ValueError(f"an address has 4 or 16 bytes, not {len(self.address)}")
        return layout.pack(self.address, self.port)

    @classmethod
    def unpack(cls, data: bytes | memoryview, position: int = 0, *, ipv6: bool = False) -> HostPort:
        """Read an address and a port; ValueError when there are fewer bytes.

        - data: holds them
        - position: of the first byte
        - ipv6: 20 bytes instead of 8
        """
        try:
            return cls(*(_V6 if ipv6 else _V4).unpack_from(data, position))
        except struct.error:
            raise ValueError(f"no {20 if ipv6 else 8} bytes of host and port at {position}") from None

    @classmethod
    def parse(cls, text: str) -> HostPort:
        """From `10.0.0.1:10911` or `[fd00::1]:10911`; ValueError for names and anything else."""
        host, colon, port = text.rpartition(":")
        if not colon or not (port.isascii() and port.isdigit()) or int(port) > 0xFFFF:
            raise ValueError(f"not address:port: {text!r}")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        return cls(ipaddress.ip_address(host).packed, int(port))

    def __str__(self) -> str:
        host = str(ipaddress.ip_address(self.address))
        return f"[{host}]:{self.port}" if self.is_ipv6 else f"{host}:{self.port}"


def host_and_port(address: str) -> tuple[str, int]:
    """("host", port) of "host:port" as servers register it (the host may be an IPv6 address, with or without
    brackets); ValueError with the text otherwise."""
    host, colon, port = address.strip().rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"not an address of the form host:port: {address!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)

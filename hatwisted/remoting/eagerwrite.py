"""Writing at once instead of on the reactor's next turn.

`ITransport.write` only queues: the bytes leave when the reactor has polled again and found the socket
writable, which costs two epoll_ctl calls and one trip through the event loop per answer. A frame of the HA
link, its acknowledgement and the producer's answer each pay that on a synchronous send, so a plain TCP
transport with nothing queued is written to directly and only what the kernel didn't take is queued.

Rejected: calling `transport.doWrite` after `write` (keeps the epoll_ctl calls), and a transport class of our
own (Twisted's buffering and producer rules would have to be written again).
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sized
from typing import Any, Final, TypeGuard, cast

from twisted.internet.interfaces import ITransport
from twisted.internet.tcp import Connection


class DirectTransport:
    """A transport without a socket that takes bytes from within the call all the same, by the names of Twisted's
    `Connection`. Known by its class: a TLS wrapper passes on the attributes and interfaces of what it wraps, and
    would be written around.
    """

    TLS = False
    SEND_LIMIT = sys.maxsize
    """Bytes that `writeSomeData` takes at most."""
    connected: bool
    disconnecting: bool
    _tempDataBuffer: Sized = ()

    @property
    def dataBuffer(self) -> Sized:
        """What waits to leave."""
        raise NotImplementedError

    def writeSomeData(self, data: bytes) -> int | Exception:
        """How many bytes of `data` have left, or why none can."""
        raise NotImplementedError

    def startWriting(self) -> None:
        """Tell the producer, if it's paused, once all has left."""
        raise NotImplementedError

    def fileno(self) -> int:
        """As a socket's; there's no descriptor."""
        return -1

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0, /) -> int:
        """As a socket's: how many bytes have left; BlockingIOError if none can now."""
        sent = self.writeSomeData(bytes(data))
        if isinstance(sent, Exception):
            raise ConnectionResetError(str(sent))
        if data and not sent:
            raise BlockingIOError
        return sent


MOST_AT_ONCE: Final = 512 << 10
"""Bytes of an answer that the kernel is given in one call, as long as it takes some: what is queued is copied, and
leaves in rounds of the loop in which others' requests wait."""

_DIRECT: Final = (Connection, DirectTransport)
"""Put together once: an answer is written in a few microseconds."""


def write_now(transport: ITransport, data: bytes) -> int:
    """Send `data` (bytes), from this very call as far as the kernel takes it; order is kept. Returns how many
    bytes wait for the kernel then.

    Falls back to `transport.write` for anything but a plain TCP connection (or a DirectTransport) with an empty
    buffer: TLS has to encrypt first, and queued bytes go first.
    """
    if _is_idle(transport):
        sent, taken = transport.writeSomeData(data), 0
        while isinstance(sent, int):
            taken += sent
            if taken == len(data):
                return 0
            if sent < transport.SEND_LIMIT or taken >= MOST_AT_ONCE:
                break
            sent = transport.writeSomeData(cast(bytes, memoryview(data)[taken:]))
        data = data[taken:]
        # An error means that the connection is lost: the queued write meets it again in the reactor's turn,
        # where Twisted calls connectionLost without re-entering our caller. Or the next read meets an orderly end:
        # that there was a reset is said to one call alone. Whoever has to know sees that all of it waits.
    transport.write(data)
    return unsent(transport)


def _is_idle(transport: ITransport) -> TypeGuard[Connection | DirectTransport]:
    """Is there nothing between those who write and the kernel?"""
    return (
        isinstance(transport, _DIRECT)
        and not transport.TLS
        and bool(transport.connected)
        and not transport.disconnecting
        and not transport.dataBuffer
        and not transport._tempDataBuffer
    )


def outlet(transport: ITransport) -> socket.socket | DirectTransport | None:
    """The socket, for bytes that are to leave in this very call; None where they have to be written to the
    transport (see `write_now`). What it doesn't take is the caller's to write, or to send when
    `resume_when_writable` has the producer resumed."""
    if not _is_idle(transport):
        return None
    return transport.getHandle() if isinstance(transport, Connection) else transport


def resume_when_writable(transport: ITransport) -> None:
    """Have the push producer of an `outlet`'s transport resumed once all that was written has left and the socket
    takes more, as if the transport had paused it: the producer has to take itself for paused."""
    plain: Any = transport
    plain.producerPaused = True
    plain.startWriting()


def unsent(transport: ITransport | None) -> int:
    """Bytes that were written and that the kernel hasn't taken; of TLS, encrypted ones."""
    queued = len(getattr(transport, "dataBuffer", b"")) - getattr(transport, "offset", 0)
    return max(0, queued + getattr(transport, "_tempDataLen", 0))


def carrier(transport: ITransport | None) -> Any:
    """What carries a transport's bytes: itself, or what lies beneath its TLS, which passes no setting on."""
    return getattr(transport, "below", transport)


def drop_unsent(transport: ITransport | None) -> None:
    """Forget what waits for the kernel on a connection that has been aborted: it would be kept until the reactor's
    next turn, in which others may have written as much."""
    plain = carrier(transport)
    if isinstance(plain, Connection):
        plain.dataBuffer, plain.offset = b"", 0
        plain._tempDataBuffer, plain._tempDataLen = [], 0

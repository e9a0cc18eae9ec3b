"""A channel's sockets on asyncio."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

from hatwisted.clientcore.calls import CONNECT_TIMEOUT, Channel, Dial
from hatwisted.clientcore.tls import tls_problem

CLOSE_TIMEOUT: Final = 1.0
"""Seconds for a server's own end of TLS, once we have said ours: RocketMQ's servers leave it out."""


class Link(asyncio.Protocol):
    """One connection of `channel`: bytes to the channel, whose Socket is the transport itself."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's: the socket is open."""
        assert isinstance(transport, asyncio.Transport)
        self._channel.connected(transport)

    def data_received(self, data: bytes) -> None:
        """asyncio's: bytes have arrived."""
        self._channel.received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's: the socket is closed."""
        self._channel.disconnected(str(exc or "by the server"))


def dialling(context: ssl.SSLContext | None) -> Dial:
    """As `clientcore.calls.Dial`, in the loop that runs. context: encrypts; None: connections are plain."""

    def dial(channel: Channel, host: str, port: int) -> Callable[[], object]:
        return asyncio.get_running_loop().create_task(_dial(channel, host, port, context)).cancel

    return dial


async def _dial(channel: Channel, host: str, port: int, context: ssl.SSLContext | None) -> None:
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            await asyncio.get_running_loop().create_connection(
                lambda: Link(channel),
                host,
                port,
                ssl=context,
                ssl_shutdown_timeout=None if context is None else CLOSE_TIMEOUT,
            )
    except OSError as error:  # asyncio's TimeoutError and those of TLS are some
        reason = tls_problem(error) or error.strerror or str(error)
        channel.not_connected(reason or f"no answer in {CONNECT_TIMEOUT:g} s")
    except UnicodeError:  # what the IDNA codec raises for an empty or overlong label
        channel.not_connected(f"{host!r} is not a host name")

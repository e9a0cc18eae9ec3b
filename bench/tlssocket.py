"""A socket that speaks TLS as Netty and Twisted do: what one write holds leaves in one piece.

Python's own `SSLSocket` makes a system call for each record of 16 KiB. Who reads at the other end is woken by the
first of them, and gets a batch in four or five parts: that would measure the generator's habits.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final

READ_BYTES: Final = 1 << 18


def unverified() -> ssl.SSLContext:
    """TLS with whoever is there: a broker without a word in its configuration makes its certificate itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class TlsSocket:
    """Has a socket's methods, as far as the load generator needs them.

    plain: connected and blocking; the handshake is done with it at once
    """

    def __init__(self, plain: socket.socket) -> None:
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = unverified().wrap_bio(self._incoming, self._outgoing)
        self._encrypted = memoryview(b"")
        self._taken = 0
        self.fileno, self.setblocking, self.settimeout = plain.fileno, plain.setblocking, plain.settimeout
        self._shake_hands()

    def send(self, data: memoryview) -> int:
        """How much of `data` the kernel has, once it has a whole piece; BlockingIOError until then. What is given
        next begins with what wasn't taken."""
        if not self._encrypted:
            self._taken = 0
            while self._taken < len(data):
                self._taken += self._session.write(data[self._taken :])
            self._encrypted = memoryview(self._outgoing.read())
        self._encrypted = self._encrypted[self._plain.send(self._encrypted) :]
        if self._encrypted:
            raise BlockingIOError
        return self._taken

    def recv(self, size: int) -> bytes:
        """What is there after one read; BlockingIOError if that makes no whole record, b"" at the end."""
        data = self._plain.recv(size)
        if not data:
            return data
        self._incoming.write(data)
        pieces = []
        try:
            while piece := self._session.read(size):
                pieces.append(piece)
        except ssl.SSLWantReadError:
            if not pieces:
                raise BlockingIOError from None
        return b"".join(pieces)

    def _shake_hands(self) -> None:
        while True:
            try:
                self._session.do_handshake()
            except ssl.SSLWantReadError:
                self._plain.sendall(self._outgoing.read())
                self._incoming.write(self._plain.recv(READ_BYTES))
            else:
                self._plain.sendall(self._outgoing.read())
                return

"""A TCP proxy for one link, that misbehaves on request: cut, stalled, lossy, refused, or split into tiny pieces.

Two plain threads a connection, so that it needs no reactor and works between any two processes. A stall stops
reading: the kernel's buffers fill and the peers see a full window, as with a dead cable. Each direction can be
stalled, limited or lossy by itself; on an HA link TOWARDS carries the slave's reports and BACK the log.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Self

READ_BYTES = 1 << 16
CONNECT_SECONDS = 5.0
POLL_SECONDS = 0.05
TOWARDS, BACK = 0, 1  # from the dialling side to the target, and back from it
BOTH = (TOWARDS, BACK)
_ABORT = struct.pack("ii", 1, 0)  # SO_LINGER: close sends a reset


class LinkProxy:
    """Listens on `port` and passes everything to 127.0.0.1:`target`."""

    def __init__(self, target: int, seed: int = 1) -> None:
        self.target = target
        self.connections = 0  # accepted so far
        self.passed = [0, 0]  # bytes: towards the target, back from it
        self._random = random.Random(seed)
        self._piece = 0  # most bytes of one write; 0: as they come
        self._open = [threading.Event(), threading.Event()]
        self._losing = [False, False]
        self._budget: list[int | None] = [None, None]  # bytes that may still pass before a stall
        self._refusing = False
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self.flow()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.port = int(self._listener.getsockname()[1])
        self._closed = False
        threading.Thread(target=self._accept, name="link proxy", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def cut(self, reset: bool = False) -> None:
        """Close all connections now; with `reset`, by RST and without the bytes under way."""
        with self._lock:
            victims, self._sockets = self._sockets, set()
        for victim in victims:
            with contextlib.suppress(OSError):
                _reset(victim) if reset else victim.shutdown(socket.SHUT_RDWR)
        self.flow()

    def stall(self, *directions: int) -> None:
        """Pass nothing on in these directions (none named: in both), close nothing."""
        for direction in directions or BOTH:
            self._open[direction].clear()

    def lose(self, direction: int) -> None:
        """Swallow what arrives from now on; whole messages only if they arrive whole, as reports do."""
        self._losing[direction] = True

    def stall_after(self, direction: int, count: int) -> None:
        """Pass on `count` bytes more, whatever they cut through."""
        self._budget[direction] = count

    def flow(self) -> None:
        """End every stall, limit and loss."""
        for direction in BOTH:
            self._losing[direction], self._budget[direction] = False, None
            self._open[direction].set()

    def split(self, most: int) -> None:
        """Pass bytes on in writes of 1 to `most` bytes, each its own segment; 0 ends it."""
        self._piece = most

    def refuse(self, yes: bool = True) -> None:
        """Close new connections at once."""
        self._refusing = yes

    def close(self) -> None:
        self._closed = True
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.target), CONNECT_SECONDS)
            except OSError:
                # As if nobody listened: to a slave three links that close after its report are a word of its
                # master's, which it heeds for half a minute.
                _reset(near)
                continue
            self.connections += 1
            self._join(near, far)

    def _join(self, near: socket.socket, far: socket.socket) -> None:
        for each in (near, far):
            each.settimeout(None)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._sockets |= {near, far}
        for direction, (source, sink) in enumerate(((near, far), (far, near))):
            threading.Thread(target=self._pump, args=(source, sink, direction), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, direction: int) -> None:
        try:
            while data := source.recv(READ_BYTES):
                if not self._losing[direction]:
                    self._pass_on(sink, data, direction)
        except OSError:
            pass
        with self._lock:
            self._sockets -= {source, sink}
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _pass_on(self, sink: socket.socket, data: bytes, direction: int) -> None:
        at = 0
        while at < len(data):
            while not self._open[direction].wait(POLL_SECONDS):
                pass
            size = self._random.randint(1, self._piece) if self._piece else len(data)
            piece = self._within_budget(data[at : at + size], direction)
            sink.sendall(piece)
            at += len(piece)
            self.passed[direction] += len(piece)
            if self._piece:
                time.sleep(0)  # let the reader run between two pieces

    def _within_budget(self, piece: bytes, direction: int) -> bytes:
        """What may pass of it; the last byte allowed begins the stall."""
        budget = self._budget[direction]
        if budget is None:
            return piece
        allowed = piece[:budget]
        self._budget[direction] = budget - len(allowed)
        if budget <= len(piece):
            self._budget[direction] = None
            self._open[direction].clear()
        return allowed


def _reset(end: socket.socket) -> None:
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
    end.close()

"""A slave played by a test over a real socket: it reports where its log would end, and acknowledges or is mute."""

from __future__ import annotations

import socket
import struct
import threading
from types import TracebackType
from typing import Self

REPORT = struct.Struct(">q")
HEADER = struct.Struct(">qi")


class PlayedSlave:
    """Connects to a master's HA port and asks for the log from `start` on. What comes is read and thrown away;
    while `acks` is set, each frame's end is reported."""

    def __init__(self, port: int, start: int) -> None:
        self.acks = threading.Event()
        self.acks.set()
        self._socket = socket.create_connection(("127.0.0.1", port), 10)
        self._socket.settimeout(None)
        self._socket.sendall(REPORT.pack(start))
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._socket.close()

    def _copy(self) -> None:
        with self._socket.makefile("rb") as stream:
            while len(header := stream.read(HEADER.size)) == HEADER.size:
                start, size = HEADER.unpack(header)
                if len(stream.read(size)) == size and size and self.acks.is_set():
                    self._socket.sendall(REPORT.pack(start + size))

"""A link on which bytes take their time, where the kernel has no netem: `python -m bench.delayline PORT TO MS`.

Connections to PORT are passed on to TO; what comes from either side reaches the other that much later, however
much is on its way (MOST_BYTES at most, as no link is longer). A program sees what it sees on such a link: an
answer that comes later. TCP's own windows stay those of loopback.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections import deque

CHUNK = 1 << 18
MOST_BYTES = 64 << 20


class Direction:
    """One way of a connection.

    - source, target: read from, and written to
    - delay: s
    """

    def __init__(self, source: socket.socket, target: socket.socket, delay: float) -> None:
        self._source, self._target, self._delay = source, target, delay
        self._on_its_way: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True).start()

    def _read(self) -> None:
        data = b"-"
        while data:
            try:
                data = self._source.recv(CHUNK)
            except OSError:
                data = b""
            with self._changed:
                self._changed.wait_for(lambda: self._bytes < MOST_BYTES)
                self._on_its_way.append((time.monotonic() + self._delay, data))
                self._bytes += len(data)
                self._changed.notify_all()

    def _write(self) -> None:
        data = b"-"
        with contextlib.suppress(OSError):
            while data:
                with self._changed:
                    self._changed.wait_for(lambda: self._on_its_way)
                    due, data = self._on_its_way.popleft()
                    self._bytes -= len(data)
                    self._changed.notify_all()
                time.sleep(max(0.0, due - time.monotonic()))
                self._target.sendall(data)
        for end in (self._target, self._source):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def serve(port: int, target: int, delay: float) -> None:
    """Pass on connections until the process is ended.

    - port, target: of loopback
    - delay: s, each way
    """
    with socket.create_server(("127.0.0.1", port)) as listener:
        print("listening", flush=True)
        while True:
            near, _ = listener.accept()
            try:
                far = socket.create_connection(("127.0.0.1", target))
            except OSError:
                near.close()
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Direction(near, far, delay)
            Direction(far, near, delay)


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000)

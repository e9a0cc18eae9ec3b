"""What this machine does without any of the contenders, in the same minute: a figure can't be better than that."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

SIZE = 256 << 20
"""Bytes of each loop."""
PIECE = 1 << 20


def bare_loops(folder: Path) -> dict[str, float]:
    """GB/s of writing a new file, of sendfile from it to a socket, and of a socket alone; the last two with a
    thread at the other end that only reads."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        number, piece = file.fileno(), b"\1" * PIECE
        rates = {"write": _timed(lambda: [os.pwrite(number, piece, at) for at in range(0, SIZE, PIECE)])}
        rates["sendfile"] = _to_reader(lambda out: _send_file(out, number))
        rates["socket"] = _to_reader(lambda out: _send(out, piece))
    return rates


def told(rates: dict[str, float]) -> str:
    """One line for the report."""
    each = ", ".join(f"{name} {rate:.2f}" for name, rate in rates.items())
    return f"bare loops of the same minute, GB/s: {each}"


def _timed(loop: Callable[[], object]) -> float:
    begun = time.perf_counter()
    loop()
    return SIZE / (time.perf_counter() - begun) / 1e9


def _send(out: socket.socket, piece: bytes) -> None:
    for _ in range(0, SIZE, len(piece)):
        out.sendall(piece)


def _send_file(out: socket.socket, number: int) -> None:
    at = 0
    while at < SIZE:
        at += os.sendfile(out.fileno(), number, at, SIZE - at)


def _to_reader(send: Callable[[socket.socket], object]) -> float:
    """The rate of `send`, which writes SIZE bytes to the socket that it's given."""
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, socket.create_connection(listener.getsockname()) as out:
        end, _ = listener.accept()

        def read() -> None:
            room, left = bytearray(PIECE), SIZE
            with end:
                while left and (got := end.recv_into(room)):
                    left -= got

        reader = threading.Thread(target=read, daemon=True)
        reader.start()

        def whole() -> None:
            send(out)
            reader.join()

        return _timed(whole)

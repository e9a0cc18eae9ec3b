"""`python -m bench.bareping [PINGS]`: how long a synchronous send takes where nobody does anything with it.

Three processes, connected as producer, master and slave are: the first sends as many bytes as a send has, the
second passes on as many as a frame has, waits for eight bytes of acknowledgement, and answers. All sleep in epoll
meanwhile, as brokers do. What this takes, p99 above all, is the machine's: where others use it too, a process that
is woken may wait for a core for milliseconds. Prints one JSON object: p50_ms, p99_ms, max_ms.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time

from testbed.processes import REPOSITORY

PINGS = 5000
REQUEST, FRAME, ACK, ANSWER = b"\1" * 1365, b"\2" * 1206, b"\3" * 8, b"\4" * 249
"""What a message of 1 KiB makes of each."""
SECONDS = 60.0  # that it may take
PERCENTILES = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1.0}


class End:
    """One end of a connection, which waits for its messages as a reactor does."""

    def __init__(self, stream: socket.socket) -> None:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = stream
        self._poll = select.epoll()
        self._poll.register(stream, select.EPOLLIN)

    def send(self, data: bytes) -> None:
        self._stream.sendall(data)

    def take(self, size: int) -> None:
        """Wait for a message of so many bytes."""
        while size:
            self._poll.poll()
            got = self._stream.recv(1 << 16)
            if not got:
                raise EOFError("the other end is gone")
            size -= len(got)


def connected() -> tuple[End, End]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dialled = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    return End(dialled), End(accepted)


def ping(pings: int = PINGS) -> dict[str, float]:
    """Milliseconds, in this process and two that it forks: not where threads run."""
    producer, master_in = connected()
    master_out, slave = connected()
    children = [os.fork()]
    if not children[0]:
        for _ in range(pings):
            slave.take(len(FRAME))
            slave.send(ACK)
        os._exit(0)
    children.append(os.fork())
    if not children[1]:
        for _ in range(pings):
            master_in.take(len(REQUEST))
            master_out.send(FRAME)
            master_out.take(len(ACK))
            master_in.send(ANSWER)
        os._exit(0)
    times = []
    for _ in range(pings):
        begun = time.perf_counter()
        producer.send(REQUEST)
        producer.take(len(ANSWER))
        times.append(1e3 * (time.perf_counter() - begun))
    for child in children:
        os.waitpid(child, 0)
    times.sort()
    return {name: times[min(pings - 1, int(pings * share))] for name, share in PERCENTILES.items()}


def told() -> str:
    """One line for the report, measured now by a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.bareping"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS,
    )
    figures = json.loads(done.stdout)
    return (
        "three processes that only pass a message on as producer, master and slave do, in the same minute: "
        f"{figures['p50_ms']:.3f} ms (p50), {figures['p99_ms']:.3f} ms (p99)"
    )


if __name__ == "__main__":
    print(json.dumps(ping(*map(int, sys.argv[1:]))))

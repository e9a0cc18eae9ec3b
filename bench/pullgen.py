"""Pull load for any broker that speaks RocketMQ remoting: consumers that read queues round and round.

    python -m bench.pullgen HOST PORT --consumers 4 --count 32 --seconds 10

Every consumer has one connection, one queue and one pull in flight, as a push consumer has for each of its
queues; at the queue's end it begins at 0 again, so that all is read from the page cache. Answers are counted,
not decoded: their length leads to the next frame, two regular expressions over the header yield code and
next offset, and the number of messages is what the offset has grown by.

Standard output carries one JSON object: `{"result": {"rate": messages/s, "bytes": bytes/s, "messages": how many,
"warmed": how many before those, ...}}`.
"""

from __future__ import annotations

import argparse
import json
import re
import select
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Sequence

from testbed.remotingclient import PULL_MESSAGE, RemotingClient, encode_frame, pull_fields

READ_BYTES = 1 << 20
OFFSET_PLACE = 9_999_999_999  # where the ten digits of the queue offset go
_NEXT = re.compile(rb'"nextBeginOffset":"?(\d+)')
_CODE = re.compile(rb'"code":(\d+)')
_PREFIX = struct.Struct(">iI")


class Consumer:
    """One socket that pulls queue `queue` of `topic` from its beginning to its end, again and again."""

    def __init__(self, host: str, port: int, topic: str, queue: int, count: int) -> None:
        with RemotingClient(host, port, 10) as client:
            self.end = client.max_queue_offset(topic, queue)
        if self.end < count:
            raise ValueError(f"queue {queue} of {topic} has {self.end} messages only")
        self.socket = socket.create_connection((host, port), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.messages = self.bytes = 0
        self.codes: Counter[int] = Counter()
        self.times: list[float] = []
        self._offset = 0
        self._parts: list[bytes] = []
        self._have = self._need = 0
        whole = encode_frame(PULL_MESSAGE, 1, pull_fields(topic, queue, OFFSET_PLACE, count, 0))
        self._head, self._tail = whole.split(b"%d" % OFFSET_PLACE)

    def pull(self) -> None:
        """Ask for what follows; at the end begin again."""
        if self._offset >= self.end:
            self._offset = 0
        self._asked = time.perf_counter()
        self.socket.sendall(b"%b%010d%b" % (self._head, self._offset, self._tail))

    def read(self) -> bool:
        """One read; True when an answer was whole and the next pull has gone out."""
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the broker closed a connection")
        self._parts.append(data)
        self._have += len(data)
        if not self._need and self._have >= 4:
            self._need = 4 + int.from_bytes(b"".join(self._parts)[:4], "big")
        if not self._need or self._have < self._need:
            return False
        self._answered(b"".join(self._parts))
        self._parts, self._have, self._need = [], 0, 0
        self.pull()
        return True

    def _answered(self, frame: bytes) -> None:
        self.times.append(time.perf_counter() - self._asked)
        _, header_size = _PREFIX.unpack_from(frame)
        code = _CODE.search(frame, 8, 8 + header_size)
        following = _NEXT.search(frame, 8, 8 + header_size)
        assert code is not None and following is not None, frame[:300]
        self.codes[int(code[1])] += 1
        self.messages += int(following[1]) - self._offset
        self.bytes += len(frame) - 8 - header_size
        self._offset = int(following[1])


def drive(consumers: Sequence[Consumer], seconds: float) -> dict[str, object]:
    """Let all pull for so long; what came of it."""
    poller = select.epoll()
    by_number = {each.socket.fileno(): each for each in consumers}
    for each in consumers:
        poller.register(each.socket, select.EPOLLIN)
        each.messages = each.bytes = 0
        each.times.clear()
        each.codes.clear()
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for number, _ in poller.poll(1.0):
            by_number[number].read()
    elapsed = time.perf_counter() - begun
    times = sorted(took for each in consumers for took in each.times)
    codes = sum((each.codes for each in consumers), Counter())
    return {
        "rate": sum(each.messages for each in consumers) / elapsed,
        "bytes": sum(each.bytes for each in consumers) / elapsed,
        "messages": sum(each.messages for each in consumers),
        "p50_ms": times[len(times) // 2] * 1e3,
        "p99_ms": times[len(times) * 99 // 100] * 1e3,
        "codes": {str(code): count for code, count in sorted(codes.items())},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.pullgen", description="Pulls from a broker.")
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--consumers", type=int, default=4, help="connections, one queue each")
    parser.add_argument("--queues", type=int, default=4, help="queues of the topic")
    parser.add_argument("--count", type=int, default=32, help="messages a pull")
    parser.add_argument("--warm", type=float, default=0, help="seconds of pulling before it counts")
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args(arguments)
    try:
        consumers = [
            Consumer(given.host, given.port, given.topic, number % given.queues, given.count)
            for number in range(given.consumers)
        ]
        for each in consumers:
            each.pull()
        warmed = drive(consumers, given.warm)["messages"] if given.warm else 0
        print(json.dumps({"result": {**drive(consumers, given.seconds), "warmed": warmed}}), flush=True)
    except (OSError, ValueError) as failure:
        print(f"{given.host}:{given.port}: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Load generator for any broker that speaks RocketMQ remoting; light, to leave the machine to the brokers.

    python -m bench.loadgen HOST PORT --connections 4 --window 64 --size 1024 --seconds 10 [--batch 50]

Closed loop: every connection keeps `window` requests in flight. Client and brokers share the cores, so the
cost per request is what matters: requests come from a pre-encoded ring (`bench.frames`), and answers are
counted by scanning: frame lengths are walked, one regular expression over the whole read yields the opaques,
latencies are subtracted as arrays. Only answers other than PUT_OK are looked at singly.

Rejected: asyncio and Twisted (a callback an answer costs as much as the broker's own work), and open loops
(RocketMQ answers overload with SYSTEM_BUSY, and a rate of refusals means nothing).

Standard output carries one JSON object a line: `{"second": ...}` while it runs, `{"result": ...}` at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.frames import OPAQUE_BASE, OPAQUE_SPAN, FrameRing, Load
from bench.tlssocket import READ_BYTES, TlsSocket

DRAIN_SECONDS = 10.0  # wait for the answers to the last requests
SILENCE_SECONDS = 60.0  # no answer at all for that long: give up
FLAT_SPAN, FLAT_TOLERANCE = 5, 0.04  # warmed: the means of two spans of 5 s differ by less than 4 %
CONNECT_SECONDS = 10.0

_OPAQUE = re.compile(rb'"opaque":(\d+)')
_CODE = re.compile(rb'"code":(-?\d+)')
_LAST_OFFSET = re.compile(rb'([0-9A-F]{16})"')
_LENGTH = struct.Struct(">i")


class ServerGone(Exception):
    """The broker closed a connection."""


class Connection:
    """One socket: hands out frames while the window allows, matches answers to their times of issue."""

    def __init__(self, load: Load, index: int, quota: int | None) -> None:
        self.ring = FrameRing(load, index)
        plain = socket.create_connection((load.host, load.port), CONNECT_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = TlsSocket(plain) if load.tls else plain
        self.window = load.window
        self.quota = quota  # requests left to issue; None: no limit
        self.issued = 0  # requests whose turn has come
        self.answered = 0
        self.codes: Counter[int] = Counter()
        self.highest_offset = -1  # commit log offset in the last message id answered PUT_OK
        self._handed = 0  # bytes of the endless sequence of frames that the kernel has taken
        slots = 1 << (4 * load.window + self.ring.frames).bit_length()
        self._times = np.zeros(slots)
        self._rest = b""

    @property
    def in_flight(self) -> int:
        return self.issued - self.answered

    @property
    def unsent(self) -> int:
        return self.issued * self.ring.frame_size - self._handed

    def issue(self, now: float) -> None:
        """Let requests up to the window go out, stamped `now`."""
        count = self.window - self.in_flight
        if self.quota is not None:
            count = min(count, self.quota)
            self.quota -= count
        if count <= 0:
            return
        slots = len(self._times)
        first = self.issued % slots
        self._times[first : first + count] = now
        if first + count > slots:
            self._times[: first + count - slots] = now
        self.issued += count
        self.push()

    def push(self) -> None:
        """Hand issued frames to the kernel until it takes no more; a used-up ring is renumbered."""
        ring, size = self.ring, len(self.ring.buffer)
        while self.unsent:
            start = self._handed % size
            try:
                taken = self.socket.send(ring.view[start : min(size, start + self.unsent)])
            except BlockingIOError:
                return
            self._handed += taken
            if start + taken == size:
                ring.renumber(self._handed // ring.frame_size)

    def collect(self) -> npt.NDArray[np.float64] | None:
        """Read once; latencies in seconds of all whole answers, None when there was none."""
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return None
        if not data:
            raise ServerGone("the broker closed a connection")
        now = time.perf_counter()
        data = self._rest + data if self._rest else data
        end, count = whole_frames(data)
        self._rest = data[end:]
        if not count:
            return None
        self._count_codes(data, end, count)
        opaques = np.array(list(map(int, _OPAQUE.findall(data, 0, end))), dtype=np.int64)
        self.answered += count
        slots = (opaques - OPAQUE_BASE) % OPAQUE_SPAN % len(self._times)
        return now - self._times[slots]

    def _count_codes(self, data: bytes, end: int, count: int) -> None:
        fine = data.count(b'"code":0,', 0, end) + data.count(b'"code":0}', 0, end)
        if fine == count:
            self.codes[0] += count
            self._note_offset(data, end)
        else:
            self.codes.update(map(int, _CODE.findall(data, 0, end)))

    def _note_offset(self, data: bytes, end: int) -> None:
        """Remember the highest acknowledged offset seen (only of the last answer in a read: offsets rise)."""
        at = data.rfind(b'"msgId":"', 0, end)
        found = _LAST_OFFSET.search(data, at, end) if at >= 0 else None
        if found:
            self.highest_offset = max(self.highest_offset, int(found[1], 16))


def whole_frames(data: bytes) -> tuple[int, int]:
    """(end of the last whole frame, how many there are)."""
    at, count, size, unpack = 0, 0, len(data), _LENGTH.unpack_from
    while size - at >= 4:
        following = at + 4 + unpack(data, at)[0]
        if following > size:
            break
        at, count = following, count + 1
    return at, count


@dataclass
class Measurement:
    """What happened in a span of seconds."""

    seconds: float
    messages: int
    latencies: npt.NDArray[np.float64]
    codes: Counter[int]

    @property
    def rate(self) -> float:
        return self.messages / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, object]:
        quantiles = (
            np.quantile(self.latencies, [0.5, 0.9, 0.99, 0.999, 1.0]) if len(self.latencies) else [0.0] * 5
        )
        names = ("p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms")
        latencies = {name: round(float(value) * 1e3, 4) for name, value in zip(names, quantiles, strict=True)}
        codes = {str(code): count for code, count in sorted(self.codes.items())}
        return {"rate": round(self.rate, 1), "seconds": round(self.seconds, 3), **latencies, "codes": codes}


class Generator:
    """All connections of a load, driven until a given time, second by second."""

    def __init__(self, load: Load, requests: int | None = None) -> None:
        self.load = load
        shares: list[int | None] = [None] * load.connections
        if requests is not None:
            shares = [requests // load.connections] * load.connections
        self.connections = [Connection(load, index, share) for index, share in enumerate(shares)]
        self._alone = load.connections == 1 and load.window == 1
        self._epoll = select.epoll()
        self._by_number = {each.socket.fileno(): each for each in self.connections}
        self._latencies: list[npt.NDArray[np.float64]] = []
        self._last_answer = time.perf_counter()
        for each in self.connections:
            if self._alone:
                each.socket.settimeout(SILENCE_SECONDS)
            else:
                each.socket.setblocking(False)
                self._epoll.register(each.socket, select.EPOLLIN)

    def begin(self) -> None:
        now = time.perf_counter()
        for each in self.connections:
            each.issue(now)

    @property
    def answered_ok(self) -> int:
        return sum(each.codes[0] for each in self.connections)

    @property
    def in_flight(self) -> int:
        return sum(each.in_flight for each in self.connections)

    @property
    def highest_offset(self) -> int:
        return max(each.highest_offset for each in self.connections)

    def run(self, seconds: float, refill: bool = True) -> Measurement:
        """Drive for so long (or until nothing is in flight) and measure it; counted are PUT_OK answers."""
        begun = time.perf_counter()
        before, codes = self.answered_ok, self._codes()
        self._latencies = []
        drive = self._ping_pong if self._alone else self._pipeline
        drive(begun + seconds, refill)
        elapsed = time.perf_counter() - begun
        latencies = np.concatenate(self._latencies) if self._latencies else np.zeros(0)
        messages = (self.answered_ok - before) * self.load.messages_per_request
        return Measurement(elapsed, messages, latencies, self._codes() - codes)

    def _codes(self) -> Counter[int]:
        return sum((each.codes for each in self.connections), Counter())

    def _pipeline(self, end: float, refill: bool) -> None:
        while self.in_flight and (now := time.perf_counter()) < end:
            for number, event in self._epoll.poll(min(1.0, end - now)):
                connection = self._by_number[number]
                if event & ~select.EPOLLOUT:
                    self._take(connection, refill)
                else:
                    connection.push()
                self._epoll.modify(number, select.EPOLLIN | (select.EPOLLOUT if connection.unsent else 0))
            self._check_silence()

    def _take(self, connection: Connection, refill: bool) -> None:
        latencies = connection.collect()
        if latencies is None:
            return
        self._latencies.append(latencies)
        self._last_answer = time.perf_counter()
        if refill:
            connection.issue(self._last_answer)

    def _ping_pong(self, end: float, refill: bool) -> None:
        """One request in flight: a blocking socket, nothing between answer and next request but a clock."""
        connection = self.connections[0]
        while connection.in_flight and (now := time.perf_counter()) < end:
            latencies = connection.collect()
            if latencies is not None:
                self._latencies.append(latencies)
                self._last_answer = now
                if refill:
                    connection.issue(time.perf_counter())

    def _check_silence(self) -> None:
        if time.perf_counter() - self._last_answer > SILENCE_SECONDS:
            raise ServerGone(f"no answer for {SILENCE_SECONDS:g} s with {self.in_flight} requests in flight")


def is_flat(rates: Sequence[float], span: int = FLAT_SPAN, tolerance: float = FLAT_TOLERANCE) -> bool:
    """Is the mean of the last `span` seconds within `tolerance` of the mean of the span before?"""
    if len(rates) < 2 * span:
        return False
    before, after = sum(rates[-2 * span : -span]), sum(rates[-span:])
    return before > 0 and abs(after - before) <= tolerance * before


def merge(parts: Sequence[Measurement]) -> Measurement:
    codes = sum((part.codes for part in parts), Counter())
    latencies = np.concatenate([part.latencies for part in parts]) if parts else np.zeros(0)
    return Measurement(sum(p.seconds for p in parts), sum(p.messages for p in parts), latencies, codes)


@dataclass
class Plan:
    """How long: warm for at least / at most so many seconds and until flat, then measure `seconds`."""

    warm: float
    warm_most: float
    seconds: float


def drive(generator: Generator, plan: Plan) -> dict[str, object]:
    """Run the plan, printing a line a second; the result as JSON-able values."""
    rates: list[float] = []
    measured: list[Measurement] = []
    gone = ""
    generator.begin()
    try:
        while len(rates) < plan.warm or (len(rates) < plan.warm_most and not is_flat(rates)):
            rates.append(_second(generator, len(rates), "warm").rate)
        while len(measured) < plan.seconds and generator.in_flight:
            measured.append(_second(generator, len(rates) + len(measured), "measure"))
        generator.run(DRAIN_SECONDS, refill=False)
    except (OSError, ServerGone) as failure:
        gone = str(failure)
    result = merge(measured).as_json()
    result["rates"] = [round(rate) for rate in rates] + [round(part.rate) for part in measured]
    result["warm_seconds"] = len(rates)
    result["unanswered"] = generator.in_flight
    result["highest_offset"] = generator.highest_offset
    return {**result, "gone": gone} if gone else result


def _second(generator: Generator, second: int, phase: str) -> Measurement:
    part = generator.run(1.0)
    _say({"second": second, "phase": phase, "at": time.time(), **part.as_json()})
    return part


def _say(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.loadgen", description="Pipelined sends to a broker."
    )
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--window", type=int, default=64, help="requests in flight on each connection")
    parser.add_argument("--size", type=int, default=1024, help="body bytes of a message")
    parser.add_argument("--batch", type=int, default=0, help="messages a request (0: SEND_MESSAGE_V2)")
    parser.add_argument("--queues", type=int, default=4)
    parser.add_argument("--topics", type=int, default=1, help="more than one: TOPIC0000, TOPIC0001, ...")
    parser.add_argument("--tls", type=int, default=0, help="1: over TLS, whatever the certificate")
    parser.add_argument("--account", default="", help="ACCESSKEY:SECRETKEY, to sign with; ids then repeat")
    parser.add_argument(
        "--same-ids", type=int, default=0, help="1: message ids repeat without an account, too"
    )
    parser.add_argument(
        "--requests", type=int, help="stop after so many requests (split over the connections)"
    )
    parser.add_argument("--warm", type=float, default=0, help="fewest seconds of warming up")
    parser.add_argument("--warm-most", type=float, default=0, help="most seconds to wait for a flat rate")
    parser.add_argument("--seconds", type=float, default=10, help="seconds to measure")
    parser.add_argument("--core", type=int, help="keep to this core")
    given = vars(parser.parse_args(arguments))
    core = given.pop("core")
    if core is not None:
        os.sched_setaffinity(0, {core})
    plan = Plan(given.pop("warm"), given.pop("warm_most"), given.pop("seconds"))
    requests = given.pop("requests")
    try:
        generator = Generator(Load(**given), requests)
    except OSError as failure:
        print(f"can't connect to {given['host']}:{given['port']}: {failure}", file=sys.stderr)
        return 1
    _say({"result": drive(generator, plan)})
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Row: 100,000 puts that wait for a silent slave, and what one ack costs with many waiting."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time

from twisted.internet.task import Clock

from bench.arena import Arena, RowFailed, attempt
from bench.figures import Outcome, Values, absolute_figure
from bench.sampling import Sampler
from hatwisted.ha.grouptransfer import GroupTransferService
from testbed.brokergroup import OURS, BrokerGroup
from testbed.remotingclient import RemotingClient

PUTS = 100_000
CONNECTIONS = 10
SLAVE_TIMEOUT = 3.0  # seconds
SETTINGS = {"slaveTimeout": int(SLAVE_TIMEOUT * 1000)}
LATE_LIMIT = 0.5  # seconds
MEMORY_LIMIT = 300.0  # MB of growth: 3 kB a waiting put
CURVE = (100, 1000, 10_000, 100_000, 200_000)
REPORT_SECONDS = 2.0


class SilentSlave(threading.Thread):
    """Links up at the master's end, reads what comes, and never reports more than it did first."""

    def __init__(self, port: int, offset: int) -> None:
        super().__init__(daemon=True)
        self._peer = socket.create_connection(("127.0.0.1", port))
        self._report = struct.pack(">q", offset)
        self._peer.sendall(self._report)

    def run(self) -> None:
        due = time.monotonic() + REPORT_SECONDS
        self._peer.settimeout(REPORT_SECONDS)
        with contextlib.suppress(OSError):
            while True:
                with contextlib.suppress(TimeoutError):
                    if not self._peer.recv(1 << 18):
                        return
                if time.monotonic() > due:
                    self._peer.sendall(self._report)
                    due = time.monotonic() + REPORT_SECONDS

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._peer.shutdown(socket.SHUT_RDWR)


def silent_slave(arena: Arena) -> Outcome:
    outcome = Outcome()
    late: Values = {}
    memory: Values = {}
    for kind in arena.kinds:
        with attempt(arena, outcome, kind), arena.pair(kind, "SYNC_MASTER", SETTINGS) as group:
            group.master.start()
            lateness, growth, answers = _wait_for_nobody(arena, group)
            late[kind], memory[kind] = [lateness], [growth]
            outcome.notes.append(f"{kind.value}: answers {answers}")
    puts = f"{PUTS:,} puts waiting for a silent slave"
    text = f"≤ {LATE_LIMIT:g} s"
    outcome.figures.append(
        absolute_figure(
            f"{puts}: last one answered after its {SLAVE_TIMEOUT:g} s",
            "s late",
            late,
            text,
            at_most=LATE_LIMIT,
            digits=2,
        )
    )
    text = f"bounded (≤ {MEMORY_LIMIT:g} MB)"
    outcome.figures.append(absolute_figure(f"{puts}: memory", "MB more", memory, text, at_most=MEMORY_LIMIT))
    curve = [(count, _ack_cost(count)) for count in CURVE]
    outcome.series["ack"] = curve
    costs: Values = {OURS: [curve[-1][1] / curve[1][1]]}
    label = f"cost of one ack with {CURVE[-1]:,} waiting, compared with {CURVE[1]:,} waiting"
    outcome.figures.append(absolute_figure(label, "x", costs, "O(log n): ≤ 2x", at_most=2.0, digits=2))
    outcome.notes.append(
        "one ack: " + ", ".join(f"{cost:.2f} µs of {count:,} waiting" for count, cost in curve)
    )
    return outcome


def _wait_for_nobody(arena: Arena, group: BrokerGroup) -> tuple[float, float, dict[str, int]]:
    """(seconds late, MB of growth, answers by code)."""
    with group.master_client() as client:
        client.send("bench", b"makes the topic")
    slave = SilentSlave(group.ha_port, group.master_end())
    slave.start()
    time.sleep(1)
    arena.warm_memory()
    before = group.master.memory()
    options = {"connections": CONNECTIONS, "window": PUTS // CONNECTIONS, "size": 100, "requests": PUTS}
    arena.say(f"{PUTS:,} puts at {group.master_kind.value} with a silent slave")
    with Sampler(lambda: {"memory": float(group.master.memory())}) as sampler:
        load = arena.start_load(group.master_port, options, seconds=60)
        appended = _wait_appended(group)
        output, _ = load.communicate(timeout=120)
        answered = time.perf_counter()
    slave.close()
    peak = max(sample["memory"] for sample in sampler.samples)
    return answered - appended - SLAVE_TIMEOUT, (peak - before) / 1e6, _answers(output)


def _wait_appended(group: BrokerGroup) -> float:
    """When the log stopped growing."""
    last_end, moved = -1, time.perf_counter()
    with RemotingClient("127.0.0.1", group.master_port, 30) as client:
        while time.perf_counter() - moved < SLAVE_TIMEOUT - 0.5:
            end = int(client.runtime_info()["commitLogMaxOffset"])
            if end != last_end:
                last_end, moved = end, time.perf_counter()
            time.sleep(0.02)
    return moved


def _answers(output: str) -> dict[str, int]:
    result = json.loads(output.splitlines()[-1]).get("result")
    if not result or result["unanswered"]:
        raise RowFailed(f"not all puts were answered: {result}")
    codes: dict[str, int] = result["codes"]
    return codes


def _ack_cost(count: int) -> float:
    """Microseconds to complete one wait among `count`, each ack covering one."""
    clock = Clock()
    service = GroupTransferService(clock, timeout=SLAVE_TIMEOUT)
    ends = range(100, 100 * (count + 1), 100)
    waits = [service.wait(end, end) for end in ends]
    tried = min(count, 5000)
    begun = time.perf_counter()
    for end in ends[:tried]:
        service.acked(end)
    seconds = time.perf_counter() - begun
    assert all(wait.called for wait in waits[:tried]) and not any(wait.called for wait in waits[tried:])
    service.stop()
    return seconds / tried * 1e6

"""Rows: how fast a slave catches up with 3 GiB, compared with a bare loop that only moves the bytes, and over
links with a delay.

The slave is linked once while the log is nearly empty and stopped, then the master is filled, then the slave
comes back; each repetition begins with a copy of that early store, memory warm and the log in the page cache.
The rate is taken from the slave's own end of log, from its first move to the master's end, so that neither
start-up nor the wait for the first report counts. CPU time is counted until queues and index have everything, too:
a slave may leave them for later. The looks at a slave cost it CPU time as well: they're as rare as a curve allows.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.arena import Arena, RowFailed, attempt, settle
from bench.figures import Figure, Outcome, Values, absolute_figure, ratio_figure
from testbed.brokergroup import OURS, BrokerGroup, Kind
from testbed.processes import REPOSITORY, free_port
from testbed.remotingclient import RemotingClient, RemotingFailure
from testbed.storefiles import log_files

LIMIT_SECONDS = 180.0
LOOK_SECONDS = 0.1
CHUNK = 1 << 20
SHARE_OF_LOOP = 0.7
FASTER = 1.3
MASTER_SECONDS, SLAVE_SECONDS = 0.5, 0.6
"""Of CPU time for a GB."""
DELAYS = (0, 2, 10)
"""ms, each way."""
SHARE_OF_NO_DELAY = 0.8

# Receives one connection and writes what comes to a file, nothing else.
RECEIVER = """
import os, socket, sys
target = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_TRUNC)
os.posix_fallocate(target, 0, int(sys.argv[2]))
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
peer, _ = listener.accept()
space, at = memoryview(bytearray(1 << 20)), 0
while count := peer.recv_into(space):
    at += os.pwrite(target, space[:count], at)
print(at, flush=True)
"""


@dataclass(frozen=True)
class CatchUp:
    """One of them.

    - curve: (seconds, slave's end) from its first move to the master's end
    - master, slave: s of CPU time for a GB
    """

    curve: list[tuple[float, int]]
    master: float
    slave: float

    @property
    def rate(self) -> float:
        """MB/s."""
        (begun, first), (ended, last) = self.curve[0], self.curve[-1]
        return (last - first) / (ended - begun) / 1e6


def catch_up(arena: Arena) -> Outcome:
    """A slave catches up with a full master."""
    outcome = Outcome()
    done: dict[Kind, list[CatchUp]] = {kind: [] for kind in arena.kinds}
    loops: list[float] = []
    with ExitStack() as stack:
        groups: dict[Kind, BrokerGroup] = {}
        for kind in arena.kinds:
            with attempt(arena, outcome, kind):
                group = stack.enter_context(arena.pair(kind, "ASYNC_MASTER"))
                prepare(arena, group)
                groups[kind] = group
        for number, kind in arena.turns():
            if kind in groups:
                with attempt(arena, outcome, kind):
                    done[kind].append(one_catch_up(arena, groups[kind]))
                    arena.say(f"{kind.value} {number + 1}: {done[kind][-1].rate:,.0f} MB/s")
            if kind is OURS and OURS in groups:
                loops.append(_loop(arena, groups[OURS]))
                arena.say(f"bare loop {number + 1}: {loops[-1]:,.0f} MB/s")
    outcome.series["curves"] = {kind.value: each[-1].curve for kind, each in done.items() if each}
    rates: Values = {kind: [one.rate for one in each] for kind, each in done.items()}
    size = f"{arena.full_store / (1 << 30):.1f} GiB"
    outcome.figures.append(ratio_figure(f"slave catch-up of {size}", "MB/s", rates, at_least=FASTER))
    masters: Values = {kind: [one.master for one in each] for kind, each in done.items()}
    slaves: Values = {kind: [one.slave for one in each] for kind, each in done.items()}
    for who, values, at_most in (("master", masters, MASTER_SECONDS), ("slave", slaves, SLAVE_SECONDS)):
        label, target = f"the same: CPU time of the {who} for a GB", f"≤ {at_most:g} s"
        outcome.figures.append(absolute_figure(label, "s", values, target, at_most=at_most, digits=2))
    against = Figure(
        "the same, compared with a bare sendfile-to-file loop", "MB/s", rates.get(OURS, []), loops, ""
    )
    against.target = f"≥ {SHARE_OF_LOOP} of the loop"
    against.met = None if against.ratio is None else against.ratio >= SHARE_OF_LOOP
    outcome.figures.append(against)
    outcome.notes.append("in the row of the bare loop the second column is the loop, not Java")
    return outcome


def catch_up_delayed(arena: Arena) -> Outcome:
    """A slave catches up over links with and without a delay, all of them through the same relay."""
    outcome = Outcome()
    rates: dict[int, Values] = {delay: {kind: [] for kind in arena.kinds} for delay in DELAYS}
    for kind in arena.kinds:
        with attempt(arena, outcome, kind), arena.pair(kind, "ASYNC_MASTER") as group:
            group.link_port = free_port()
            with _delayed(group, 0):
                prepare(arena, group)
            for number in range(arena.repeats):
                for delay in DELAYS:
                    with _delayed(group, delay):
                        rates[delay][kind].append(one_catch_up(arena, group).rate)
                    arena.say(f"{kind.value} {number + 1}, {delay} ms: {rates[delay][kind][-1]:,.0f} MB/s")
    for delay, values in rates.items():
        label = f"slave catch-up through a relay, {delay} ms each way"
        outcome.figures.append(absolute_figure(label, "MB/s", values, "–"))
    for delay in DELAYS[1:]:
        shares: Values = {
            kind: [slow / fast for slow, fast in zip(each, rates[0][kind], strict=False)]
            for kind, each in rates[delay].items()
        }
        label, target = f"{delay} ms, compared with none", f"≥ {SHARE_OF_NO_DELAY:g}"
        outcome.figures.append(
            absolute_figure(label, "x", shares, target, at_least=SHARE_OF_NO_DELAY, digits=2)
        )
    return outcome


@contextmanager
def _delayed(group: BrokerGroup, delay: float) -> Iterator[None]:
    """The link has a delay (ms, each way)."""
    words = [str(group.link_port), str(group.ha_port), str(delay)]
    relay = subprocess.Popen(
        [sys.executable, "-m", "bench.delayline", *words], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert relay.stdout is not None
    try:
        if relay.stdout.readline() != "listening\n":
            raise RowFailed("the relay doesn't start")
        yield
    finally:
        relay.kill()
        relay.wait()
        relay.stdout.close()


def prepare(arena: Arena, group: BrokerGroup) -> None:
    """Fill the master, keep a slave store that ends near 0."""
    group.start()
    group.wait_caught_up()
    group.slave.stop()
    shutil.copytree(group.slave_store, _early(group))
    arena.say(f"filling the {group.master_kind.value} master with {arena.full_store / (1 << 30):.1f} GiB")
    arena.fill(group, arena.full_store)


def _early(group: BrokerGroup) -> Path:
    return group.folder / "early-slave-store"


def one_catch_up(arena: Arena, group: BrokerGroup) -> CatchUp:
    """From the early store on."""
    shutil.rmtree(group.slave_store)
    shutil.copytree(_early(group), group.slave_store)
    settle()
    goal = group.master_end()
    _read(group.master_store)
    arena.warm_memory()
    group.slave.start()
    curve: list[tuple[float, int]] = []
    deadline = time.perf_counter() + LIMIT_SECONDS
    before = [group.master.cpu_seconds(), group.slave.cpu_seconds()]
    try:
        with group.slave_client() as client:
            while not curve or curve[-1][1] < goal:
                curve.append((time.perf_counter(), _end(client)))
                if time.perf_counter() > deadline:
                    raise RowFailed(
                        f"the slave has {curve[-1][1]:,} of {goal:,} bytes after {LIMIT_SECONDS:g} s"
                    )
                time.sleep(LOOK_SECONDS)
            while _info(client)["dispatchBehindBytes"] != "0":
                if time.perf_counter() > deadline:
                    raise RowFailed(f"queues and index aren't complete after {LIMIT_SECONDS:g} s")
                time.sleep(LOOK_SECONDS)
        after = [group.master.cpu_seconds(), group.slave.cpu_seconds()]
    finally:
        group.slave.stop()
    first = next((number for number, point in enumerate(curve) if point[1] > curve[0][1]), len(curve))
    if len(curve) - first < 2:
        raise RowFailed("the catch-up was too short to measure")
    gigabytes, begin = (curve[-1][1] - curve[0][1]) / 1e9, curve[first][0]
    costs = [(ended - begun) / gigabytes for begun, ended in zip(before, after, strict=True)]
    return CatchUp([(moment - begin, end) for moment, end in curve[first:]], *costs)


def _read(store: Path) -> None:
    """Have the log in the page cache: a kernel may have given up pages that nobody has looked at for a while."""
    for _, path in log_files(store):
        with open(path, "rb") as file:
            while file.read(CHUNK):
                pass


def _end(client: RemotingClient) -> int:
    return int(_info(client)["commitLogMaxOffset"])


def _info(client: RemotingClient) -> dict[str, str]:
    try:
        return client.runtime_info()
    except RemotingFailure as failure:
        raise RowFailed(f"the slave went away: {failure}") from failure


def _loop(arena: Arena, group: BrokerGroup) -> float:
    arena.warm_memory()
    return bare_loop(group.master_store, group.master_end(), arena.folder / "loop.bin")


def bare_loop(store: Path, end: int, target: Path) -> float:
    """MB/s of sendfile from the log files through a loopback socket into one file of another process."""
    settle()
    receiver = subprocess.Popen(
        [sys.executable, "-c", RECEIVER, str(target), str(end)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert receiver.stdout is not None
    with socket.create_connection(("127.0.0.1", int(receiver.stdout.readline()))) as peer:
        begun = time.perf_counter()
        for start, path in log_files(store):
            _send_file(peer, path, min(path.stat().st_size, end - start))
        peer.shutdown(socket.SHUT_WR)
        received = int(receiver.stdout.readline())
        seconds = time.perf_counter() - begun
    receiver.wait()
    target.unlink()
    if received != end:
        raise RowFailed(f"the bare loop moved {received} of {end} bytes")
    return end / seconds / 1e6


def _send_file(peer: socket.socket, path: Path, size: int) -> None:
    with open(path, "rb") as source:
        at = 0
        while at < size:
            at += os.sendfile(peer.fileno(), source.fileno(), at, min(CHUNK, size - at))

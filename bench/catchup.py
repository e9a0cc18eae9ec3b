"""Row: how fast a slave catches up with 3 GiB, compared with a bare loop that only moves the bytes.

The slave is linked once while the log is nearly empty and stopped, then the master is filled, then the slave
comes back; each repetition begins with a copy of that early store. The rate is taken from the slave's own end
of log, from its first move to the master's end, so that neither start-up nor the wait for the first report
counts.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from bench.arena import Arena, RowFailed, attempt, settle
from bench.figures import Figure, Outcome, Values, ratio_figure
from testbed.brokergroup import OURS, BrokerGroup, Kind
from testbed.processes import REPOSITORY
from testbed.remotingclient import RemotingClient, RemotingFailure
from testbed.storefiles import log_files

LIMIT_SECONDS = 180.0
LOOK_SECONDS = 0.02
CHUNK = 1 << 20
SHARE_OF_LOOP = 0.7

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


def catch_up(arena: Arena) -> Outcome:
    outcome = Outcome()
    rates: Values = {kind: [] for kind in arena.kinds}
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
                    curve = one_catch_up(groups[kind])
                    rates[kind].append(rate(curve))
                    outcome.series.setdefault("curves", {})[kind.value] = curve
                    arena.say(f"{kind.value} {number + 1}: {rates[kind][-1]:,.0f} MB/s")
            if kind is OURS and OURS in groups:
                loops.append(_loop(arena, groups[OURS]))
                arena.say(f"bare loop {number + 1}: {loops[-1]:,.0f} MB/s")
    size = f"{arena.full_store / (1 << 30):.1f} GiB"
    outcome.figures.append(ratio_figure(f"slave catch-up of {size}", "MB/s", rates, at_least=2.5))
    against = Figure(
        "the same, compared with a bare sendfile-to-file loop", "MB/s", rates.get(OURS, []), loops, ""
    )
    against.target = f"≥ {SHARE_OF_LOOP} of the loop"
    against.met = None if against.ratio is None else against.ratio >= SHARE_OF_LOOP
    outcome.figures.append(against)
    outcome.notes.append("in the row of the bare loop the second column is the loop, not Java")
    return outcome


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


def one_catch_up(group: BrokerGroup) -> list[tuple[float, int]]:
    """(seconds, slave's end) from its first move to the master's end."""
    shutil.rmtree(group.slave_store)
    shutil.copytree(_early(group), group.slave_store)
    settle()
    goal = group.master_end()
    group.slave.start()
    curve: list[tuple[float, int]] = []
    deadline = time.perf_counter() + LIMIT_SECONDS
    try:
        with group.slave_client() as client:
            while not curve or curve[-1][1] < goal:
                curve.append((time.perf_counter(), _end(client)))
                if time.perf_counter() > deadline:
                    raise RowFailed(
                        f"the slave has {curve[-1][1]:,} of {goal:,} bytes after {LIMIT_SECONDS:g} s"
                    )
                time.sleep(LOOK_SECONDS)
    finally:
        group.slave.stop()
    first = next(number for number, point in enumerate(curve) if point[1] > curve[0][1])
    begin = curve[first][0]
    return [(moment - begin, end) for moment, end in curve[first:]]


def _end(client: RemotingClient) -> int:
    try:
        return int(client.runtime_info()["commitLogMaxOffset"])
    except RemotingFailure as failure:
        raise RowFailed(f"the slave went away: {failure}") from failure


def _loop(arena: Arena, group: BrokerGroup) -> float:
    return bare_loop(group.master_store, group.master_end(), arena.folder / "loop.bin")


def rate(curve: list[tuple[float, int]]) -> float:
    """MB/s of a catch-up."""
    if len(curve) < 2:
        raise RowFailed("the catch-up was too short to measure")
    return (curve[-1][1] - curve[0][1]) / (curve[-1][0] - curve[0][0]) / 1e6


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

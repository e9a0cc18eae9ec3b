"""Both ends of the HA link behind their decoders: what a hostile master does to a slave, and slaves to a master.

An input is a program of what the other side does: frames and reports that fit and that don't, noise, connections,
closes, waits. Whatever it is, nothing may be logged as a failure; a slave's log keeps what it had, grows by what
continues it, and no report is of bytes that it lacks (or that aren't synced, if that is what it acknowledges); a
master believes no report beyond what that slave was sent or said at first. An honest peer is served afterwards.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, formatEvent, globalLogPublisher

from hatwisted.ha.linklimits import MAX_LINKS, MAX_UNREPORTED
from hatwisted.ha.slavestate import SLOW_RETRY
from hatwisted.wire.haframe import MAX_BODY, HaAck, encode_frames
from tests.fuzz.servertargets import Program
from tests.fuzz.target import Target
from tests.fuzz.turns import TURNS
from tests.support.memorylog import MemoryLog
from tests.unit.ha.rig import MasterRig, SlavePeer, SlaveRig

FILE = 1 << 20
HELD = b"what the slave has had before. "
NEWS = b"what an honest master sends"
FAR = 1 << 40
"""An empty log may be made to begin at any file; one that begins beyond this isn't copied on."""
SIZES = (0, 1, 10, 300, MAX_BODY, MAX_BODY + 1, -1, 0x7FFFFFFF)
HOSTS = ("10.0.0.2", "10.0.0.3", "2001:db8::7", "::1")
BURST = 24
"""Connections at once."""
LONGEST = 200
"""Steps of one input."""
HEADER = struct.Struct(">qi")
REPORT = struct.Struct(">q")


@contextmanager
def no_failures() -> Iterator[None]:
    """Raises AssertionError for what is logged as a failure meanwhile."""
    failures: list[str] = []

    def observe(event: LogEvent) -> None:
        if "log_failure" in event:
            failures.append(f"{formatEvent(event)}\n{event['log_failure'].getTraceback()}")

    globalLogPublisher.addObserver(observe)
    try:
        yield
    finally:
        globalLogPublisher.removeObserver(observe)
    assert not failures, failures[0]


def offset(program: Program, end: int) -> int:
    """One that somebody may name, where the log ends at `end`."""
    near = (
        end,
        end - 1,
        end + 1,
        0,
        1,
        -1,
        FILE,
        end // FILE * FILE,
        FAR,
        1 << 62,
        (1 << 63) - 1,
        -(1 << 63),
    )
    return near[program.byte() % len(near)]


class Slave:
    """A slave, and what its master does."""

    def __init__(self, program: Program) -> None:
        kind = program.byte()
        self.log = MemoryLog(FILE)
        if kind & 1:
            self.log.append(HELD)
        self.log.hold_flushes = bool(kind & 2)
        self.asked: list[Deferred[tuple[int, int]]] = []
        """What its log holds."""
        self.objections: list[Deferred[str | None]] = []
        settings: dict[str, Any] = {"ack": HaAck.DURABLE} if kind & 2 else {}
        if kind & 4:
            settings["master_range"] = lambda: _asked(self.asked)
        if kind & 8:
            settings["objection"] = lambda: _asked(self.objections)
        self.rig = SlaveRig(self.log, **settings)
        self.had = bytes(self.log)
        self.gone: object = None
        """The link whose end has been told."""

    @property
    def linked(self) -> bool:
        return self.rig.link is not None and self.rig.link is not self.gone

    def lose(self) -> None:
        if self.linked:
            self.gone = self.rig.link
            self.rig.lose()

    def receive(self, data: bytes) -> None:
        if self.linked:
            TURNS.take(self.rig.link.dataReceived, data)

    def step(self, program: Program) -> None:
        end = self.log.max_offset
        match program.byte() % 8:
            case 0 if 0 <= end < FAR:
                self.receive(b"".join(encode_frames(end, program.bytes()[:FILE], 1 << 15)))
            case 1:
                header = HEADER.pack(offset(program, end), SIZES[program.byte() % len(SIZES)])
                self.receive(header + program.bytes())
            case 2:
                self.receive(program.bytes())
            case 3:
                self.lose()
            case 4:
                TURNS.take(self.rig.clock.advance, program.byte() / 8)
            case 5:
                choice = program.byte()
                self.rig.reachable, self.rig.mute = not choice & 1, bool(choice & 2)
            case 6 if program.byte() & 1:
                self.object("it has other files" if program.byte() & 1 else None)
            case 6:
                self.answer(None if program.byte() & 1 else (offset(program, end), offset(program, end)))
            case 7:
                self.flush()

    def answer(self, bounds: tuple[int, int] | None) -> None:
        """What the master's log holds; None: it doesn't say."""
        for waiting in _emptied(self.asked):
            if bounds is None:
                waiting.errback(ValueError("no number"))
            else:
                waiting.callback(bounds)

    def object(self, objection: str | None) -> None:
        """What speaks against this master."""
        for waiting in _emptied(self.objections):
            waiting.callback(objection)

    def flush(self) -> None:
        flushes, self.log.flushes = self.log.flushes, []
        for flush in flushes:
            flush.callback(self.log.max_offset)

    def check(self) -> None:
        if self.had:
            assert bytes(self.log).startswith(self.had), bytes(self.log)[: len(self.had)]
        acknowledged = self.log.flushed_offset if self.log.hold_flushes else self.log.max_offset
        for report in self.rig.reports() if self.linked else ():
            assert report <= acknowledged, (report, acknowledged)
        if self.linked and (self.rig.wire.aborted or self.rig.wire.closed):
            self.lose()

    def serve(self) -> None:
        """An honest master, with a log like this one's that goes on."""
        self.rig.reachable, self.rig.mute = True, False
        self.lose()
        begin, whole = self.log.min_offset, bytes(self.log) + NEWS
        reported = None
        for _ in range(int(SLOW_RETRY) + 30):
            self.rig.clock.advance(1)
            self.flush()
            self.answer(None)
            self.object(None)
            if self.linked and (reports := self.rig.reports()) and reported is None:
                reported = reports[0]
                at = max(reported, begin)
                self.receive(b"".join(encode_frames(at, whole[at - begin :], 1 << 15)))
                break
        assert bytes(self.log) == whole, (reported, begin, self.rig.service.status())


def run_slave(data: bytes) -> None:
    """A master that does all this. Raises AssertionError."""
    program = Program(data)
    with no_failures():
        slave = Slave(program)
        steps = 0
        while program.left and steps < LONGEST:
            slave.step(program)
            slave.check()
            steps += 1
        if slave.log.max_offset < FAR:
            slave.serve()
        slave.rig.service.stopService()
        slave.lose()
        slave.flush()
        slave.answer(None)
        slave.object(None)
    assert not slave.rig.clock.getDelayedCalls(), slave.rig.clock.getDelayedCalls()


T = TypeVar("T")


def _asked(list_of: list[Deferred[T]]) -> Deferred[T]:
    list_of.append(Deferred())
    return list_of[-1]


def _emptied(list_of: list[Deferred[T]]) -> list[Deferred[T]]:
    """Those that still wait."""
    taken = [each for each in list_of if not each.called]
    list_of.clear()
    return taken


class Claim:
    """One slave's connection, what it has said and what it was sent."""

    def __init__(self, peer: SlavePeer) -> None:
        self.peer = peer
        self.said = b""
        self.sent_end = 0

    def send(self, data: bytes) -> None:
        if not self.peer.gone:
            self.said += data
            TURNS.take(self.peer.send, data)

    def most(self, end: int) -> int:
        """What may be believed of it, where the log ends at `end`."""
        for frame_offset, body in self.peer.frames():
            self.sent_end = max(self.sent_end, frame_offset + len(body))
        first = REPORT.unpack(self.said[:8])[0] if len(self.said) >= 8 else 0
        return max(self.sent_end, first if 0 <= first <= end else 0)


class Master:
    """A master, and what its slaves do."""

    def __init__(self, program: Program) -> None:
        self.log = MemoryLog(FILE)
        self.log.append(bytes(1 + program.byte()))
        self.rig = MasterRig(self.log)
        self.claims: list[Claim] = []
        self.believable = 0

    def claim(self, program: Program) -> Claim | None:
        return self.claims[program.byte() % len(self.claims)] if self.claims else None

    def connect(self, host: str) -> Claim:
        made = Claim(self.rig.slave(host=host))
        self.claims.append(made)
        return made

    def step(self, program: Program) -> None:
        choice = program.byte() % 8
        if choice == 0:
            self.connect(HOSTS[program.byte() % len(HOSTS)])
        elif choice == 1:
            host = HOSTS[program.byte() % len(HOSTS)]
            reports = program.byte()
            for _ in range(BURST):
                made = self.connect(host)
                if reports & 1:
                    made.send(REPORT.pack(offset(program, self.log.max_offset)))
        elif choice == 2:
            self.log.append(program.bytes()[:FILE] or b"x")
            self.rig.group.wait(self.log.max_offset, self.log.max_offset)
        elif choice == 3:
            TURNS.take(self.rig.clock.advance, program.byte() / 8)
        elif (claim := self.claim(program)) is None:
            return
        elif choice == 4:
            count = 1 + program.byte() % 4
            claim.send(b"".join(REPORT.pack(offset(program, self.log.max_offset)) for _ in range(count)))
        elif choice == 5:
            claim.send(program.bytes())
        elif choice == 6:
            self.claims.remove(claim)
            claim.peer.lose()
        elif not claim.peer.gone and claim.peer.wire.producer is not None:
            claim.peer.wire.drain() if claim.peer.wire.full else claim.peer.wire.fill()

    def check(self) -> None:
        end = self.log.max_offset
        self.believable = max([self.believable, *(claim.most(end) for claim in self.claims)])
        believed = self.rig.group.acked_offset
        assert believed <= min(self.believable, end), (believed, self.believable, end)
        for claim in [each for each in self.claims if each.peer.gone]:
            self.claims.remove(claim)
            claim.peer.lose()
        assert len(self.claims) <= MAX_LINKS + MAX_UNREPORTED, len(self.claims)

    def serve(self) -> None:
        """An honest slave, which has the whole log."""
        begin = self.log.max_offset
        honest = self.rig.slave(begin, host="10.0.9.9")
        self.log.append(NEWS)
        waiting = self.rig.group.wait(self.log.max_offset, self.log.max_offset)
        self.rig.clock.advance(0.125)
        assert honest.body().endswith(NEWS) and not honest.gone
        honest.report(self.log.max_offset)
        assert waiting.called and self.rig.group.acked_offset == self.log.max_offset
        honest.lose()


def run_master(data: bytes) -> None:
    """Slaves that do all this. Raises AssertionError."""
    program = Program(data)
    with no_failures():
        master = Master(program)
        steps = 0
        while program.left and steps < LONGEST:
            master.step(program)
            master.check()
            steps += 1
        master.serve()
        master.rig.service.stopService()
        for claim in master.claims:
            claim.peer.lose()
        master.rig.group.stop()


def masters_seeds() -> Iterable[bytes]:
    """Good slaves and bad ones."""
    join = bytes([0, 0])
    good = join + bytes([4, 0, 0, 0]) + bytes([2, 0, 3]) + b"abc" + bytes([4, 0, 0, 0])
    yield b"\x09" + good
    yield b"\x09" + good + bytes([6, 0]) + good
    for number in range(12):
        yield bytes([9]) + join + bytes([4, 0, 0, number])
        yield bytes([9]) + good + bytes([4, 0, 0, number])
    yield bytes([9, 1, 0, 1]) + bytes(BURST) + bytes([1, 1, 0]) * 5
    yield bytes([9]) + join + bytes([5, 0, 0, 3]) + b"abc" + bytes([3, 255, 3, 255])
    yield bytes([9]) + good + bytes([7, 0, 2, 0, 1, 120, 7, 0])


def slaves_seeds() -> Iterable[bytes]:
    """Of each kind of slave a good master, and one for each wrong word."""
    frame = bytes([0, 0, 3]) + b"abc"
    for kind in range(16):
        yield bytes([kind, 7]) + frame + bytes([7]) + frame + bytes([4, 80, 3, 4, 80]) + frame
        for number in range(12):
            yield bytes([kind, 4, 8, 6, 2, 0, number, 1, number, number % 8, 0, 0]) + frame
    yield bytes([1, 2, 0, 5]) + b"hello" + frame
    yield bytes([1]) + bytes([3, 4, 40]) * 5
    yield bytes([0, 5, 1, 4, 80, 5, 2, 4, 80, 5, 0, 4, 80]) + frame


SLAVE: Callable[[bytes], object] = run_slave
MASTER: Callable[[bytes], object] = run_master
LINKS = {
    "ha-slave": Target(SLAVE, (), slaves_seeds, tries=100, turns=TURNS),
    "ha-master": Target(MASTER, (), masters_seeds, tries=40, turns=TURNS),
}

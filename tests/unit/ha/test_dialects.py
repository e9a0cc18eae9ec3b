"""A dialect with a handshake first fits the seam: the autoswitch one of RocketMQ 5 has one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from hatwisted.ha.classic import ClassicDialect, ClassicFrames, ClassicReports
from hatwisted.ha.events import MasterEvent, Opened, Reply, SlaveLinkEvent
from hatwisted.ha.grouptransfer import GroupTransferService
from hatwisted.ha.interfaces import IFrameReceiver, IReportReceiver
from hatwisted.ha.master import HAService
from hatwisted.ha.slave import HAClientService, SlaveParts
from hatwisted.sim.memorynet import MemoryNetwork
from hatwisted.wire.haframe import HaProtocolError
from tests.support.memorylog import MemoryLog

GREETING, ANSWER = b"slave 7\n", b"epoch 3\n"


@implementer(IReportReceiver)
class GreetedReports(ClassicReports):
    """Answers the greeting, then speaks as the classic dialect."""

    def __init__(self) -> None:
        super().__init__()
        self.greeting = b""

    def receive(self, data: bytes) -> Sequence[MasterEvent]:
        if self.greeting == GREETING:
            return super().receive(data)
        missing = len(GREETING) - len(self.greeting)
        self.greeting += data[:missing]
        if self.greeting != GREETING[: len(self.greeting)]:
            raise HaProtocolError(f"greeted with {self.greeting!r}")
        if self.greeting != GREETING:
            return ()
        return (Reply(ANSWER), *super().receive(data[missing:]))


@implementer(IFrameReceiver)
class GreetingFrames(ClassicFrames):
    """Greets, and is open once it's answered."""

    def __init__(self, max_body: int) -> None:
        super().__init__(max_body)
        self.answer = b""

    def opening(self) -> Sequence[SlaveLinkEvent]:  # type: ignore[override]
        return (Reply(GREETING),)

    def receive(self, data: bytes) -> Sequence[SlaveLinkEvent]:  # type: ignore[override]
        if self.answer == ANSWER:
            return super().receive(data)
        missing = len(ANSWER) - len(self.answer)
        self.answer += data[:missing]
        return (Opened(),) if self.answer == ANSWER else ()


class GreetingDialect(ClassicDialect):
    """Both sides of it."""

    def report_receiver(self) -> GreetedReports:
        return GreetedReports()

    def frame_receiver(self) -> GreetingFrames:
        return GreetingFrames(self.max_body)


class DialectTests(SynchronousTestCase):
    def pair(self, of_master: ClassicDialect, of_slave: ClassicDialect) -> tuple[MemoryLog, MemoryLog]:
        """The logs of a running pair; bytes travel three at a time."""
        self.clock = Clock()
        network = MemoryNetwork(self.clock, piece=lambda waiting: min(waiting, 3))
        here, there = network.host("10.0.0.1"), network.host("10.0.0.2")
        master_log, slave_log = MemoryLog(), MemoryLog()
        master_log.append(bytes(range(200)))
        group = GroupTransferService(self.clock, 5.0)
        self.master = HAService(master_log, self.clock, partial(here.listen, 10912), group, None, of_master)
        parts = SlaveParts(
            log=slave_log,
            clock=self.clock,
            connecting=there,
            random=Random(1),
            master_address=lambda: "10.0.0.1:10912",
        )
        self.slave = HAClientService(parts, None, of_slave)
        for service in (self.master, self.slave):
            service.startService()
            self.addCleanup(service.stopService)
        self.clock.pump([0.01] * 500)
        return master_log, slave_log

    def test_a_handshake_comes_before_the_first_report(self) -> None:
        master_log, slave_log = self.pair(GreetingDialect(), GreetingDialect())
        self.assertEqual(slave_log.read(0, 1000), master_log.read(0, 1000))
        master_log.append(b"more")
        self.clock.pump([0.01] * 200)
        self.assertEqual(slave_log.max_offset, 204)
        self.assertEqual([status.ack_offset for status in self.master.status()], [204])

    def test_whoever_skips_the_handshake_is_no_slave(self) -> None:
        _, slave_log = self.pair(GreetingDialect(), ClassicDialect())
        self.assertEqual(slave_log.max_offset, 0)
        self.assertEqual([status.ack_offset for status in self.master.status() if status.ack_offset > 0], [])

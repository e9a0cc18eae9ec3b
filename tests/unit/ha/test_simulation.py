"""Master and slaves over a network that misbehaves: whatever happens, the logs end byte-identical, and at no
time does the master count a byte that a slave doesn't hold. A failure names its seed."""

from __future__ import annotations

from random import Random

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.ha import haconnection
from hatwisted.ha.grouptransfer import GroupTransferService
from hatwisted.ha.master import HAService
from hatwisted.ha.settings import MasterSettings, SlaveSettings
from hatwisted.ha.slave import HAClientService, SlaveParts
from hatwisted.wire.haframe import HaAck, HaFirstSync
from tests.support.memorylog import MemoryLog
from tests.support.soak import times
from tests.unit.ha.faultylink import FaultyNetwork

SEEDS = range(times(15))
STEPS = 250
FILE_SIZE = 4000


class Group:
    """One master, two slaves, one seed."""

    def __init__(self, case: SynchronousTestCase, seed: int, ack: HaAck) -> None:
        self.case = case
        self.seed = seed
        self.random = Random(seed)
        self.clock = Clock()
        self.network = FaultyNetwork(self.clock, self.random)
        self.log = MemoryLog(FILE_SIZE)
        self.log.append(self.random.randbytes(self.random.randrange(3 * FILE_SIZE)))
        self.ack = ack
        self.group = GroupTransferService(self.clock, 5.0)
        self.puts_ok: list[int] = []
        settings = MasterSettings(
            batch_size=self.random.choice((100, 333, 1500)), first_sync=HaFirstSync.MIN_OFFSET
        )
        self.master = HAService(self.log, self.clock, self.network.listen, self.group, settings)
        self.master.startService()
        self.slave_logs = [MemoryLog(FILE_SIZE), MemoryLog(FILE_SIZE)]
        self.slaves = [self._slave(log) for log in self.slave_logs]

    def _slave(self, log: MemoryLog) -> HAClientService:
        parts = SlaveParts(
            log=log,
            clock=self.clock,
            connecting=self.network,
            random=self.random,
            master_address=lambda: "10.0.0.1:10912",
            flush_now=log.flush_now,
        )
        slave = HAClientService(parts, SlaveSettings(ack=self.ack))
        slave.startService()
        return slave

    def step(self) -> None:
        """Something happens."""
        match self.random.randrange(40):
            case 0:
                self.network.cut()
            case 1:
                self.network.up = self.random.random() < 0.7
            case 2:
                self.network.max_piece = self.random.choice((40, 700, 5000, 5000))
            case 3:
                log = self.random.choice(self.slave_logs)
                log.capacity = None if log.capacity else log.max_offset + self.random.randrange(2000)
            case 4:
                self._flush_some()
            case _:
                self._put()
        self.clock.advance(self.random.random() * self.random.choice((0.05, 0.3, 2.0)))
        self._check()

    def _put(self) -> None:
        end = self.log.append(self.random.randbytes(self.random.randrange(1, 1200)))
        self.group.wait(end, end).addCallback(
            lambda acked: self.puts_ok.append(end) if acked >= end else None
        )

    def _flush_some(self) -> None:
        log = self.random.choice(self.slave_logs)
        log.hold_flushes = not log.hold_flushes
        while log.flushes:
            log.flushes.pop(0).callback(0)

    def _held(self, log: MemoryLog) -> int:
        return log.flushed_offset if self.ack is HaAck.DURABLE else log.max_offset

    def _check(self) -> None:
        held = max(map(self._held, self.slave_logs))
        self.case.assertLessEqual(self.master.replicas.push2_slave_max_offset, held, f"seed {self.seed}")
        self.case.assertLessEqual(max(self.puts_ok, default=0), held, f"seed {self.seed}")
        bound = haconnection.HA_WRITE_WINDOW + haconnection.CATCH_UP_CHUNK
        self.case.assertLessEqual(self.network.most_buffered, bound * 1.2, f"seed {self.seed}")

    def heal(self) -> None:
        """Everything works again, for long enough."""
        self.network.up = True
        self.network.max_piece = 5000
        for log in self.slave_logs:
            log.capacity = None
            log.hold_flushes = False
            while log.flushes:
                log.flushes.pop(0).callback(0)
        for _ in range(4000):
            self.clock.advance(0.05)
            if all(self._held(log) == self.log.max_offset for log in self.slave_logs):
                break
        self.clock.pump([0.05] * 40)

    def stop(self) -> None:
        """No timer is left behind."""
        for service in (*self.slaves, self.master):
            stopped = service.stopService()
            self.clock.pump([0.1] * 20)
            self.case.successResultOf(stopped)
        self.case.assertEqual(self.clock.getDelayedCalls(), [], f"seed {self.seed}")


class RandomWalkTests(SynchronousTestCase):
    def setUp(self) -> None:
        # Small enough for the walks to change gear all the time.
        self.patch(haconnection, "CATCH_UP_CHUNK", 3000)
        self.patch(haconnection, "HA_WRITE_WINDOW", 4000)

    def walk(self, seed: int, ack: HaAck) -> int:
        """One run; returns how many puts were told that a slave has them."""
        group = Group(self, seed, ack)
        for _ in range(STEPS):
            group.step()
        group.heal()
        for log in group.slave_logs:
            self.assertEqual(bytes(log), bytes(group.log), f"seed {seed}")
        self.assertEqual(group.master.replicas.push2_slave_max_offset, group.log.max_offset, f"seed {seed}")
        group.stop()
        return len(group.puts_ok)

    def test_B88_logs_end_identical_and_no_ack_runs_ahead(self) -> None:
        replicated = [self.walk(seed, HaAck.RECEIVED) for seed in SEEDS]
        self.assertGreater(sum(replicated), 30 * len(SEEDS))

    def test_B91_durable_acks_never_run_ahead_of_the_slaves_disk(self) -> None:
        replicated = [self.walk(1000 + seed, HaAck.DURABLE) for seed in SEEDS]
        self.assertGreater(sum(replicated), 10 * len(SEEDS))

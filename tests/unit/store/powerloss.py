"""A store on a disk that loses power: what a test of recovery says in a few verbs.

Time and the store's workers move only when the test says so, so every state of the disk that a kernel may leave
can be made: what was synced is there, of the rest exactly what the test lets the kernel write.
"""

from __future__ import annotations

from datetime import datetime
from random import Random

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.logcodec.queueentry import ENTRY_SIZE
from hatwisted.sim.simdisk import SimDisk
from hatwisted.sim.trace import Trace
from hatwisted.store.lifecycle.recovery import RecoveryReport
from hatwisted.store.log.put import Put
from hatwisted.store.messagestore import MessageStore
from hatwisted.store.storeoptions import StoreOptions
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.layout import QUEUE_ENTRY
from tests.support.manualworker import ManualWorker

HOST = HostPort(b"\x7f\0\0\1", 10911).pack()
START_TIME = 1_700_000_000.0


class PowerLossCase(SynchronousTestCase):
    """`store` is the one of the present life."""

    sync_flush = True

    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.advance(START_TIME)
        self.disk = SimDisk(self.clock.seconds, Trace(self.clock.seconds))
        self.addCleanup(self._forget_timers)

    def _forget_timers(self) -> None:
        for call in list(self.clock.getDelayedCalls()):
            call.cancel()

    def start(self, *, same_boot: bool = False, **options: object) -> RecoveryReport:
        """A broker's store starts."""
        given: dict[str, object] = {
            "root": "/s",
            "store_host": HOST,
            "commit_log_file_size": 1 << 16,
            "consume_queue_file_size": 50 * ENTRY_SIZE,
            "index_slots": 20,
            "index_items": 300,
            "sync_flush": self.sync_flush,
            "local_time": datetime.fromtimestamp,
            "process_id": lambda: 1,
        } | options
        self.worker, self.flusher = ManualWorker(), ManualWorker()
        self.store = MessageStore(
            StoreOptions(**given),  # type: ignore[arg-type]
            self.clock,
            self.disk,
            self.worker,
            self.flusher,
        )
        report = self.store.load(same_boot=same_boot)
        self.store.start()
        return report

    def put(
        self, topic: str, body: bytes, count: int = 1, queue_id: int = 0, properties: bytes = b""
    ) -> list[Put]:
        """Append messages; the kernel has them, the disk hasn't."""
        puts = [Put(topic, queue_id, [(0, body, properties)], HOST, 0) for _ in range(count)]
        self.store.append(puts)
        return puts

    def flush(self) -> None:
        """SEND_OK under SYNC_FLUSH, to all that was put."""
        done = self.store.flusher.flush_now()
        self.flusher.work()
        self.assertEqual(self.successResultOf(done), self.store.log.max_offset)

    def dispatch(self) -> None:
        """Queues and index learn of it: the kernel has their entries, the disk hasn't."""
        self.clock.pump([0.01] * 30)

    def pass_time(self, seconds: float) -> None:
        """As a running broker spends it: flushes, syncs of queues, the checkpoint."""
        for _ in range(round(seconds * 2)):
            self.clock.advance(0.5)
            self.worker.work()
            self.flusher.work()

    def kernel_writes(self, *parts: str) -> None:
        """The kernel writes the dirty pages of files whose paths have one of these parts, of its own accord."""
        for path, inode in self.disk.names.files.items():
            if any(part in path for part in parts):
                inode.sync()
        self.disk.journal.sync()

    def lose_power(self, kept: float = 0.0, seed: int = 1) -> None:
        """Whatever wasn't written is gone (kept: chance of a page to be written all the same)."""
        self._forget_timers()
        self.disk.reboot(Random(seed), kept)

    def kill(self) -> None:
        """The process ends, the kernel goes on."""
        self._forget_timers()
        self.disk.process_gone()

    def bodies(self, topic: str, queue_id: int = 0) -> list[bytes]:
        """What a group that reads the queue from its beginning gets."""
        found, at = [], self.store.queue_offsets(topic, queue_id)[0]
        while at < self.store.queue_end(topic, queue_id):
            read = self.store.get_messages(topic, queue_id, at, 1, 1 << 20)
            found.append(bytes(read.buffers[0]) if read.buffers else b"")
            at = read.next_begin_offset
        return found

    def entries(self, topic: str, queue_id: int = 0) -> list[tuple[int, int]]:
        """(physical offset, size) of each entry of a queue."""
        queue = self.store.queues.find(topic, queue_id)
        if queue is None:
            return []
        count = queue.max_offset - queue.min_offset
        return [entry[:2] for entry in QUEUE_ENTRY.iter_unpack(queue.read(queue.min_offset, count))]

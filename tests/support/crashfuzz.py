"""Seeded lives of a store, each ended by a failure of power, a kill or an orderly stop; judged at the next start.

Judged: what was acknowledged as flushed is there; the log is a prefix of what was appended, no put that was
refused among it; every record has its queue entry at its queue offset, and no entry names anything else; numbering
goes on. `python -m tests.support.crashfuzz 500 [async] [faults] [from N]` prints the outcomes.
"""

from __future__ import annotations

import errno
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from twisted.internet.task import Clock

from hatwisted.logcodec.onerecord import record_at
from hatwisted.sim.diskstrike import Strike
from hatwisted.sim.simclock import PowerLoss
from hatwisted.sim.simdisk import SimDisk
from hatwisted.sim.trace import Trace
from hatwisted.store.errors import DamagedLog
from hatwisted.store.log.put import Put, PutStatus
from hatwisted.store.messagestore import MessageStore
from hatwisted.store.storeoptions import StoreOptions
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.layout import MAGIC_BLANK, QUEUE_ENTRY, RECORD_HEAD
from tests.support.manualworker import ManualWorker

HOST = HostPort(b"\x7f\0\0\1", 10911).pack()
FILE_SIZE = 1 << 16
LIVES = 4
QueueKey = tuple[str, int]


class Violation(Exception):
    """The store has broken a promise."""


@dataclass
class Outcomes:
    """What became of the starts: counts by kind, and the seeds of those that broke a promise."""

    starts: int = 0
    refused: int = 0
    violations: dict[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        kinds = Counter(text.partition(":")[0] for text in self.violations.values())
        share = self.refused / max(1, self.starts)
        return (
            f"{self.starts} starts, {self.refused} refused as damaged ({share:.1%}), violations {dict(kinds)}"
        )


class CrashRun:
    """One seed. sync: SYNC_FLUSH; faults: the disk refuses some writes and syncs."""

    def __init__(self, seed: int, *, sync: bool = True, faults: bool = False) -> None:
        self.random = Random(seed)
        self.clock = Clock()
        self.clock.advance(1.7e9)
        self.disk = SimDisk(self.clock.seconds, Trace(self.clock.seconds))
        self.sync = sync
        self.faults = faults
        self.history = bytearray()
        """All that was appended and still counts."""
        self.durable = 0
        """Up to there it was acknowledged as flushed."""
        self.same_boot = False
        """Has the system gone on since the last life?"""
        self.unknown: list[bytes] = []
        """Bodies of puts whose outcome nobody knows."""

    def run(self, outcomes: Outcomes) -> None:
        """All lives. Raises Violation."""
        for _ in range(LIVES):
            outcomes.starts += 1
            store = self._made()
            try:
                store.load(same_boot=self.same_boot)
            except DamagedLog as damage:
                outcomes.refused += 1
                if damage.offset < self.durable and self.history[damage.offset : self.durable]:
                    self._judge_damage(damage)
                return
            self._judge_log(store)
            self._judge_queues(store)
            self._live(store)
            self._end(store)

    def _made(self) -> MessageStore:
        self.worker, self.flusher = ManualWorker(), ManualWorker()
        options = StoreOptions(
            root="/s",
            store_host=HOST,
            commit_log_file_size=FILE_SIZE,
            consume_queue_file_size=20 * 50,
            index_slots=200,
            index_items=300,
            sync_flush=self.sync,
            local_time=datetime.fromtimestamp,
            process_id=lambda: 1,
        )
        return MessageStore(options, self.clock, self.disk, self.worker, self.flusher)

    # -- judging ---------------------------------------------------------------------------------------------

    def _judge_damage(self, damage: DamagedLog) -> None:
        raise Violation(f"damaged: at {damage.offset}, acknowledged up to {self.durable}")

    def _judge_log(self, store: MessageStore) -> None:
        end = store.log.max_offset
        if end < self.durable:
            raise Violation(f"lost: acknowledged up to {self.durable}, recovered up to {end}")
        held = _bytes(store)
        same = min(end, len(self.history))
        if held[:same] != self.history[:same]:
            raise Violation(f"other bytes: within {same}")
        surplus = held[same:]
        if surplus and not _is_blank(surplus) and not any(body in surplus for body in self.unknown):
            raise Violation(f"refused put is back: {len(surplus)} bytes behind {same}")
        self.history[:] = held
        self.durable = max(self.durable, 0)

    def _judge_queues(self, store: MessageStore) -> None:
        expected: dict[QueueKey, list[tuple[int, int]]] = {}
        for offset, size, key, index in _records(store):
            rows = expected.setdefault(key, [])
            if index != len(rows):
                raise Violation(f"numbering: {key} has {index} behind {len(rows)} records")
            rows.append((offset, size))
        for key, rows in expected.items():
            queue = store.queues.find(*key)
            count = 0 if queue is None else queue.max_offset
            if queue is None or count != len(rows):
                raise Violation(f"queue: {key} has {count} entries for {len(rows)} records")
            found = [entry[:2] for entry in QUEUE_ENTRY.iter_unpack(queue.read(0, count))]
            if found != rows:
                wrong = next(i for i, (a, b) in enumerate(zip(found, rows, strict=True)) if a != b)
                raise Violation(f"entry: {key} {wrong} is {found[wrong]}, not {rows[wrong]}, of {count}")
            if store.log.queue_offsets.get(key) != len(rows):
                raise Violation(f"next offset: {key}")
        for queue in store.queues:
            if queue.max_offset and (queue.topic, queue.queue_id) not in expected:
                raise Violation(f"queue: {queue} has entries and no records")

    # -- a life ----------------------------------------------------------------------------------------------

    def _live(self, store: MessageStore) -> None:
        random = self.random
        store.start()
        store.log.add_listener(lambda start, blob: self.history.extend(blob))
        power_fails = random.randrange(5, 120) if random.random() < 0.5 else None
        for step in range(random.randrange(5, 120)):
            if step == power_fails:
                self.disk.strike(Strike(after=random.randrange(40), torn=random.random()))
            if self.faults:
                self._order_faults()
            try:
                self._step(store)
            except PowerLoss:
                return
        self.disk.strikes.clear()

    def _order_faults(self) -> None:
        random = self.random
        self.disk.strikes = [strike for strike in self.disk.strikes if strike.error is None]
        number = random.choice((errno.ENOSPC, errno.EIO))
        if random.random() < 0.15:
            self.disk.strike(Strike(["pwrite", "reserve"], error=number, times=2, torn=random.random()))
        if random.random() < 0.01:
            self.disk.strike(Strike(["datasync"], error=errno.EIO))

    def _step(self, store: MessageStore) -> None:
        random = self.random
        puts = [self._put() for _ in range(random.randrange(1, 6))]
        try:
            store.append(puts)
        except PowerLoss:
            self.unknown += [body for put in puts for _, body, _ in put.entries]
            raise
        for put in puts:
            if put.status is PutStatus.UNKNOWN_ERROR:
                self.unknown += [body for _, body, _ in put.entries]
            elif put.end >= 0 and self.sync:
                flushed = store.flush.wait(put.end, put.end, self.clock.seconds() + 5)
                flushed.addCallback(self._acknowledged, put.end)  # type: ignore[attr-defined]
        self.clock.advance(random.choice((0.0001, 0.003, 0.02, 0.6)))
        for worker in (self.worker, self.flusher):
            if random.random() < 0.7:
                worker.work(random.randrange(4))
        if not self.sync:
            self.durable = max(self.durable, store.log.flushed_offset)

    def _put(self) -> Put:
        random = self.random
        body = random.randbytes(random.choice((10, 300, 3000, 9000)))
        keys = b"KEYS\x01k%d\x02" % random.randrange(9) if random.random() < 0.5 else b""
        return Put(random.choice("ABC"), random.randrange(2), [(0, body, keys)], HOST, 0)

    def _acknowledged(self, offset: int, end: int) -> None:
        if offset >= end:
            self.durable = max(self.durable, end)

    def _end(self, store: MessageStore) -> None:
        random = self.random
        self.same_boot = not self.disk.powerless
        if not self.disk.powerless and random.random() < 0.2:
            stopping = store.stop()
            for _ in range(400):
                self.worker.work()
                self.flusher.work()
                self.clock.advance(0.05)
            if not stopping.called:
                raise Violation("stop: it hangs")
            if store.log.stopped_reason is None:
                self.durable = max(self.durable, store.log.max_offset)
        elif not self.disk.powerless and random.random() < 0.25:
            self.disk.process_gone()
        else:
            self.disk.reboot(random, random.random())
            self.same_boot = False
        self.disk.process_gone()
        for call in list(self.clock.getDelayedCalls()):
            call.cancel()
        self.clock.advance(random.choice((0.5, 30)))


def _bytes(store: MessageStore) -> bytes:
    held, at = bytearray(), 0
    while at < store.log.max_offset:
        chunk = store.log.read(at, 1 << 20)
        held += chunk
        at += len(chunk)
    return bytes(held)


def _is_blank(surplus: bytes) -> bool:
    return surplus[: RECORD_HEAD.size] == RECORD_HEAD.pack(len(surplus), MAGIC_BLANK)


def _records(store: MessageStore) -> Iterable[tuple[int, int, QueueKey, int]]:
    """Physical offset, size, queue and queue offset of each record of the log."""
    at = 0
    while at < store.log.max_offset:
        size, magic = RECORD_HEAD.unpack(store.log.read(at, RECORD_HEAD.size))
        if magic != MAGIC_BLANK:
            record = record_at(store.log, at)
            if record is None:
                raise Violation(f"log: no record at {at}")
            yield at, size, (record.topic, record.queue_id), record.queue_offset
        at += size


def run(seeds: Iterable[int], *, sync: bool = True, faults: bool = False) -> Outcomes:
    """These seeds, one after the other."""
    outcomes = Outcomes()
    for seed in seeds:
        try:
            CrashRun(seed, sync=sync, faults=faults).run(outcomes)
        except Violation as violation:
            outcomes.violations[seed] = str(violation)
    return outcomes


if __name__ == "__main__":
    words = sys.argv[2:]
    first = int(words[words.index("from") + 1]) if "from" in words else 0
    found = run(range(first, first + int(sys.argv[1])), sync="async" not in words, faults="faults" in words)
    print(found)
    for number, text in sorted(found.violations.items())[:20]:
        print(number, text)

"""Seeded lives of a store, each ended by a failure of power, a kill or an orderly stop; judged at the next start.

Judged: what was acknowledged as flushed is there; the log is a prefix of what was appended, no put that was
refused among it; every record has its queue entry at its queue offset, and no entry names anything else; numbering
goes on. Topics are deleted and made again, here or, as a slave sees it, elsewhere: a queue has the records of its
topic's last life. `python -m tests.support.crashfuzz 500 [async] [faults] [deletes] [from N]` prints the outcomes.
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
from hatwisted.store.queue.consumequeue import ConsumeQueue
from hatwisted.store.queue.queueremoval import Removed
from hatwisted.store.storeoptions import StoreOptions
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.layout import MAGIC_BLANK, PRE_BLANK_SIZE, QUEUE_ENTRY, RECORD_HEAD
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
    rebuilt: int = 0
    """After an orderly stop, for nothing."""
    violations: dict[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        kinds = Counter(text.partition(":")[0] for text in self.violations.values())
        share = self.refused / max(1, self.starts)
        return (
            f"{self.starts} starts, {self.refused} refused as damaged ({share:.1%}), {self.rebuilt} built queues "
            f"again for nothing, violations {dict(kinds)}"
        )


@dataclass
class Deletion:
    """Of a topic's queue. at: the log's end then; whole: it's durable, and nothing was on its way to the queue."""

    at: int
    whole: bool = False


class CrashRun:
    """One seed. sync: SYNC_FLUSH; faults: the disk refuses some writes and syncs; deletes: topics are deleted."""

    def __init__(self, seed: int, *, sync: bool = True, faults: bool = False, deletes: bool = False) -> None:
        self.random = Random(seed)
        self.clock = Clock()
        self.clock.advance(1.7e9)
        self.disk = SimDisk(self.clock.seconds, Trace(self.clock.seconds))
        self.sync = sync
        self.faults = faults
        self.deletes = deletes
        self.deleted: dict[QueueKey, Deletion] = {}
        """The last one of each."""
        self.stopped = False
        """Did the last life end in order, with all that there was on the disk?"""
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
                report = store.load(same_boot=self.same_boot)
            except DamagedLog as damage:
                outcomes.refused += 1
                if damage.offset < self.durable and self.history[damage.offset : self.durable]:
                    self._judge_damage(damage)
                return
            outcomes.rebuilt += self.stopped and report.dispatched_bytes > 0
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
        for deletion in self.deleted.values():
            deletion.at = min(deletion.at, end)
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
            if self.deletes and not index:
                rows.clear()  # another life of the topic
            if index != len(rows):
                raise Violation(f"numbering: {key} has {index} behind {len(rows)} records")
            rows.append((offset, size))
        for key, rows in expected.items():
            found = _entries(store.queues.find(*key))
            count = len(found)
            deletion = self.deleted.get(key, Deletion(0))
            if not count and (not rows or sum(rows[-1]) <= deletion.at):
                rows = []
            elif deletion.whole and sum(rows[-1]) <= deletion.at:
                raise Violation(f"deleted: {key} has {count} entries again")
            if count != len(rows):
                raise Violation(f"queue: {key} has {count} entries for {len(rows)} records")
            for number, (entry, row) in enumerate(zip(found, rows, strict=True)):
                if entry != row and not (entry[1] == PRE_BLANK_SIZE and sum(row) <= deletion.at):
                    raise Violation(f"entry: {key} {number} is {entry}, not {row}, of {count}")
            if store.log.queue_offsets.get(key, 0) != len(rows):
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
        if self.deletes and random.random() < 0.05:
            self._delete(store)
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

    def _delete(self, store: MessageStore) -> None:
        """A topic, or what a slave sees of that: its master numbers a queue from 0 again."""
        random = self.random
        topic = random.choice("ABC")
        keys = [key for key in store.log.queue_offsets if key[0] == topic]
        made = {key: Deletion(store.log.max_offset) for key in keys}
        self.deleted |= made
        if random.random() < 0.4:
            store.log.queue_offsets.update(dict.fromkeys(keys, 0))
            return
        ends = {key: 0 if (queue := store.queues.find(*key)) is None else queue.max_offset for key in keys}
        whole = [key for key in keys if ends[key] == store.log.queue_offsets[key]]

        def durable(_: Removed) -> None:
            for key in whole:
                made[key].whole = not self.faults

        store.removal.drop_topics(lambda name: name == topic).addCallbacks(durable, lambda failure: None)

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
        self.stopped = False
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
                self.stopped = not self.faults
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


def _entries(queue: ConsumeQueue | None) -> list[tuple[int, int]]:
    """(physical offset, size) of each entry from 0 on; what was before the queue's first file is blank."""
    if queue is None:
        return []
    first = queue.min_offset
    rows = QUEUE_ENTRY.iter_unpack(queue.read(first, queue.max_offset - first))
    found = [(0, PRE_BLANK_SIZE)] * first + [row[:2] for row in rows]
    if len(found) != queue.max_offset:
        raise Violation(f"queue: {queue} gives {len(found)} entries")
    return found


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


def run(seeds: Iterable[int], *, sync: bool = True, faults: bool = False, deletes: bool = False) -> Outcomes:
    """These seeds, one after the other."""
    outcomes = Outcomes()
    for seed in seeds:
        try:
            CrashRun(seed, sync=sync, faults=faults, deletes=deletes).run(outcomes)
        except Violation as violation:
            outcomes.violations[seed] = str(violation)
    return outcomes


if __name__ == "__main__":
    words = sys.argv[2:]
    first = int(words[words.index("from") + 1]) if "from" in words else 0
    found = run(
        range(first, first + int(sys.argv[1])),
        sync="async" not in words,
        faults="faults" in words,
        deletes="deletes" in words,
    )
    print(found)
    for number, text in sorted(found.violations.items())[:20]:
        print(number, text)

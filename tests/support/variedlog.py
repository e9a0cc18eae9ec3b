"""A log with everything in it that makes a difference to queues and index."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hatwisted.wire import layout
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.record import make_record
from tests.support.logbuilder import START_TIME, LogBuilder

TOPICS = ("Orders", "Größen🚀", "%RETRY%group", layout.SCHEDULE_TOPIC, layout.HALF_TOPIC)
FLAGS = (
    *(0, 0, 0, 0, layout.SYS_TRANSACTION_PREPARED, layout.SYS_TRANSACTION_ROLLBACK),
    *(layout.SYS_TRANSACTION_COMMIT, layout.SYS_COMPRESSED, layout.SYS_MULTI_TAG),
)


class VariedLog(LogBuilder):
    """Records at random: delayed, transactional, of IPv6 hosts, with many keys or none, of topics that were
    deleted and recreated, with queue offsets left out. first_offset: of every queue."""

    def __init__(self, seed: int, base: int = 0, first_offset: int = 0) -> None:
        super().__init__(base)
        self._random = random.Random(seed)
        self._first = first_offset
        self._next: dict[tuple[str, int], int] = {}
        self._time = START_TIME

    def vary(self, count: int) -> VariedLog:
        """Append records."""
        for _ in range(count):
            self._vary_one()
        return self

    def recreate(self, topic: str, queue_id: int) -> None:
        """The topic has been deleted; its next record recreates it."""
        self._next[topic, queue_id] = 0

    def _vary_one(self) -> None:
        pick = self._random
        topic, queue_id, sys_flag = pick.choice(TOPICS), pick.choice((0, 1, 7)), pick.choice(FLAGS)
        queued = not sys_flag & layout.SYS_TRANSACTION_PREPARED
        self._time += pick.choice((0, 1, 3, 5000))
        body = pick.randbytes(pick.choice((0, 1, 50, 400)))
        raw = b"\2".join(self._properties())
        born, stored = (HostPort(bytes(pick.choice((4, 4, 4, 16))), 1) for _ in range(2))
        if queued:
            self._move(topic, queue_id)
        record = make_record(
            topic,
            body,
            raw_properties=raw,
            queue_id=queue_id,
            queue_offset=self._queue_offset(topic, queue_id) if queued else 0,
            sys_flag=sys_flag,
            store_timestamp=self._time,
            born_host=born,
            store_host=stored,
        )
        self.place(record)
        if queued:
            self._next[topic, queue_id] = record.queue_offset + 1

    def _queue_offset(self, topic: str, queue_id: int) -> int:
        return self._next.get((topic, queue_id), self._first)

    def _move(self, topic: str, queue_id: int) -> None:
        """Now and then the next queue offset isn't the next one."""
        offset = self._queue_offset(topic, queue_id)
        chance = self._random.random()
        if chance < 0.01:
            self._next[topic, queue_id] = 0
        elif chance < 0.03:
            self._next[topic, queue_id] = offset + self._random.randrange(1, 150)
        elif chance < 0.04 and offset > self._first + 1:
            self._next[topic, queue_id] = offset - 1

    def _properties(self) -> Iterator[bytes]:
        pick = self._random
        number = len(self.records)
        if pick.random() < 0.8:
            yield b"UNIQ_KEY\1%032X" % number
        if pick.random() < 0.7:
            keys = [b"k%d" % (number % 13), b"", "Schlüssel".encode(), b"x" * pick.choice((1, 9, 70, 300))]
            yield b"KEYS\1" + b" ".join(keys[: pick.randrange(5)])
        if pick.random() < 0.5:
            yield b"TAGS\1" + pick.choice((b"Tag1", b"", "Ä🚀".encode(), b"a||b"))
        if pick.random() < 0.5:
            yield b"DELAY\1" + pick.choice((b"1", b"3", b"18", b"99", b"0", b"x"))
        yield b"CLUSTER\1c"

"""Rows of what brokers send: in batches of bounded size, however much bodies grow."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from unittest import TestCase
from unittest.mock import patch

from hatwisted.blocking.settings import ClusterSettings
from hatwisted.pipeline.decode import bodies
from hatwisted.pipeline.remote.clusterreader import ClusterReader
from hatwisted.pipeline.remote.queuepull import WHOLE, PullOptions, QueueRange
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.record import encode_record
from tests.support.logdrafts import plain
from tests.support.scriptedgroup import record

LIMIT = 10_000


class Sent(ClusterReader):
    """What was sent is there already."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__(ClusterSettings(name_servers=("127.0.0.1:1",)))
        self._pieces = pieces

    def records(self, wanted: QueueRange, how: PullOptions = WHOLE) -> Iterator[bytes | memoryview]:
        return iter(self._pieces)


class BatchTests(TestCase):
    def read(self, *pieces: bytes) -> list[list[int]]:
        """Lengths of the bodies of each batch."""
        queue = MessageQueue(topic="T", broker_name="broker-a", queue_id=0)
        wanted = QueueRange(queue, 0, 1000, {})
        with patch.object(bodies, "BATCH_BYTES", LIMIT), Sent(*pieces) as reader:
            batches = list(reader.read(wanted, ["body", "file"]))
        for each in batches:
            self.assertEqual(each.column("file").null_count, each.num_rows)
        return [[len(body) for body in each.column("body").to_pylist()] for each in batches]

    def test_bodies_that_grow_come_in_several_batches(self) -> None:
        large = encode_record(plain(zlib.compress(bytes(4000)), sys_flag=0x1).record)
        self.assertEqual(self.read(large * 4, large * 4), [[4000] * 3, [4000] * 3, [4000] * 2])

    def test_others_come_together(self) -> None:
        self.assertEqual(self.read(record(0, b"one"), record(1, b"three")), [[3, 5]])
        self.assertEqual(self.read(), [])

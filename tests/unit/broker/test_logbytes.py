"""The log's bytes for who compares copies: how many requests are under way at once."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.admin.logbytes import MOST_AT_ONCE, LogBytesProcessor
from hatwisted.store.log.logranges import LogRanges
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.logrange import LogRange
from hatwisted.wire.remoting import RemotingCommand


class SlowRanges:
    """Of a disk that takes its time."""

    def __init__(self) -> None:
        self.reads: list[Deferred[bytes]] = []

    def read(self, span: LogRange) -> Deferred[bytes]:
        self.reads.append(Deferred())
        return self.reads[-1]


class LogBytesTests(SynchronousTestCase):
    def test_no_more_are_under_way_than_that(self) -> None:
        ranges = SlowRanges()
        processor = LogBytesProcessor(Clock(), cast(LogRanges, ranges))
        fields = {"begin": "0", "end": "10"}

        def read() -> Any:
            return processor.read(cast(Any, None), RemotingCommand(RequestCode.READ_LOG, ext=fields))

        answers = [read() for _ in range(MOST_AT_ONCE)]
        self.assertEqual(read().code, ResponseCode.SYSTEM_BUSY)
        ranges.reads.pop(0).callback(b"0123456789")
        self.assertEqual(self.successResultOf(answers[0]).body, b"0123456789")
        answers.append(read())
        self.assertEqual(read().code, ResponseCode.SYSTEM_BUSY)
        for each in ranges.reads:
            each.callback(b"")
        self.assertEqual([self.successResultOf(answer).code for answer in answers[1:]], [0] * MOST_AT_ONCE)

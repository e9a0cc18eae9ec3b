"""Is a slave's log a beginning of its master's? What the master's answers mean for that."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import TestCase

from hatwisted.broker.node.masterlog import MasterLog, last_offset
from hatwisted.remoting.client import RemotingClient
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.remoting import RemotingCommand
from tests.unit.broker.rig import BrokerRig

NOT_FOUND = (ResponseCode.SYSTEM_ERROR, "can not find message by the offset, 7")


class Master:
    """Answers as a master that holds [oldest, end) and `record` at any offset, or refuses to show it."""

    def __init__(self, oldest: int, end: int, record: bytes | tuple[int, str]) -> None:
        self.oldest, self.end, self.record = oldest, end, record

    def ask(self, address: str, command: RemotingCommand, timeout: float) -> Deferred[RemotingCommand]:
        assert (address, command.code) == ("master:10911", RequestCode.GET_BROKER_RUNTIME_INFO)
        table = {"commitLogMinOffset": str(self.oldest), "commitLogMaxOffset": str(self.end)}
        return succeed(RemotingCommand(0, body=fastjson.dumps_compact({"table": table})))

    def call(self, address: str, command: RemotingCommand, timeout: float) -> Deferred[RemotingCommand]:
        assert (address, command.code) == ("master:10911", RequestCode.VIEW_MESSAGE_BY_ID)
        if isinstance(self.record, bytes):
            return succeed(RemotingCommand(0, body=self.record))
        return succeed(RemotingCommand(int(self.record[0]), remark=self.record[1]))


class MasterLogTests(TestCase):
    def setUp(self) -> None:
        self.rig: Any = BrokerRig(self)
        for number in range(5):
            self.rig.put("T", number % 3, b"body %d" % number)
        self.rig.turn()
        self.store = self.rig.store
        self.end = self.store.log.max_offset
        last = last_offset(self.store.queues)
        assert last is not None
        self.last = last
        self.record = self.store.look_message(last)

    def judged(self, client: object) -> str | None:
        log = MasterLog(cast(RemotingClient, client), self.store, lambda: "master:10911")
        return self.successResultOf(log.difference())

    def test_the_last_record_is_that_of_the_queue_that_reaches_farthest(self) -> None:
        self.assertEqual(self.last + len(self.record), self.end)
        self.assertIn(b"body 4", self.record)

    def test_the_same_record_there_is_the_same_log(self) -> None:
        self.assertIsNone(self.judged(Master(0, self.end, self.record)))
        self.assertIsNone(self.judged(Master(self.last, self.end + 5000, self.record)))

    def test_another_record_or_none_is_another_log(self) -> None:
        for there in (self.record[:-1] + b"?", b"", NOT_FOUND):
            said = self.judged(Master(0, self.end + 10, there))
            self.assertIn(f"our last record, at offset {self.last}, isn't in the master's log", said or "")

    def test_what_the_master_does_not_hold_says_nothing(self) -> None:
        self.assertIsNone(self.judged(Master(self.last + 1, self.end + 10, NOT_FOUND)))
        self.assertIsNone(self.judged(Master(0, self.end - 1, NOT_FOUND)))

    def test_a_refusal_for_another_reason_says_nothing(self) -> None:
        for refusal in ((ResponseCode.SYSTEM_BUSY, "[OVERLOAD]"), (ResponseCode.SYSTEM_ERROR, "")):
            self.assertIsNone(self.judged(Master(0, self.end, refusal)))

    def test_a_master_that_cannot_be_asked_is_an_error(self) -> None:
        client = Master(0, self.end, self.record)
        client.ask = lambda *_: fail(TimeoutError())  # type: ignore[method-assign]
        log = MasterLog(cast(RemotingClient, client), self.store, lambda: "master:10911")
        self.failureResultOf(log.difference(), TimeoutError)

"""What a slave asks its master about the log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.node import comparedlogs, queuenumbers
from hatwisted.broker.node.comparedlogs import ComparedLogs
from hatwisted.broker.node.masterlog import TIMEOUT, MasterLog
from hatwisted.broker.node.queuenumbers import QueueNumbers
from hatwisted.clientcore.errors import CallTimedOut
from hatwisted.remoting.client import RemotingClient
from hatwisted.store.log.logranges import LogRanges
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.logrange import LogRange
from hatwisted.wire.remoting import RemotingCommand


class Master:
    """Answers as a master that holds [oldest, end), or not at all."""

    def __init__(self, held: tuple[int, int] | None) -> None:
        self.held = held

    def ask(self, address: str, command: RemotingCommand, timeout: float) -> Deferred[RemotingCommand]:
        assert timeout == TIMEOUT
        assert (address, command.code) == ("master:10911", RequestCode.GET_BROKER_RUNTIME_INFO)
        if self.held is None:
            return fail(TimeoutError())
        table = {"commitLogMinOffset": str(self.held[0]), "commitLogMaxOffset": str(self.held[1])}
        return succeed(RemotingCommand(0, body=fastjson.dumps_compact({"table": table})))


class MasterLogTests(SynchronousTestCase):
    def bounds(self, master: Master) -> Deferred[tuple[int, int]]:
        return MasterLog(cast(RemotingClient, master), lambda: "master:10911").bounds()

    def test_its_bounds_are_in_its_runtime_info(self) -> None:
        self.assertEqual(self.successResultOf(self.bounds(Master((4096, 9000)))), (4096, 9000))

    def test_a_master_that_cannot_be_asked_is_an_error(self) -> None:
        self.failureResultOf(self.bounds(Master(None)), TimeoutError)


class Odd:
    """Answers with this body."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def ask(self, address: str, command: RemotingCommand, timeout: float) -> Deferred[RemotingCommand]:
        return succeed(RemotingCommand(0, body=self.body))


class OddAnswers(SynchronousTestCase):
    def test_an_answer_that_is_none_is_a_value_error(self) -> None:
        """It's logged in a line, as by whoever asks; anything else would leave a traceback in each round."""
        for body in (b"", b"{}", b"[]", b"7", b'{"table":7}', b'{"table":["x"]}'):
            log = MasterLog(cast(RemotingClient, Odd(body)), lambda: "master:10911")
            self.failureResultOf(log.bounds(), ValueError)
            self.failureResultOf(log.runtime(), ValueError)
        for table in (
            {},
            {"commitLogMinOffset": "0"},
            {"commitLogMinOffset": [], "commitLogMaxOffset": None},
        ):
            body = fastjson.dumps_compact({"table": table})
            log = MasterLog(cast(RemotingClient, Odd(body)), lambda: "master:10911")
            self.failureResultOf(log.bounds(), ValueError)


class Patient:
    """Keeps how long an answer may take."""

    def __init__(self) -> None:
        self.given: list[float] = []

    def ask(self, address: str, command: RemotingCommand, timeout: float) -> Deferred[RemotingCommand]:
        self.given.append(timeout)
        return fail(CallTimedOut(address, "no answer"))


class PatienceTests(SynchronousTestCase):
    def test_bytes_of_the_log_and_numbers_of_queues_have_their_time(self) -> None:
        client = Patient()
        logs = ComparedLogs(cast(RemotingClient, client), lambda: "master:10911", cast(LogRanges, Held()))
        self.failureResultOf(Deferred.fromCoroutine(logs.read(LogRange(0, 10))), CallTimedOut)
        self.assertEqual(client.given, [comparedlogs.TIMEOUT])
        nothing: Any = None
        topics: Any = SimpleNamespace(names=list)
        client.given.clear()
        numbers = QueueNumbers(
            cast(RemotingClient, client), Clock(), nothing, topics, nothing, lambda: "master:10911"
        )
        self.failureResultOf(numbers._call("master:10911", RequestCode.GET_BROKER_RUNTIME_INFO), CallTimedOut)
        self.assertEqual(client.given, [queuenumbers.TIMEOUT])


class Held:
    """A log of ten bytes."""

    held = LogRange(0, 10)

    def read(self, span: LogRange) -> Deferred[bytes]:
        return succeed(bytes(10))

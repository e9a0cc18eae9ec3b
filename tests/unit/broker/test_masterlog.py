"""What a slave asks its master about the log."""

from __future__ import annotations

from typing import cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.node.masterlog import MasterLog
from hatwisted.remoting.client import RemotingClient
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand


class Master:
    """Answers as a master that holds [oldest, end), or not at all."""

    def __init__(self, held: tuple[int, int] | None) -> None:
        self.held = held

    def ask(self, address: str, command: RemotingCommand, timeout: float) -> Deferred[RemotingCommand]:
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

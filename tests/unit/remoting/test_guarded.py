"""A guarded table: who is refused is answered, in whatever batch its request came, and nobody else sees it."""

from __future__ import annotations

from collections.abc import Collection

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransportWithDisconnection
from twisted.logger import Logger
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.acl.refusals import RefusingGuard
from hatwisted.remoting.guarded import Denial, guarded
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.remoting.serverfactory import RemotingServerFactory
from hatwisted.wire.codes import FLAG_ONEWAY, RequestCode, ResponseCode
from hatwisted.wire.remoting import RemotingCommand, RemotingReceiver, encode_command


class PassGuard(RefusingGuard):
    """Asks each request for a field."""

    _log = Logger()

    def denial(self, request: RemotingCommand, connection: RemotingConnection) -> Denial | None:
        if request.ext.get("pass") == "yes":
            return None
        return self._refuse("all", Denial(f"{connection.peer} may not"), "no pass")


class GuardedTests(SynchronousTestCase):
    codes: Collection[int] | None = None

    def setUp(self) -> None:
        self.batches: list[list[int]] = []
        table = ProcessorTable()
        table.register(
            RequestCode.GET_MAX_OFFSET, lambda connection, request: response(request, remark="served")
        )
        table.register_batch((RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE), self.batch)
        factory = RemotingServerFactory(
            guarded(table, PassGuard(Clock()), self.codes), Clock(), typed_sends=False
        )
        self.connection = factory.buildProtocol(None)
        self.transport = StringTransportWithDisconnection(peerAddress=IPv4Address("TCP", "10.0.0.7", 4711))
        self.transport.setTcpNoDelay = self.transport.setTcpKeepAlive = lambda on: None  # type: ignore[attr-defined]
        self.connection.makeConnection(self.transport)

    def batch(self, connection: RemotingConnection, requests: list[RemotingCommand]) -> None:
        self.batches.append([request.opaque for request in requests])
        for request in requests:
            connection.reply(request, response(request, remark="served"))

    def ask(self, *requests: tuple[int, str], flag: int = 0) -> list[tuple[int, int, str | None]]:
        """(opaque, code, remark) of each answer to requests of one read, numbered from 0."""
        frames = [
            encode_command(RemotingCommand(code, opaque=number, flag=flag, ext={"pass": word}))
            for number, (code, word) in enumerate(requests)
        ]
        self.connection.dataReceived(b"".join(frames))
        answers = RemotingReceiver().receive(self.transport.value())
        return [(answer.opaque, answer.code, answer.remark) for answer in answers]

    def test_one_request(self) -> None:
        self.assertEqual(self.ask((30, "yes")), [(0, 0, "served")])
        self.transport.clear()
        self.assertEqual(self.ask((30, "no")), [(0, ResponseCode.SYSTEM_ERROR, "10.0.0.7:4711 may not")])

    def test_who_may_not_is_taken_out_of_the_batch(self) -> None:
        answers = self.ask((310, "yes"), (320, "no"), (310, "yes"), (310, "no"))
        self.assertEqual(self.batches, [[0, 2]])
        self.assertEqual(sorted(answer[:2] for answer in answers), [(0, 0), (1, 1), (2, 0), (3, 1)])

    def test_a_batch_of_strangers_never_reaches_the_processor(self) -> None:
        self.ask((310, "no"), (310, "no"))
        self.assertEqual(self.batches, [])

    def test_an_oneway_request_is_refused_without_a_word(self) -> None:
        self.assertEqual(self.ask((30, "no"), (310, "no"), flag=FLAG_ONEWAY), [])
        self.assertEqual(self.batches, [])


class UnservedTests(SynchronousTestCase):
    """Requests that no handler is asked meet a guard if it says so, through copies of the table, too."""

    def code(self, table: ProcessorTable, request: RemotingCommand) -> int:
        factory = RemotingServerFactory(table, Clock(), typed_sends=False)
        connection = factory.buildProtocol(None)
        assert connection is not None
        answer = table.unserved(connection, request)
        assert isinstance(answer, RemotingCommand)
        return answer.code

    def test_a_guard_decides_about_them_if_it_is_to(self) -> None:
        plain, guard = ProcessorTable(), PassGuard(Clock())
        for table, code in (
            (plain, ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
            (guarded(plain, guard), ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
            (guarded(plain, guard, unserved=True), ResponseCode.SYSTEM_ERROR),
            (guarded(plain, guard, unserved=True).without(30), ResponseCode.SYSTEM_ERROR),
        ):
            self.assertEqual(self.code(table, RemotingCommand(31_999)), code)

    def test_whom_it_lets_through_is_told_that_nobody_answers(self) -> None:
        table = guarded(ProcessorTable(), PassGuard(Clock()), unserved=True)
        request = RemotingCommand(31_999, ext={"pass": "yes"})
        self.assertEqual(self.code(table, request), ResponseCode.REQUEST_CODE_NOT_SUPPORTED)


class SomeGuardedTests(GuardedTests):
    """The guard decides about a batch's codes alone: what the others do with the rest is tested above."""

    codes = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)

    def test_one_request(self) -> None:
        self.assertEqual(self.ask((30, "no")), [(0, 0, "served")])

    def test_an_oneway_request_is_refused_without_a_word(self) -> None:
        self.assertEqual(self.ask((310, "no"), flag=FLAG_ONEWAY), [])
        self.assertEqual(self.batches, [])

"""What is said of a mistake: short, and with what to do next."""

from __future__ import annotations

from typing import Any, NoReturn
from unittest import mock

from twisted.internet.defer import Deferred, ensureDeferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster.mistakes import ANSWER_TIMEOUT, cannot, nearest, shortened, with_names
from hatwisted.cli.errors import CannotRun
from hatwisted.clientcore.errors import ClientError, ConnectFailed, NoNameServer, NoRoute, Refused
from hatwisted.wire.codes import RequestCode, ResponseCode

UNKNOWN = "the name servers don't know it"


class WordsTests(SynchronousTestCase):
    def test_what_twisted_says_of_a_connection_is_said_once(self) -> None:
        for said, short in (
            ("Connection was refused by other side: 111: Connection refused.", "connection refused"),
            ("No route to host: 113: No route to host.", "no route to host"),
            ("DNS lookup failed: no results for hostname lookup: db.example.", "no such host"),
            ("no TLS there", "no TLS there"),
        ):
            told = f"h:1: can't connect: {said}"
            self.assertEqual(shortened(told), f"h:1: can't connect: {short}")
            self.assertEqual(shortened(f"{told}; g:1: gone"), f"h:1: can't connect: {short}; g:1: gone")

    def test_a_port_of_the_other_kind(self) -> None:
        def unsupported(code: int) -> Refused:
            return Refused(
                "h:1", ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {code} not supported"
            )

        runtime, audit = RequestCode.GET_BROKER_RUNTIME_INFO, 99907
        self.assertIn(
            "; no broker answers so: is it a name server's port?", str(cannot(unsupported(runtime)))
        )
        self.assertNotIn("name server", str(cannot(unsupported(audit))), "brokers of others don't know ours")
        names = NoNameServer(f"no name server answered: {unsupported(RequestCode.GET_BROKER_CLUSTER_INFO)}")
        self.assertTrue(
            str(cannot(names)).endswith(". What answers there is no name server: is it a broker's port?")
        )

    def test_one_full_stop(self) -> None:
        refused = ConnectFailed("h:1", "can't connect: refused: 111: Connection refused.")
        self.assertEqual(str(cannot(refused)), "h:1: can't connect: connection refused")
        self.assertNotIn("..", str(cannot(NoNameServer("no name server answered: h:1: gone."))))

    def test_the_nearest(self) -> None:
        self.assertEqual(nearest("Ordres", ["Payments", "Orders"]), "Orders")
        self.assertIsNone(nearest("zzz", ["Payments", "Orders"]))


class NamesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.cluster = mock.Mock(clock=self.clock)
        self.admin = self.cluster.admin.return_value

    def told(self, error: Exception) -> Deferred[Any]:
        async def work(*_: object) -> NoReturn:
            raise error

        return ensureDeferred(with_names(work)(self.cluster, None))  # type: ignore[arg-type]

    def said(self, error: Exception) -> str:
        return str(self.failureResultOf(self.told(error), CannotRun).value)

    def test_a_mistyped_topic_or_group(self) -> None:
        self.admin.topics.return_value = succeed(["Orders", "Payments"])
        self.admin.groups.return_value = succeed({"ledger": {}})
        topic, group = (
            NoRoute("Ordres", UNKNOWN),
            ClientError("group legder: no broker knows it; a group exists"),
        )
        self.assertEqual(self.said(topic), f"topic Ordres: {UNKNOWN}; did you mean Orders?")
        self.assertTrue(self.said(group).endswith("; did you mean ledger?"))
        self.assertTrue(
            self.said(NoRoute("zz", UNKNOWN)).endswith("; hatwisted topic list shows what there is")
        )

    def test_nobody_is_asked_about_anything_else(self) -> None:
        for error in (NoRoute("T", "none of its queues takes messages"), ConnectFailed("h:1", "gone")):
            self.assertIs(self.failureResultOf(self.told(error)).value, error)
        self.cluster.admin.assert_not_called()

    def test_a_cluster_that_does_not_answer_keeps_nobody_waiting(self) -> None:
        error = NoRoute("T", UNKNOWN)
        self.admin.topics.return_value = Deferred()
        told = self.told(error)
        self.assertNoResult(told)
        self.clock.advance(ANSWER_TIMEOUT)
        self.assertIs(self.failureResultOf(told).value, error)

"""Registrations of many topics: who waits for whom, and what is kept meanwhile."""

from __future__ import annotations

from collections.abc import Generator

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.namesrv import largeregistrations
from hatwisted.namesrv.largeregistrations import (
    LEAST_SIZE,
    MAX_OF_CONNECTION,
    LargeRegistrations,
    TooManyRegistrations,
)
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire.remoting import RemotingCommand


class LargeRegistrationsCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.large = LargeRegistrations(self.clock)
        self.begun: list[str] = []
        self.ended: list[str] = []

    def connection(self, host: str) -> RemotingConnection:
        made = RemotingConnection()
        made.address = host
        return made

    def work(self, name: str, steps: int = 3) -> Generator[None, None, RemotingCommand]:
        self.begun.append(name)
        try:
            for _ in range(steps):
                yield
                self.clock.rightNow += 0.01  # as long as a turn, and more
        finally:
            self.ended.append(name)
        return RemotingCommand(0, remark=name)

    def enter(
        self, name: str, connection: RemotingConnection, size: int = 0, steps: int = 3
    ) -> Deferred[RemotingCommand]:
        return self.large.enter(connection, size, self.work(name, steps))

    def turns(self, count: int) -> None:
        """So many rounds of the loop: what one of them sets for at once comes with the next."""
        for _ in range(count):
            for call in [*self.clock.calls]:
                self.clock.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)

    def test_one_is_under_way_at_a_time_and_hosts_take_turns(self) -> None:
        first, second = self.connection("10.0.0.1"), self.connection("10.0.0.2")
        answers = [self.enter(f"{index}", first) for index in range(3)]
        other = self.enter("other", second)
        self.assertEqual(self.begun, [], "nobody waits for a step of it before the next turn")
        self.turns(1)
        self.assertEqual(self.begun, ["0"])
        self.turns(30)
        self.assertEqual(self.begun, ["0", "1", "other", "2"])
        self.assertEqual(self.ended, self.begun)
        self.assertEqual(
            [self.successResultOf(each).remark for each in (*answers, other)], ["0", "1", "2", "other"]
        )
        self.assertFalse(self.large.has(first))

    def test_what_is_refused_at_once_keeps_nobody(self) -> None:
        def refused() -> Generator[None, None, RemotingCommand]:
            raise ValueError("no registration")
            yield

        peers = [self.connection(f"10.0.{index >> 8}.{index & 255}") for index in range(1500)]
        answers = [self.large.enter(peer, 0, refused()) for peer in peers]
        last = self.enter("last", self.connection("10.1.0.0"))
        self.turns(5)
        for answer in answers:
            self.failureResultOf(answer, ValueError)
        self.assertEqual(self.successResultOf(last).remark, "last")

    def test_a_connection_has_so_many(self) -> None:
        peer = self.connection("10.0.0.1")
        answers = [self.enter(f"{index}", peer) for index in range(MAX_OF_CONNECTION)]
        self.failureResultOf(self.enter("more", peer), TooManyRegistrations)
        self.turns(30)
        for answer in answers:
            self.successResultOf(answer)
        self.assertNoResult(self.enter("again", peer))

    def test_so_many_bytes_wait_and_who_has_most_of_them_is_refused(self) -> None:
        self.patch(largeregistrations, "MAX_WAITING", 10 * LEAST_SIZE)
        many = [self.connection("10.0.0.1") for _ in range(9)]
        answers = [self.enter("many", peer) for peer in many]
        honest = [
            self.enter(f"{host}", self.connection(f"10.0.1.{host}"), 2 * LEAST_SIZE) for host in range(3)
        ]
        # One of them is under way, and eight wait beside six shares of honest brokers.
        for answer in answers[:5]:
            self.assertNoResult(answer)
        for answer in answers[5:]:
            self.failureResultOf(answer, TooManyRegistrations)
        self.failureResultOf(
            self.enter("huge", self.connection("10.0.2.1"), 11 * LEAST_SIZE), TooManyRegistrations
        )
        self.turns(60)
        for answer in (*answers[:5], *honest):
            self.successResultOf(answer)

    def test_those_of_a_closed_connection_end(self) -> None:
        gone, stays = self.connection("10.0.0.1"), self.connection("10.0.0.1")
        first, second, other = (
            self.enter("first", gone),
            self.enter("second", gone),
            self.enter("other", stays),
        )
        self.turns(2)
        self.large.forget(gone)
        self.assertEqual(self.ended, ["first"])
        self.turns(10)
        self.assertEqual(self.begun, ["first", "other"])
        self.assertNoResult(first)
        self.assertNoResult(second)
        self.assertEqual(self.successResultOf(other).remark, "other")
        self.large.forget(gone)
        self.assertFalse(self.large.has(gone))

"""Answers that nobody reads: who leaves most unread is closed when there is too much."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.remoting.portoptions import PortOptions
from hatwisted.remoting.processortable import ProcessorTable
from hatwisted.remoting.serverfactory import RemotingServerFactory
from hatwisted.remoting.unreadanswers import MAX_UNREAD_BYTES, UnreadAnswers


class Transport:
    """What the kernel hasn't taken of the first piece from `offset` on, and of the others."""

    dataBuffer = b""
    offset = 0
    _tempDataLen = 0


class Client:
    def __init__(self, address: str) -> None:
        self.address = address
        self.transport = Transport()
        self.reasons: list[str] = []

    def reject(self, reason: str) -> None:
        self.reasons.append(reason)


class UnreadAnswersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.unread = UnreadAnswers()
        self.unread.most = 1000

    def client(self, address: str, size: int = 0) -> Client:
        client = Client(address)
        self.leave(client, size)
        return client

    def leave(self, client: Client, size: int) -> None:
        client.transport.dataBuffer = bytes(size)
        self.unread.hold(client, size)

    def test_the_limit_unless_an_operator_sets_another(self) -> None:
        self.assertEqual(UnreadAnswers().most, MAX_UNREAD_BYTES)
        factory = RemotingServerFactory(ProcessorTable(), Clock(), options=PortOptions(unread_bytes=32 << 20))
        self.assertEqual(factory.unread.most, 32 << 20)

    def test_up_to_the_limit_nobody_is_closed(self) -> None:
        clients = [self.client("10.0.0.1", 500), self.client("10.0.0.1", 500)]
        self.assertEqual((self.unread.total, [each.reasons for each in clients]), (1000, [[], []]))

    def test_who_leaves_most_is_closed(self) -> None:
        small, large = self.client("10.0.0.1", 300), self.client("10.0.0.2", 600)
        late = self.client("10.0.0.3", 101)
        self.assertEqual((small.reasons, late.reasons), ([], []))
        self.assertEqual(large.reasons, ["answers that clients haven't read exceed 1000 bytes"])
        self.assertEqual(self.unread.total, 401)

    def test_an_address_with_many_connections_counts_as_one(self) -> None:
        honest = self.client("10.0.0.1", 300)
        strangers = [self.client("10.0.0.2", 100) for _ in range(8)]
        self.assertEqual(honest.reasons, [])
        self.assertEqual(sum(len(each.reasons) for each in strangers), 4)
        self.assertEqual(self.unread.total, 700)

    def test_who_has_read_meanwhile_leaves_nothing(self) -> None:
        reader = self.client("10.0.0.1", 900)
        reader.transport.dataBuffer = b""
        late = self.client("10.0.0.2", 200)
        self.assertEqual((reader.reasons, late.reasons, self.unread.total), ([], [], 200))

    def test_a_look_tells_what_waits_now(self) -> None:
        reader = self.client("10.0.0.1", 900)
        reader.transport.dataBuffer = bytes(10)
        self.assertEqual((self.unread.total, self.unread.seen(), self.unread.total), (900, 10, 10))

    def test_what_has_left_of_the_first_piece_does_not_count(self) -> None:
        reader = self.client("10.0.0.1", 900)
        reader.transport.offset, reader.transport._tempDataLen = 800, 50
        self.client("10.0.0.2", 200)
        self.assertEqual((reader.reasons, self.unread.total), ([], 350))

    def test_a_connection_that_is_gone_leaves_nothing(self) -> None:
        gone = self.client("10.0.0.1", 900)
        for _ in range(2):
            self.unread.forget(gone)
        self.assertEqual(self.unread.total, 0)

    def test_one_alone_may_not_leave_too_much_either(self) -> None:
        alone = self.client("10.0.0.1", 1001)
        self.assertEqual((len(alone.reasons), self.unread.total), (1, 0))

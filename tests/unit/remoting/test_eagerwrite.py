"""What leaves within the call that writes it: as much as the kernel takes, within a limit, in order."""

from __future__ import annotations

from typing import Any
from unittest import mock

from twisted.internet.task import Clock
from twisted.internet.tcp import Connection
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.remoting.eagerwrite import MOST_AT_ONCE, write_now
from hatwisted.remoting.server import WRITE_SIZE


class Kernel:
    """A socket's. room: bytes that it takes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.got: list[bytes] = []

    def setblocking(self, blocking: bool) -> None:
        """As all of Twisted's."""

    def fileno(self) -> int:
        return 3

    def send(self, data: Any) -> int:
        taken = bytes(data[: self.room])
        if not taken:
            raise BlockingIOError(11, "full")
        self.room -= len(taken)
        self.got.append(taken)
        return len(taken)


class Reactor(Clock):
    """Of a connection that nobody polls."""

    def addWriter(self, writer: object) -> None:
        """It waits for room."""


class WriteNowTests(SynchronousTestCase):
    def written(self, room: int, size: int) -> tuple[list[int], int]:
        """How many bytes a kernel of this room was given, call by call, and how many wait then."""
        kernel, data = Kernel(room), bytes(range(256)) * (size // 256) + bytes(size % 256)
        transport: Any = Connection(kernel, None, Reactor())  # type: ignore[arg-type]
        transport.connected = True
        transport.SEND_LIMIT = WRITE_SIZE
        waiting = write_now(transport, data)
        rest = transport.dataBuffer[transport.offset :] + b"".join(transport._tempDataBuffer)
        self.assertEqual(b"".join(kernel.got) + rest, data)
        return list(map(len, kernel.got)), waiting

    def test_all_of_it_if_there_is_room(self) -> None:
        self.assertEqual(self.written(1 << 30, 100), ([100], 0))
        self.assertEqual(self.written(1 << 30, 3 * WRITE_SIZE + 1), ([WRITE_SIZE] * 3 + [1], 0))

    def test_what_the_kernel_does_not_take_waits(self) -> None:
        self.assertEqual(self.written(0, 100), ([], 100))
        self.assertEqual(self.written(WRITE_SIZE + 7, 3 * WRITE_SIZE), ([WRITE_SIZE, 7], 2 * WRITE_SIZE - 7))

    def test_all_of_it_waits_where_the_connection_is_lost(self) -> None:
        with mock.patch.object(Kernel, "send", side_effect=ConnectionResetError(104, "reset by peer")):
            self.assertEqual(self.written(0, 12), ([], 12))

    def test_so_much_at_once_and_no_more(self) -> None:
        calls, waiting = self.written(1 << 30, MOST_AT_ONCE + WRITE_SIZE)
        self.assertEqual((sum(calls), waiting), (MOST_AT_ONCE, WRITE_SIZE))

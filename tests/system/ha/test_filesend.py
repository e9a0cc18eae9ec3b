"""A slave catches up from the master's files, by sendfile into real sockets."""

from __future__ import annotations

import os
import struct
from functools import partial
from random import Random
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.internet.defer import inlineCallbacks
from twisted.internet.task import deferLater

from hatwisted.ha.haconnection import EAGER_SIZE, HA_WRITE_WINDOW
from hatwisted.ha.sockets import SocketSizes
from hatwisted.wire.haframe import FrameReceiver, HaFirstSync, encode_report
from tests.support.faultyfs import FaultyFileSystem
from tests.support.memorylog import MemoryLog
from tests.support.pattern import pattern
from tests.support.rawlog import raw_log
from tests.system.ha.test_loopback import EncryptedCase, LoopbackCase, until

reactor: Any = _reactor
FILE = 1 << 20
SIZE = 12 * FILE + 4321
CONTENT = pattern(SIZE)
BATCH = 10_000


class FileSendTests(LoopbackCase):
    def setUp(self) -> None:
        super().setUp()
        self.fs = FaultyFileSystem()
        self.log = raw_log(self, self.fs, CONTENT, FILE)

    @inlineCallbacks
    def test_B88_a_copy_from_files_is_byte_identical_and_goes_on_live(self) -> Any:
        master = self.master(batch_size=BATCH, first_sync=HaFirstSync.MIN_OFFSET)
        slave = self.slave()
        yield until(lambda: slave.log.max_offset == SIZE)
        self.assertEqual(bytes(slave.log), CONTENT)  # type: ignore[call-overload]
        least = SIZE // BATCH - SIZE // FILE * (EAGER_SIZE // BATCH + 1)
        self.assertGreater(self.fs.count("send"), least)
        yield until(lambda: master.status()[0].state == "live")
        self.log.append_raw(SIZE, [b"fresh"])
        yield until(lambda: slave.log.max_offset == SIZE + 5)

    @inlineCallbacks
    def test_B47_a_slow_slave_gets_all_of_it_through_a_small_socket(self) -> Any:
        """The socket is full in the middle of heads and bodies, over and over, and appends go on."""
        master = self.master(batch_size=200_000, sockets=SocketSizes(send=30_000))
        peer = yield self.peer()
        peer.transport.write(encode_report(1))
        random, received, copy = Random(3), FrameReceiver(), bytearray(1)
        link = next(iter(master._links))
        most = 0
        for _ in range(300):
            peer.transport.pauseProducing()
            yield deferLater(reactor, random.random() / 500, lambda: None)
            most = max(most, len(link.transport.dataBuffer) + link.transport._tempDataLen)
            peer.transport.resumeProducing()
            self.log.append_raw(self.log.max_offset, [pattern(random.randrange(1, 500))])
            yield deferLater(reactor, 0, lambda: None)
        end = self.log.max_offset

        def whole() -> bool:
            got, peer.got = bytes(peer.got), bytearray()
            for frame in received.receive(got):
                self.assertEqual(frame.offset, len(copy))
                copy.extend(frame.body)
            return len(copy) == end

        yield until(whole)
        reads = self.fs.count("pread")
        self.assertEqual(bytes(copy[1:SIZE]), CONTENT[1:])
        self.assertEqual(b"".join(self.parts(SIZE, end)), copy[SIZE:])
        self.assertLess(most, HA_WRITE_WINDOW)
        self.assertGreater(reads, 10, "frames that the socket has taken a part of")

    def parts(self, at: int, end: int) -> Any:
        while at < end:
            part = self.log.read(at, end - at)
            at += len(part)
            yield part

    @inlineCallbacks
    def test_B52_links_that_are_reset_amidst_a_transfer_go_on_where_they_ended(self) -> Any:
        master = self.master(batch_size=BATCH, first_sync=HaFirstSync.MIN_OFFSET)
        slave = self.slave()
        resets, before = 0, None

        def has_linked_and_copied(end: int) -> bool:
            # A large read may bring so much before the link that was reset is known to be lost.
            return slave._link not in (None, before) and slave.log.max_offset > end

        for part in range(1, 5):
            yield until(partial(has_linked_and_copied, part * SIZE // 6))
            before = slave._link
            if slave.log.max_offset < SIZE:
                resets += 1
            handle = slave._link.transport.getHandle()  # type: ignore[union-attr]
            handle.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
            slave._link.abort()  # type: ignore[union-attr]
        yield until(lambda: slave.log.max_offset == SIZE)
        self.assertEqual(bytes(slave.log), CONTENT)  # type: ignore[call-overload]
        self.assertGreater(resets, 0)
        self.assertGreater(master.accepted_total, resets)

    @inlineCallbacks
    def test_a_file_that_is_removed_while_its_pages_wait_in_the_socket_arrives_all_the_same(self) -> Any:
        self.master(batch_size=BATCH, sockets=SocketSizes(send=FILE))
        peer = yield self.peer()
        peer.transport.pauseProducing()
        peer.transport.write(encode_report(1))
        yield until(lambda: self.fs.count("send") > 20)
        yield deferLater(reactor, 0.05, lambda: None)
        self.log.files.delete_before(11 * FILE)
        self.assertFalse(os.path.exists(self.log.files.path_of(0)))
        peer.transport.resumeProducing()
        received, copy, heartbeat = FrameReceiver(), bytearray(1), 0

        def ended() -> bool:
            nonlocal heartbeat
            got, peer.got = bytes(peer.got), bytearray()
            for frame in received.receive(got):
                if frame.body:
                    self.assertEqual(frame.offset, len(copy))
                    copy.extend(frame.body)
                else:
                    heartbeat = frame.offset
            return peer.lost

        yield until(ended)
        self.assertTrue(20 * BATCH < len(copy) < 11 * FILE, len(copy))
        self.assertEqual(copy[1:], CONTENT[1 : len(copy)])
        self.assertEqual(
            (heartbeat, received.buffered), (11 * FILE, 0), "it is told where the log begins now"
        )


class EncryptedFileSendTests(EncryptedCase):
    @inlineCallbacks
    def test_B88_B185_what_has_to_be_encrypted_is_read(self) -> Any:
        fs = FaultyFileSystem()
        self.log = raw_log(self, fs, CONTENT, FILE)
        self.master(batch_size=BATCH, first_sync=HaFirstSync.MIN_OFFSET)
        slave = self.slave(MemoryLog(FILE))
        yield until(lambda: slave.log.max_offset == SIZE)
        self.assertEqual(bytes(slave.log), CONTENT)  # type: ignore[call-overload]
        self.assertEqual(fs.count("send"), 0)

"""Frames from the log's files to a socket: whatever it takes at a time, its peer reads what copying would send."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from functools import partial
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.ha import haconnection
from hatwisted.ha.filesend import Sent, send_frames
from hatwisted.ha.grouptransfer import GroupTransferService
from hatwisted.ha.master import HAService
from hatwisted.ha.settings import MasterSettings
from hatwisted.ha.slave import HAClientService, SlaveParts
from hatwisted.sim.memorynet import BUFFER_SIZE, MemoryNetwork
from hatwisted.store.errors import StoreError
from hatwisted.store.interfaces import Buffer
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.wire.haframe import HEADER_SIZE, HaFirstSync, encode_frames, encode_heads
from tests.support.faultyfs import FaultyFileSystem
from tests.support.memorylog import MemoryLog
from tests.support.pattern import pattern
from tests.support.rawlog import raw_log
from tests.support.soak import times

FILE = 1 << 16
SIZE = 3 * FILE - 777
CONTENT = pattern(SIZE)
BATCH = 1000
MASTER = "10.0.0.1"


class Grudging:
    """A socket in memory that takes so many bytes, then none for now."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.taken = bytearray()

    def fileno(self) -> int:
        return -1

    def send(self, data: Buffer, flags: int = 0, /) -> int:
        if not self.room:
            raise BlockingIOError
        piece = bytes(data)[: self.room]
        self.room -= len(piece)
        self.taken += piece
        return len(piece)


def framed(start: int, size: int) -> bytes:
    return b"".join(encode_frames(start, CONTENT[start : start + size], BATCH))


class SendTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.fs = FaultyFileSystem()
        self.log = raw_log(self, self.fs, CONTENT, FILE)
        self.ours, self.peer = socket.socketpair()
        for end in (self.ours, self.peer):
            end.setblocking(False)
            self.addCleanup(end.close)

    def send(self, start: int, size: int) -> Sent:
        return send_frames(self.ours, self.log, start, encode_heads(start, size, BATCH))

    def received(self, most: int = 1 << 20) -> bytes:
        try:
            return self.peer.recv(most)
        except BlockingIOError:
            return b""

    def test_a_socket_that_stops_at_any_byte_has_whole_frames_and_the_rest_is_given_back(self) -> None:
        start, size = FILE + 5, 2 * BATCH + 3
        whole = framed(start, size)
        heads = encode_heads(start, size, BATCH)
        for room in range(len(whole) + 1):
            outlet = Grudging(room)
            sent = send_frames(outlet, self.log, start, heads)
            frames = -(-room // (BATCH + HEADER_SIZE))
            self.assertEqual(bytes(outlet.taken) + sent.rest, whole[: sent.framed], room)
            self.assertEqual(sent.size, min(frames * BATCH, size), room)
            self.assertEqual(sent.framed, sent.size + frames * HEADER_SIZE, room)
            self.assertFalse(sent.failed)

    def test_a_log_leaves_through_a_full_socket_byte_for_byte(self) -> None:
        """The kernel's: it takes what it has room for, and that in the middle of heads and bodies."""
        self.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 5000)
        random = Random(4)
        got, waiting, at, stopped = bytearray(), b"", 0, 0
        while at < SIZE or waiting:
            if not waiting:
                sent = self.send(at, min(SIZE - at, FILE - at % FILE))
                self.assertLessEqual(len(sent.rest), BATCH + HEADER_SIZE)
                self.assertFalse(sent.failed)
                at, waiting = at + sent.size, sent.rest
                stopped += bool(waiting)
            with contextlib.suppress(BlockingIOError):
                waiting = waiting[self.ours.send(waiting) :]
            got += self.received(random.randrange(1, 3000))
        while more := self.received():
            got += more
        self.assertEqual(
            bytes(got), b"".join(framed(start, min(FILE, SIZE - start)) for start in (0, FILE, 2 * FILE))
        )
        self.assertGreater(stopped, 10)

    def test_the_files_bytes_do_not_pass_through_this_process(self) -> None:
        sent = self.send(0, 5 * BATCH)
        self.assertEqual((sent.size, sent.rest), (5 * BATCH, b""))
        self.assertEqual(self.received(), framed(0, 5 * BATCH))
        self.assertEqual((self.fs.count("send"), self.fs.count("pread")), (5, 0))

    def test_what_can_not_be_sent_from_the_file_is_read(self) -> None:
        for error in (errno.EINVAL, errno.ENOSYS, errno.EIO):
            fault = self.fs.fail("send", error=error, nth=2)
            sent = self.send(7, 5 * BATCH)
            self.assertTrue(sent.failed)
            self.assertEqual(sent.size, 2 * BATCH, "the second one had begun")
            self.assertEqual(self.received() + sent.rest, framed(7, 2 * BATCH))
            fault.lift()

    def test_a_file_that_can_not_be_read_either_says_why(self) -> None:
        self.fs.fail("send")
        self.fs.fail("pread")
        error = self.assertRaises(OSError, self.send, 0, BATCH)
        self.assertEqual(error.errno, errno.EIO)

    def test_a_file_that_is_shorter_than_the_log_is_no_loop_without_end(self) -> None:
        os.truncate(self.log.files.path_of(0), 1500)
        error = self.assertRaises(StoreError, self.send, 0, 5 * BATCH)
        self.assertEqual(str(error), "the file has 500 bytes less than the log")
        self.assertEqual(self.received(), framed(0, 2 * BATCH)[: 1500 + 2 * HEADER_SIZE])

    def test_a_log_that_has_begun_anew_sends_nothing(self) -> None:
        self.log.files.delete_before(FILE)
        self.assertRaises(LookupError, self.send, FILE - 1, 1)
        self.assertEqual(self.received(), b"")

    def test_a_peer_that_is_gone_is_no_full_socket(self) -> None:
        self.peer.close()
        self.assertEqual(self.send(0, BATCH), Sent(0, 0, b"", True))
        self.ours.close()
        self.assertEqual(self.send(0, BATCH), Sent(0, 0, b"", True))


class LinkTests(SynchronousTestCase):
    """A master with its log on a disk, and a slave, over a network in memory."""

    def setUp(self) -> None:
        self.fs = FaultyFileSystem()
        self.clock = Clock()
        self.random = Random(1)
        self.held = False
        self.network = MemoryNetwork(
            self.clock,
            latency=lambda: 0.001,
            piece=lambda waiting: self.random.randrange(1, waiting + 1),
            room=lambda: self.random.randrange(self.most_room + 1),
            held=lambda source, target: self.held and source == MASTER,
        )
        self.most_room = BUFFER_SIZE
        self.copy = MemoryLog(FILE)

    def start(self, log: CommitLog, **settings: Any) -> HAService:
        here = self.network.host(MASTER)
        group = GroupTransferService(self.clock, 5.0)
        options = MasterSettings(first_sync=HaFirstSync.MIN_OFFSET, **settings)
        master = HAService(log, self.clock, partial(here.listen, 10912), group, options)
        parts = SlaveParts(
            log=self.copy,
            clock=self.clock,
            connecting=self.network.host("10.0.0.2"),
            random=self.random,
            master_address=lambda: f"{MASTER}:10912",
            flush_now=self.copy.flush_now,
        )
        for service in (master, HAClientService(parts)):
            service.startService()
            self.addCleanup(self.stop, service, self.clock)
        return master

    def stop(self, service: Any, clock: Clock) -> None:
        stopped: Deferred[None] = service.stopService()
        clock.pump([0.1] * 20)
        self.successResultOf(stopped)

    def turn_until_copied(self, log: CommitLog) -> None:
        for _ in range(20_000):
            if self.copy.max_offset == log.max_offset:
                break
            self.clock.advance(0.001)
        self.assertEqual(bytes(self.copy), CONTENT[: log.max_offset])

    def test_a_slave_that_lags_is_fed_from_the_files_and_then_live(self) -> None:
        log = raw_log(self, self.fs, CONTENT[:-500], FILE)
        self.most_room = 3000
        master = self.start(log, batch_size=BATCH)
        self.turn_until_copied(log)
        self.assertGreater(self.fs.count("send"), SIZE // BATCH - haconnection.EAGER_SIZE // BATCH)
        self.clock.advance(0.001)
        self.assertEqual(master.status()[0].state, "live")
        sent = self.fs.count("send")
        log.append_raw(SIZE - 500, [CONTENT[-500:]])
        self.turn_until_copied(log)
        self.assertEqual(self.fs.count("send"), sent)

    def test_others_have_their_turn_after_each_chunk_however_fast_the_slave_is(self) -> None:
        most = 5 * BATCH
        self.patch(haconnection, "SEND_CHUNK", most)
        log = raw_log(self, self.fs, CONTENT, FILE)
        self.network.room = lambda: BUFFER_SIZE
        self.start(log, batch_size=BATCH)
        turns = [0]
        while self.copy.max_offset < SIZE:
            before = len(self.fs.calls)
            self.clock.advance(0.001)
            turns.append(sum(call.size for call in self.fs.calls[before:] if call.operation == "send"))
        self.assertEqual(max(turns), most)
        self.assertEqual(bytes(self.copy), CONTENT)

    def test_links_that_end_anywhere_lose_and_repeat_nothing(self) -> None:
        amidst = 0
        for seed in range(times(6)):
            self.setUp()
            self.random.seed(seed)
            self.most_room = self.random.choice((100, 3000, BUFFER_SIZE))
            log = raw_log(self, self.fs, CONTENT, FILE)
            self.start(log, batch_size=self.random.choice((100, BATCH, FILE)))
            ends = set()
            for _ in range(10):
                self.clock.pump([0.001] * self.random.randrange(60))
                self.network.cut()
                ends.add(self.copy.max_offset)
                self.clock.pump([0.01] * 100)
            self.turn_until_copied(log)
            amidst += len(ends - {0, SIZE})
        self.assertGreater(amidst, 6)

    def test_a_disk_that_can_not_send_is_tried_once_a_link(self) -> None:
        log = raw_log(self, self.fs, CONTENT, FILE)
        fault = self.fs.fail("send", error=errno.EINVAL, times=None)
        self.start(log)
        self.turn_until_copied(log)
        self.assertEqual(fault.hits, 1)

    def test_B47_a_slave_that_reads_nothing_costs_a_frame_and_a_frame_is_a_chunk_at_most(self) -> None:
        size = 4 * haconnection.CATCH_UP_CHUNK
        log = raw_log(self, self.fs, bytes(size), size)
        self.copy = MemoryLog(size)
        master = self.start(log, batch_size=size)
        while not self.copy.max_offset:
            self.clock.advance(0.001)
        self.held = True
        self.clock.pump([0.5] * 20)
        self.assertEqual(master.status()[0].state, "catching up")
        transport: Any = next(iter(master._links)).transport
        most = haconnection.CATCH_UP_CHUNK + HEADER_SIZE + BUFFER_SIZE
        self.assertTrue(haconnection.CATCH_UP_CHUNK < transport.most_unsent <= most, transport.most_unsent)

    def test_B41_a_file_that_expires_under_a_slow_slave_ends_its_link_between_two_frames(self) -> None:
        log = raw_log(self, self.fs, CONTENT, FILE)
        master = self.start(log, batch_size=BATCH)
        self.clock.advance(0)
        self.held = True
        self.clock.pump([0.001] * 50)
        log.files.delete_before(2 * FILE)
        self.held = False
        self.clock.pump([0.01] * 200)
        self.assertEqual(master.status()[0].state, "offset expired")
        self.assertTrue(0 < self.copy.max_offset < 2 * FILE)
        self.assertEqual(bytes(self.copy), CONTENT[: self.copy.max_offset])

    def test_a_file_that_is_too_short_ends_the_link(self) -> None:
        log = raw_log(self, self.fs, CONTENT, FILE)
        os.truncate(log.files.path_of(FILE), 1500)
        master = self.start(log, batch_size=BATCH)
        self.clock.pump([0.001] * 500)
        self.assertEqual(bytes(self.copy), CONTENT[: self.copy.max_offset])
        self.assertTrue(FILE <= self.copy.max_offset <= FILE + BATCH, self.copy.max_offset)
        self.assertGreater(master.complaints.total, 0)

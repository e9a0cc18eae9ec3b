"""What monitoring shows of a link in trouble, and that the trouble is judged by what really happened."""

from __future__ import annotations

import errno
import struct

from twisted.internet.defer import succeed
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.ha.errors import FrameMismatch
from hatwisted.ha.firstsync import PROOF_SIZE, THREE_BYTE_SIZE, prove_prefix
from hatwisted.ha.slave import FRUITLESS_LIMIT
from hatwisted.ha.slavestate import STORE_RETRY
from hatwisted.store.errors import OffsetGap
from hatwisted.wire import layout
from hatwisted.wire.haframe import HaAck
from tests.support.memorylog import MemoryLog
from tests.support.pattern import pattern
from tests.unit.ha.rig import LogCatcher, MasterRig, SlaveRig


def filled(size: int, file_size: int = 1 << 20) -> MemoryLog:
    log = MemoryLog(file_size)
    log.append(pattern(size))
    log.flushed_offset = log.max_offset
    return log


class SlaveTroubleTests(SynchronousTestCase):
    def test_a_position_that_our_own_log_refuses_is_a_mismatch(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.log.error = OffsetGap(1000, 990)
        rig.send(1000, bytes(10))
        self.assertEqual((rig.state, rig.reports(), rig.wire.aborted), ("offset mismatch", [1000], True))
        self.assertIn("our own log refused the position", rig.service.status().problem)

    def test_the_stores_own_words_are_reported(self) -> None:
        for error, words in (
            (OSError(errno.ENOSPC, "no room at all"), "store full at offset 1000: [Errno 28] no room at all"),
            (OSError(errno.EIO, "broken"), "store failed at offset 1000: [Errno 5] broken"),
        ):
            rig = SlaveRig(filled(1000))
            rig.log.error = error
            rig.send(1000, bytes(10))
            self.assertEqual(rig.service.status().problem, words)

    def test_a_flush_that_fell_short_before_the_first_report_says_how_far_it_came(self) -> None:
        log = filled(1000)
        log.flushed_offset = 400
        self.patch(log, "flush_now", lambda: succeed(0))
        rig = SlaveRig(log, ack=HaAck.DURABLE)
        self.assertEqual((rig.state, rig.reports(), rig.wire.aborted), ("store failed", [], True))
        self.assertIn("the log is flushed to 400 of 1000 only", rig.service.status().problem)

    def test_a_flush_that_failed_before_the_first_report_says_why(self) -> None:
        log = filled(1000)
        log.flushed_offset, log.hold_flushes = 400, True
        rig = SlaveRig(log, ack=HaAck.DURABLE)
        log.flushes.pop().errback(OSError(errno.EIO, "torn off"))
        self.assertEqual((rig.state, rig.reports()), ("store failed", []))
        self.assertIn("flush failed: [Errno 5] torn off", rig.service.status().problem)

    def test_a_log_that_can_not_be_read_ends_the_link_on_either_side_and_is_tried_again(self) -> None:
        error = OSError(errno.EMFILE, "Too many open files")
        log = filled(1000)
        log.read_error = error
        rig = SlaveRig(log)
        self.assertEqual((rig.state, rig.reports(), rig.wire.aborted), ("store failed", [], True))
        self.assertIn("it can't be read: [Errno 24]", rig.service.status().problem)
        log.read_error = None
        rig.lose()
        rig.seconds(STORE_RETRY)
        self.assertEqual((rig.state, rig.reports()), ("transfer", [1000]))
        caught = LogCatcher(self)
        master = MasterRig(filled(1000))
        master.log.read_error = error
        self.assertTrue(master.slave(400).gone)
        self.assertTrue(any("can't be read at offset 400" in text for text in caught.texts("warn")))

    def test_status_is_whole_with_a_link_and_without(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.seconds(2)
        rig.send(1000, bytes(10))
        rig.seconds(1)
        up = rig.service.status()
        self.assertEqual((up.state, up.since, up.problem), ("transfer", 0.0, ""))
        self.assertEqual((up.master_address, up.connects_total), ("10.0.0.1:10912", 1))
        self.assertEqual((up.max_offset, up.flushed_offset, up.reported_offset), (1010, 1000, 1010))
        self.assertEqual((up.last_read, up.retry_at, up.suspect_from), (2.0, None, None))
        rig.header(999)
        rig.lose()
        down = rig.service.status()
        self.assertEqual((down.state, down.since), ("offset mismatch", 3.0))
        self.assertEqual((down.reported_offset, down.last_read), (-1, 0.0))
        self.assertEqual(down.retry_at, 3.0, "a link that had worked: at once")

    def test_B157_a_link_that_lasted_without_a_frame_is_not_redialled_at_once(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.seconds(2)
        rig.lose()
        rig.clock.advance(0.04)
        self.assertEqual(len(rig.dialled), 1)
        rig.seconds(1)
        self.assertEqual(len(rig.dialled), 2)

    def test_B38_a_master_that_hangs_up_says_so_in_an_error_once(self) -> None:
        caught = LogCatcher(self)
        rig = SlaveRig(filled(1000))
        for _ in range(FRUITLESS_LIMIT):
            self.assertNotEqual(rig.state, "master lacks offset")
            rig.lose()
            rig.seconds(1)
        self.assertEqual(rig.state, "master lacks offset")
        problem = rig.service.status().problem
        self.assertIn(f"closed {FRUITLESS_LIMIT} links in a row after our report of 1000", problem)
        self.assertEqual([problem in text for text in caught.texts("error")], [True])


class MasterTroubleTests(SynchronousTestCase):
    def test_an_empty_slave_may_repeat_its_0_as_long_as_it_likes(self) -> None:
        rig = MasterRig(MemoryLog())
        slave = rig.slave(0)
        for _ in range(8):
            rig.seconds(5)
            slave.report(0)
        self.assertEqual((slave.gone, rig.service.complaints.total), (False, 0))

    def test_B140_B143_a_refusal_says_which_side_lacks_what(self) -> None:
        caught = LogCatcher(self)
        log = filled(3000, file_size=1000)
        log.expire(1000)
        rig = MasterRig(log)
        rig.slave(3001, host="10.0.0.2")
        rig.slave(999, host="10.0.0.3")
        ahead, expired = caught.texts("error")
        self.assertIn("it asks for offset 3001, but the log holds 1000 to 3000; it has bytes that", ahead)
        self.assertIn(
            "it asks for offset 999, but the log holds 1000 to 3000; what it lacks has expired", expired
        )

    def test_status_says_since_when_and_when_last_heard(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(1000)
        rig.seconds(3)
        slave.report(1000)
        rig.seconds(1)
        rig.slave(0)
        first, second = rig.service.status()
        self.assertEqual((first.since, first.last_report, first.lag_bytes), (0.0, 3.0, 0))
        self.assertEqual((second.since, second.ack_offset, second.lag_bytes), (4.0, 0, 1000))

    def test_a_stop_while_slaves_are_waited_for_ends_the_wait_with_no(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(900)
        drained = rig.service.drain(3.0)
        stopped = rig.service.stopService()
        slave.lose()
        self.successResultOf(stopped)
        self.assertIs(self.successResultOf(drained), False, "it never got the last bytes")
        rig = MasterRig(filled(1000))
        slave = rig.slave(900)
        late = rig.service.drain(3.0)
        rig.seconds(3)
        self.assertIs(self.successResultOf(late), False)
        slave.report(1000)
        self.assertFalse(slave.gone, "an ack after the limit is one like any other")
        self.assertIs(self.successResultOf(rig.service.drain(3.0)), True)


def head(magic: int, sys_flag: int, body_size: int, offset: int = 0, size: int = PROOF_SIZE) -> bytes:
    """The first bytes of a log: what proves that the very first of them is 0."""
    data = bytearray(PROOF_SIZE + 50)
    wide = bool(sys_flag & layout.SYS_BORN_HOST_V6) + bool(sys_flag & layout.SYS_STORE_HOST_V6)
    struct.pack_into(">i", data, layout.MAGIC_AT, magic)
    struct.pack_into(">i", data, layout.SYS_FLAG_AT, sys_flag)
    struct.pack_into(">q", data, layout.PHYSICAL_OFFSET_AT, offset)
    # Where the body length would be for other widths of the hosts stands nonsense.
    for hosts in range(3):
        value = body_size if hosts == wide else -1
        struct.pack_into(">i", data, layout.BODY_LENGTH_AT + hosts * layout.IPV6_EXTRA, value)
    return bytes(data[:size])


class ProofTests(SynchronousTestCase):
    V4, V6_BORN, V6_STORE = 0, layout.SYS_BORN_HOST_V6, layout.SYS_STORE_HOST_V6
    LARGEST = THREE_BYTE_SIZE - layout.MAX_RECORD_OVERHEAD - 1

    def refused(self, data: bytes, words: str) -> None:
        error = self.assertRaises(FrameMismatch, prove_prefix, data)
        self.assertIn(words, str(error))
        self.assertEqual((error.offered, error.size), (1, len(data) - 1))

    def test_B158_the_body_length_is_read_behind_hosts_of_either_width(self) -> None:
        for sys_flag in (self.V4, self.V6_BORN, self.V6_STORE, self.V6_BORN | self.V6_STORE):
            for magic in (layout.MAGIC_V1_SIGNED, layout.MAGIC_V2_SIGNED):
                for body_size in (0, 1, self.LARGEST):
                    prove_prefix(head(magic, sys_flag, body_size))
                for body_size in (-1, self.LARGEST + 1, 1 << 30):
                    self.refused(head(magic, sys_flag, body_size), "less than 16 MiB")

    def test_B158_too_few_bytes_another_magic_and_another_offset_prove_nothing(self) -> None:
        magic = layout.MAGIC_V1_SIGNED
        prove_prefix(head(magic, 0, 10, size=PROOF_SIZE))
        self.refused(head(magic, 0, 10, size=PROOF_SIZE - 1), f"has {PROOF_SIZE - 2} bytes, too few")
        self.refused(head(magic ^ 1, 0, 10), "doesn't begin with a record")
        self.refused(head(magic, 0, 10, offset=1), "doesn't begin with a record")

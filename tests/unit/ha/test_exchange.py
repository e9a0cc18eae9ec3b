"""What goes to and fro on one link, and what a put makes of it: each side on a clock, the other played by hand."""

from __future__ import annotations

import hashlib

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.ha import haconnection
from hatwisted.store.errors import StoreFull
from hatwisted.wire.haframe import HEADER_SIZE, MAX_BODY, encode_frames
from tests.support.memorylog import MemoryLog
from tests.support.pattern import pattern
from tests.unit.ha.rig import MasterRig, SlaveRig

FILE = 1 << 23
"""Bytes of a log file that holds the biggest frame."""


def filled(size: int, file_size: int = FILE) -> MemoryLog:
    log = MemoryLog(file_size)
    log.append(pattern(size))
    return log


class MasterSideTests(SynchronousTestCase):
    def test_B23_the_first_report_says_where_to_start_and_the_later_ones_what_is_stored(self) -> None:
        rig = MasterRig(filled(1000))
        waiting = rig.service.wait(1000, 1000, 5.0)
        slave = rig.slave(400)
        self.assertEqual(slave.frames(), [(400, pattern(1000)[400:])])
        self.assertNoResult(waiting)
        slave.report(1000)
        self.assertEqual(self.successResultOf(waiting), 1000)
        self.assertEqual(slave.frames(), [], "a later report moves nothing")

    def test_B25_the_log_streams_without_further_reports(self) -> None:
        rig = MasterRig(filled(100_000))
        slave = rig.slave(1)
        for _ in range(20):
            rig.log.append(pattern(500))
        self.assertEqual(slave.body(), bytes(rig.log)[1:])

    def test_B24_one_connection_serves_both_directions_for_as_long_as_it_lives(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(1000)
        for _ in range(60):
            slave.report(rig.log.append(b"x"))
            rig.seconds(1)
        self.assertEqual((rig.service.accepted_total, slave.gone, len(slave.body())), (1, False, 60))
        self.assertEqual(rig.service.replicas.push2_slave_max_offset, 1060)

    def test_B48_what_is_written_is_sent_before_it_is_flushed(self) -> None:
        log = filled(1000)
        log.flushed_offset = 0
        rig = MasterRig(log)
        slave = rig.slave(1)
        self.assertEqual(len(slave.body()), 999)
        log.append(b"fresh")
        self.assertEqual((slave.body(), log.flushed_offset), (b"fresh", 0))

    def test_B78_a_synchronous_put_does_not_overtake_a_backlog(self) -> None:
        rig = MasterRig(filled(3 * haconnection.CATCH_UP_CHUNK))
        slave = rig.slave()
        slave.wire.full = True
        slave.report(1)
        end = rig.log.append(b"the put")
        waiting = rig.service.wait(end, end, 5.0)
        received = slave.body()
        self.assertTrue(0 < len(received) < end - 1)
        while more := self.drained(slave):
            received += more
        self.assertEqual(received, bytes(rig.log)[1:])
        slave.report(end - 1)
        self.assertNoResult(waiting)
        slave.report(end)
        self.assertEqual(self.successResultOf(waiting), end)

    def drained(self, slave) -> bytes:  # type: ignore[no-untyped-def]
        slave.wire.full = False
        slave.link.resumeProducing()
        slave.wire.full = True
        return slave.body()  # type: ignore[no-any-return]

    def test_B72_B84_a_put_reaches_every_live_slave_and_no_link_that_has_ended(self) -> None:
        rig = MasterRig(filled(1000))
        slaves = [rig.slave(1000) for _ in range(3)]
        slaves[1].lose()
        slaves[1].wire.clear()
        rig.log.append(b"wake")
        self.assertEqual([slave.body() for slave in slaves], [b"wake", b"", b"wake"])

    def test_B84_an_ack_before_anybody_waits_is_not_lost(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(1000)
        end = rig.log.append(b"x")
        slave.report(end)
        self.assertEqual(self.successResultOf(rig.service.wait(end, end, 5.0)), end)

    def test_B126_a_later_ack_stands_in_for_a_lost_one_and_none_at_all_is_a_timeout(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(1000)
        first = rig.log.append(b"first")
        waiting = rig.service.wait(first, first, rig.clock.seconds() + 5.0)
        rig.seconds(2)
        second = rig.log.append(b"second")
        late = rig.service.wait(second, second, rig.clock.seconds() + 5.0)
        slave.report(second)
        self.assertEqual((self.successResultOf(waiting), self.successResultOf(late)), (second, second))
        third = rig.log.append(b"third")
        unanswered = rig.service.wait(third, third, rig.clock.seconds() + 5.0)
        rig.seconds(5)
        self.assertEqual(self.successResultOf(unanswered), second)

    def test_B135_a_slave_too_far_behind_is_fed_on_and_counts_again_once_it_has_caught_up(self) -> None:
        rig = MasterRig(filled(1000), fall_behind_max=256)
        slave = rig.slave(1)
        self.assertFalse(rig.service.is_slave_ok(1000))
        self.assertEqual(len(slave.body()), 999)
        slave.report(1000)
        self.assertTrue(rig.service.is_slave_ok(1000))


class SlaveSideTests(SynchronousTestCase):
    def test_B59_the_biggest_frame_comes_together_from_any_pieces(self) -> None:
        body = pattern(MAX_BODY)
        stream = b"".join(encode_frames(1000, body, MAX_BODY)) + b"".join(
            encode_frames(1000 + MAX_BODY, b"z", 1)
        )
        for piece in (65536, 999_983, HEADER_SIZE + MAX_BODY - 1):
            rig = SlaveRig(filled(1000))
            for at in range(0, len(stream), piece):
                rig.link.dataReceived(stream[at : at + piece])
            self.assertEqual(rig.reports()[-1], 1001 + MAX_BODY)
            self.assertTrue(bytes(rig.log)[1000:] == body + b"z")

    def test_B64_a_body_is_in_the_log_verbatim_before_it_is_reported(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.reports()
        seen: list[bytes] = []
        write, rig.wire.write = rig.wire.write, lambda data: (seen.append(bytes(rig.log)), write(data))[1]  # type: ignore[method-assign]
        body = pattern(90_000, seed=3)
        rig.send(1000, body)
        self.assertEqual(rig.reports(), [91_000])
        self.assertEqual(hashlib.sha256(seen[0][1000:]).digest(), hashlib.sha256(body).digest())

    def test_B65_when_the_master_closes_the_slave_dials_again(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.send(1000, b"x")
        rig.seconds(2)
        rig.lose()
        self.assertEqual(rig.state, "disconnected")
        rig.seconds(0.25)
        self.assertEqual((rig.state, len(rig.dialled)), ("transfer", 2))

    def test_B63_a_heartbeat_stores_nothing_and_makes_no_file(self) -> None:
        for log in (MemoryLog(1000), filled(1000, 1000)):
            rig = SlaveRig(log)
            rig.header(log.max_offset)
            self.assertEqual((log.appends, rig.state, rig.wire.aborted), ([], "transfer", False))

    def test_B129_after_a_failed_append_nothing_later_is_stored_before_it(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.log.error = StoreFull("for a moment")
        rig.send(1000, b"m1" * 50)
        rig.log.error = None
        rig.send(1100, b"m2" * 50)
        self.assertEqual(rig.log.max_offset, 1000)
        rig.lose()
        rig.wire.clear()
        rig.seconds(6)
        self.assertEqual(rig.reports()[0], 1000)
        rig.send(1000, b"m1" * 50 + b"m2" * 50)
        self.assertEqual(bytes(rig.log)[1000:], b"m1" * 50 + b"m2" * 50)

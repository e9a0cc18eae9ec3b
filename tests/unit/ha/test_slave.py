from __future__ import annotations

import errno
import struct
from dataclasses import replace

from twisted.internet import tcp
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import TimeoutError
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.ha import haclient, slavestate
from hatwisted.ha.haclient import BULK_READ, BULK_READ_OF_TLS, LIVE_READ, REST
from hatwisted.ha.handshake import OBJECTION_TIMEOUT, RANGE_TIMEOUT
from hatwisted.ha.slave import CONNECT_TIMEOUT, HAClientService
from hatwisted.ha.slavestate import HEALTHY_AFTER
from hatwisted.ha.sockets import socket_below
from hatwisted.tls.tlslayer import RECORD, TlsLayer
from hatwisted.wire.haframe import HaAck, HaFirstSync, encode_frames, encode_heartbeat
from tests.support.memorylog import MemoryLog
from tests.support.pattern import pattern
from tests.unit.ha.rig import FakeEndpoint, LogCatcher, SlaveRig


def filled(size: int, file_size: int = 1 << 20) -> MemoryLog:
    log = MemoryLog(file_size)
    log.append(pattern(size))
    log.flushed_offset = log.max_offset
    return log


class DiallingTests(SynchronousTestCase):
    def test_B53_B157_the_report_leaves_on_connecting(self) -> None:
        rig = SlaveRig(filled(1000))
        self.assertEqual(rig.reports(), [1000])
        self.assertEqual(rig.state, "transfer")

    def test_an_empty_slave_waits_so_long_for_an_objection_and_one_with_a_log_not_at_all(self) -> None:
        for log, waits in ((None, True), (filled(1000), False)):
            rig = SlaveRig(log, objection=Deferred)
            self.assertEqual(rig.reports(), [] if waits else [1000])
            rig.seconds(OBJECTION_TIMEOUT - 0.125)
            self.assertEqual(rig.reports(), [])
            rig.seconds(0.125)
            self.assertEqual(rig.reports(), [0] if waits else [])

    def test_B51_a_master_up_after_12_seconds_is_joined_by_17(self) -> None:
        rig = SlaveRig()
        rig.reachable = False
        rig.master_address = "10.0.0.1:10912"
        rig.lose()
        rig.seconds(12)
        self.assertGreater(len(rig.dialled), 3)
        rig.reachable = True
        rig.seconds(5)
        self.assertEqual(rig.state, "transfer")

    def test_B51_failed_attempts_back_off_to_5_seconds_with_jitter(self) -> None:
        rig = SlaveRig(address=None)
        rig.reachable = False
        rig.master_address = "10.0.0.1:10912"
        rig.seconds(60)
        times = [at for at, _ in rig.dialled]
        gaps = [later - earlier for earlier, later in zip(times, times[1:], strict=False)]
        self.assertLess(gaps[0], 0.3)
        self.assertTrue(all(2.4 <= gap <= 5.2 for gap in gaps[7:]), gaps)
        self.assertGreater(len(set(gaps[7:])), 2)

    def test_B51_a_link_that_has_worked_for_a_second_is_dialled_again_at_once(self) -> None:
        for worked, at_once in ((HEALTHY_AFTER - 0.25, False), (HEALTHY_AFTER, True)):
            rig = SlaveRig(filled(1000))
            rig.seconds(10)
            rig.lose()
            rig.seconds(5)
            rig.send(1000, b"x" * 10)
            begun = rig.dialled[-1][0]
            rig.clock.advance(begun + worked - rig.clock.seconds())
            count = len(rig.dialled)
            rig.lose()
            rig.clock.advance(0.001)
            self.assertEqual(len(rig.dialled) > count, at_once)

    def test_what_arrives_in_a_second_is_a_figure_of_the_link(self) -> None:
        rig = SlaveRig(filled(1000))
        for at in (1000, 1500):
            rig.send(at, bytes(500))
        rig.seconds(1)
        self.assertEqual(rig.service.status().received_per_second, 2 * 512)
        rig.reachable = False
        rig.lose()
        self.assertEqual(rig.service.status().received_per_second, 0)

    def test_what_has_been_heard_counts_over_links_and_a_heartbeat_counts(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.send(1000, bytes(500))
        rig.header(1500)
        self.assertEqual(rig.service.heard, 512 + 12)
        rig.lose()
        self.assertEqual(rig.service.heard, 512 + 12)
        rig.seconds(5)
        rig.send(1500, bytes(100))
        self.assertEqual(rig.service.heard, 512 + 12 + 112)

    def test_reads_grow_with_a_full_one_and_shrink_with_a_small_one(self) -> None:
        rig = SlaveRig(filled(1000))
        transport = tcp.Connection.__new__(tcp.Connection)  # one of a socket, without the socket
        transport.bufferSize = LIVE_READ
        self.patch(rig.link, "transport", transport)
        self.patch(rig.link, "_socket", socket_below(transport))
        for size, found in (
            (LIVE_READ - 1, LIVE_READ),
            (LIVE_READ, BULK_READ),
            (BULK_READ - 1, BULK_READ),
            (LIVE_READ, BULK_READ),
            (BULK_READ, BULK_READ),
            (LIVE_READ - 1, LIVE_READ),
        ):
            rig.link._adapt_read_size(size)
            self.assertEqual(transport.bufferSize, found)

    def test_rests_once_reads_have_been_small_for_a_while(self) -> None:
        rig, rests = SlaveRig(filled(1000)), [0]
        self.patch(rig.service, "rested", lambda: rests.append(1))
        transport = tcp.Connection.__new__(tcp.Connection)  # one of a socket, without the socket
        transport.bufferSize = LIVE_READ
        self.patch(rig.link, "_socket", transport)

        def read(size: int) -> None:
            rig.send(rig.log.max_offset, bytes(size - 12), batch=size)

        read(LIVE_READ // 2)  # of three quarters on it would be a full one of TLS, which this looks like
        rig.seconds(2 * REST)
        self.assertEqual(sum(rests), 0)
        read(LIVE_READ)
        rig.seconds(REST - 1)
        read(transport.bufferSize)
        rig.seconds(REST - 1)
        read(100)
        self.assertEqual(sum(rests), 0)
        rig.seconds(2)
        self.assertEqual(sum(rests), 1)
        rig.seconds(2 * REST)
        self.assertEqual(sum(rests), 1)
        transport.bufferSize = LIVE_READ
        read(LIVE_READ)
        rig.lose()
        self.assertEqual(sum(rests), 2)

    def test_reads_grow_under_tls_where_a_full_one_may_end_within_a_record(self) -> None:
        rig = SlaveRig(filled(1000))
        layer, transport = TlsLayer.__new__(TlsLayer), tcp.Connection.__new__(tcp.Connection)
        layer.below, transport.bufferSize = transport, LIVE_READ
        self.patch(rig.link, "transport", layer)
        self.patch(rig.link, "_socket", socket_below(layer))
        for size, found in (
            (LIVE_READ // 2, LIVE_READ),
            (LIVE_READ - RECORD, BULK_READ_OF_TLS),
            (BULK_READ_OF_TLS - RECORD, BULK_READ_OF_TLS),
            (LIVE_READ // 2, LIVE_READ),
        ):
            rig.link._adapt_read_size(size)
            self.assertEqual(transport.bufferSize, found)

    def test_B51_an_attempt_without_any_answer_ends_after_5_seconds(self) -> None:
        rig = SlaveRig(address=None)
        rig.mute = True
        rig.master_address = "10.0.0.1:10912"
        self.assertEqual(CONNECT_TIMEOUT, 5)
        rig.seconds(CONNECT_TIMEOUT)
        self.assertEqual(rig.state, "connecting")
        rig.mute = False
        rig.seconds(2)
        self.assertEqual(rig.state, "transfer")

    def test_B51_a_lost_healthy_link_is_redialled_at_once(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.header(1000)
        rig.seconds(3)
        rig.lose()
        rig.clock.advance(0)
        self.assertEqual(len(rig.dialled), 2)
        self.assertEqual(rig.state, "transfer")
        self.assertIn("10.0.0.1", rig.service.status().problem)
        rig.header(1000)
        self.assertEqual(rig.service.status().problem, "")

    def test_B157_a_link_that_breaks_again_and_again_is_not_dialled_in_a_tight_loop(self) -> None:
        rig = SlaveRig(filled(1000))
        for _ in range(200):
            rig.seconds(0.125)
            if rig.service.status().state == "transfer":
                rig.header(1000)
                rig.lose()
        self.assertLess(len(rig.dialled), 20)

    def test_B111_no_address_is_waited_for(self) -> None:
        rig = SlaveRig(address=None)
        rig.seconds(30)
        self.assertEqual((rig.dialled, rig.state), ([], "disconnected"))
        rig.master_address = "10.0.0.5:10912"
        rig.seconds(5)
        self.assertEqual(rig.dialled[0][1], "10.0.0.5:10912")

    def test_B67_a_changed_address_waits_for_the_next_connect(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.master_address = "10.0.0.9:10912"
        rig.seconds(10)
        self.assertEqual(len(rig.dialled), 1)
        rig.lose()
        rig.seconds(6)
        self.assertEqual([address for _, address in rig.dialled], ["10.0.0.1:10912", "10.0.0.9:10912"])

    def test_an_address_that_is_none_is_a_problem_not_a_crash(self) -> None:
        rig = SlaveRig(address="nonsense")
        rig.seconds(1)
        self.assertRegex(
            rig.service.status().problem,
            "HA port nonsense: .*not an address of the form host:port: 'nonsense'",
        )
        rig.master_address = "10.0.0.1:10912"
        rig.seconds(6)
        self.assertEqual(rig.state, "transfer")

    def test_an_attempt_that_cannot_even_begin_is_made_again(self) -> None:
        rig = SlaveRig(address=None)

        def endpoint(host: str, port: int, timeout: float) -> FakeEndpoint:
            raise ZeroDivisionError(host)

        broken = self.patch(rig, "endpoint", endpoint)
        rig.master_address = "10.0.0.1:10912"
        rig.seconds(1)
        self.assertEqual((len(self.flushLoggedErrors(ZeroDivisionError)), rig.dialled), (1, []))
        broken.restore()
        rig.seconds(slavestate.RETRY_LIMIT)
        self.assertEqual(rig.state, "transfer")

    def test_B52_a_reconnect_reports_the_new_end(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.send(1000, bytes(500))
        rig.lose()
        rig.wire.clear()
        rig.seconds(6)
        self.assertEqual(rig.reports()[0], 1500)

    def test_an_unreachable_master_is_logged_once_a_minute(self) -> None:
        caught = LogCatcher(self)
        rig = SlaveRig(address=None)
        rig.reachable = False
        rig.master_address = "10.0.0.1:10912"
        rig.seconds(59)
        self.assertEqual(len(caught.texts("warn")), 1)
        self.assertIn("can't connect to the master's HA port 10.0.0.1:10912", caught.texts("warn")[0])


class FrameTests(SynchronousTestCase):
    def test_B60_B151_frames_split_at_every_byte(self) -> None:
        body = pattern(60)
        stream = b"".join(encode_frames(1000, body, 25)) + encode_heartbeat(1060)
        for cut in range(len(stream) + 1):
            rig = SlaveRig(filled(1000))
            rig.link.dataReceived(stream[:cut])
            rig.link.dataReceived(stream[cut:])
            self.assertEqual(bytes(rig.log)[1000:], body, f"cut at {cut}")
            self.assertEqual(rig.reports()[-1], 1060, f"cut at {cut}")
            self.assertFalse(rig.wire.aborted, f"cut at {cut}")

    def test_B60_byte_by_byte(self) -> None:
        rig = SlaveRig(filled(1000))
        for byte in b"".join(encode_frames(1000, pattern(90), 40)):
            rig.link.dataReceived(bytes([byte]))
        self.assertEqual(bytes(rig.log)[1000:], pattern(90))
        self.assertEqual(rig.reports(), [1000, 1040, 1080, 1090])

    def test_B60_of_3_7_frames_3_are_appended_at_once_and_acked_once(self) -> None:
        rig = SlaveRig(filled(1000))
        stream = b"".join(encode_frames(1000, bytes(400), 100))
        rig.link.dataReceived(stream[: int(112 * 3.7)])
        self.assertEqual(rig.log.appends, [300])
        self.assertEqual(rig.reports(), [1000, 1300])
        rig.link.dataReceived(stream[int(112 * 3.7) :])
        self.assertEqual(rig.log.appends, [300, 100])

    def test_B55_three_frames_three_rising_reports(self) -> None:
        rig = SlaveRig(filled(1000))
        for at in (1000, 1100, 1200):
            rig.send(at, bytes(100))
        self.assertEqual(rig.reports(), [1000, 1100, 1200, 1300])

    def test_B55_a_heartbeat_is_not_answered(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.header(1000)
        self.assertEqual(rig.reports(), [1000])

    def test_B61_an_offset_off_by_one_closes_and_stores_nothing(self) -> None:
        for wrong in (999, 1001):
            rig = SlaveRig(filled(1000))
            rig.send(wrong, bytes(50))
            self.assertTrue(rig.wire.aborted)
            self.assertEqual((rig.log.appends, rig.state), ([], "offset mismatch"))
            self.assertRegex(rig.service.status().problem, f"offset {wrong}, our log continues at 1000")
            rig.send(1000, b"too late")
            rig.seconds(6)
            self.assertEqual((rig.log.appends, rig.reports()), ([], [1000]))

    def test_B61_the_header_alone_is_enough_to_see_it(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.header(1001, 30_000)
        self.assertTrue(rig.wire.aborted)

    def test_B61_good_frames_in_front_of_a_bad_one_are_kept(self) -> None:
        rig = SlaveRig(filled(1000))
        stream = b"".join((*encode_frames(1000, bytes(10), 99), *encode_frames(1011, bytes(10), 99)))
        rig.link.dataReceived(stream)
        self.assertEqual((rig.log.appends, rig.log.max_offset), ([10], 1010))
        self.assertEqual(rig.state, "offset mismatch")

    def test_B63_a_heartbeat_at_a_wrong_offset_closes(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.send(1000, bytes(10))
        rig.header(1000)
        self.assertTrue(rig.wire.aborted)
        self.assertEqual(rig.state, "offset mismatch")

    def test_B62_an_empty_slave_takes_any_file_start(self) -> None:
        rig = SlaveRig(MemoryLog(file_size=1000))
        rig.header(7000)
        rig.send(7000, pattern(300))
        self.assertEqual((rig.log.min_offset, rig.log.max_offset), (7000, 7300))
        self.assertEqual(rig.reports(), [0, 7300])

    def test_B154_but_nothing_inside_a_file(self) -> None:
        caught = LogCatcher(self)
        rig = SlaveRig(MemoryLog(file_size=1000))
        rig.send(7001, bytes(300))
        self.assertEqual((rig.log.max_offset, rig.state), (0, "offset mismatch"))
        self.assertIn("mappedFileSizeCommitLog", caught.texts("error")[0])

    def test_B154_after_a_failed_first_append_the_next_frame_is_not_let_in(self) -> None:
        rig = SlaveRig(MemoryLog(file_size=1000))
        rig.log.error = OSError(errno.EIO, "disk")
        rig.send(2000, bytes(300))
        rig.log.error = None
        rig.send(2300, bytes(300))
        self.assertEqual(rig.log.max_offset, 0)
        self.assertTrue(rig.wire.aborted)

    def test_a_frame_across_our_file_end_means_another_file_size(self) -> None:
        rig = SlaveRig(filled(900, file_size=1000))
        rig.send(900, bytes(101))
        self.assertEqual((rig.log.max_offset, rig.state), (900, "offset mismatch"))
        self.assertIn("mappedFileSizeCommitLog", rig.service.status().problem)

    def test_B155_negative_and_oversized_frames_close(self) -> None:
        for offset, size in ((1000, -1), (1000, (4 << 20) - 11), (-1, 10), (-(2**63), 0)):
            rig = SlaveRig(filled(1000))
            rig.header(offset, size)
            self.assertTrue(rig.wire.aborted, (offset, size))
            self.assertEqual(rig.log.appends, [])

    def test_B66_B132_half_a_frame_is_dropped_with_its_link(self) -> None:
        frame = b"".join(encode_frames(1000, pattern(40), 40))
        for cut in range(len(frame)):
            rig = SlaveRig(filled(1000))
            rig.link.dataReceived(frame[:cut])
            rig.lose()
            self.assertEqual(rig.log.max_offset, 1000, f"cut at {cut}")
            rig.wire.clear()
            rig.seconds(6)
            self.assertEqual(rig.reports()[0], 1000)
            rig.link.dataReceived(frame)
            self.assertEqual(bytes(rig.log)[1000:], pattern(40))

    def test_a_master_that_doesnt_say_what_it_holds_is_waited_for_so_long(self) -> None:
        rig = SlaveRig(first_sync=HaFirstSync.MIN_OFFSET, master_range=Deferred)
        rig.seconds(RANGE_TIMEOUT - 0.125)
        self.assertFalse(rig.wire.aborted)
        rig.seconds(0.125)
        self.assertTrue(rig.wire.aborted or rig.reports())

    def test_data_before_our_first_report_closes(self) -> None:
        asked: Deferred[tuple[int, int]] = Deferred()
        rig = SlaveRig(first_sync=HaFirstSync.MIN_OFFSET, master_range=lambda: asked)
        rig.header(0)
        self.assertTrue(rig.wire.aborted)
        asked.callback((0, 10))
        self.assertEqual(rig.reports(), [])


class ClockTests(SynchronousTestCase):
    def test_B54_an_idle_link_reports_each_5_to_6_seconds(self) -> None:
        rig = SlaveRig(filled(1000))
        for _ in range(6):
            rig.seconds(5)
            rig.header(1000)
        self.assertEqual(rig.reports(), [1000] * 6)

    def test_B54_a_busy_link_needs_no_idle_report(self) -> None:
        rig = SlaveRig(filled(1000))
        for at in range(1000, 1020):
            rig.send(at, b"x")
            rig.seconds(1)
        self.assertEqual(rig.reports(), list(range(1000, 1021)))

    def test_B57_B58_B144_a_silent_master_is_dropped_although_we_write(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.seconds(20)
        self.assertFalse(rig.wire.aborted)
        self.assertEqual(len(rig.reports()), 4)
        rig.seconds(1)
        self.assertTrue(rig.wire.aborted)
        self.assertIn("nothing heard from the master for 21.0 s", rig.service.status().problem)
        rig.lose()
        rig.seconds(6)
        self.assertEqual(rig.state, "transfer")

    def test_B50_one_read_is_stored_first_and_reported_then(self) -> None:
        rig = SlaveRig()
        before: list[list[int]] = []
        rig.log.add_listener(lambda start, data: before.append(rig.reports()))
        rig.send(0, b"x" * 10, batch=5)
        self.assertEqual((before, rig.reports()), ([[0]], [10]))

    def test_B50_a_silent_master_is_left_before_a_due_report_goes_to_it(self) -> None:
        rig = SlaveRig(filled(1000), heartbeat_interval=5.0, housekeeping_interval=5.0)
        rig.seconds(5)
        self.assertEqual((rig.reports(), rig.wire.aborted), ([1000], False))
        rig.seconds(1)
        self.assertEqual((rig.reports(), rig.wire.aborted), ([], True))

    def test_B56_a_master_that_reads_no_report_is_left(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.wire.fill()
        self.assertTrue(rig.wire.aborted)
        rig.lose()
        self.assertEqual(rig.state, "disconnected")

    def test_B19_stop_ends_timers_and_link(self) -> None:
        rig = SlaveRig(filled(1000))
        stopped = rig.service.stopService()
        self.assertTrue(rig.wire.closed)
        self.assertEqual(rig.state, "stopped")
        rig.lose()
        self.assertIsNone(self.successResultOf(stopped))
        self.assertEqual(rig.clock.getDelayedCalls(), [])

    def test_B19_stop_while_the_master_takes_nothing(self) -> None:
        rig = SlaveRig(filled(1000))
        stopped = rig.service.stopService()
        rig.seconds(0.625)
        self.assertTrue(rig.wire.aborted)
        rig.lose()
        self.successResultOf(stopped)

    def test_stop_and_start_while_dialling_and_while_waiting(self) -> None:
        rig = SlaveRig(address=None)
        self.successResultOf(rig.service.stopService())
        rig.reachable = False
        rig.master_address = "10.0.0.1:10912"
        rig.service.startService()
        self.assertEqual(rig.state, "connecting")
        self.successResultOf(rig.service.stopService())
        rig.seconds(10)
        self.assertEqual((rig.state, rig.clock.getDelayedCalls()), ("stopped", []))

    def test_a_stop_gives_up_an_attempt_that_gets_no_answer(self) -> None:
        rig = SlaveRig(address=None)
        rig.mute = True
        rig.master_address = "10.0.0.1:10912"
        rig.seconds(2)
        self.assertEqual(rig.state, "connecting")
        self.successResultOf(rig.service.stopService())
        self.assertEqual((rig.state, rig.clock.getDelayedCalls()), ("stopped", []))


class StoreTroubleTests(SynchronousTestCase):
    def test_B90_a_full_store_stops_acking_says_so_and_goes_on_later(self) -> None:
        caught = LogCatcher(self)
        rig = SlaveRig(filled(1000))
        rig.log.capacity = 1200
        rig.send(1000, pattern(150))
        rig.send(1150, pattern(100))
        self.assertEqual(rig.reports(), [1000, 1150])
        self.assertEqual((rig.log.max_offset, rig.state), (1150, "store full"))
        self.assertRegex(caught.texts("error")[0], "store full at offset 1150")
        self.assertTrue(rig.wire.aborted)
        rig.lose()
        rig.wire.clear()
        rig.log.capacity = None
        rig.seconds(slavestate.STORE_RETRY + 0.25)
        self.assertEqual(rig.reports(), [1150])
        rig.send(1150, pattern(100))
        self.assertEqual(rig.log.max_offset, 1250)
        self.assertEqual((rig.state, rig.service.status().problem), ("transfer", ""))

    def test_B90_retries_against_a_full_store_are_slow(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.log.capacity = 1000
        for _ in range(60 * 8):
            if rig.state == "transfer":
                rig.send(1000, bytes(10))
                rig.lose()
            rig.clock.advance(0.125)
        self.assertLess(len(rig.dialled), 26)

    def test_ENOSPC_is_a_full_store_and_EIO_a_failed_one(self) -> None:
        for number, state in ((errno.ENOSPC, "store full"), (errno.EIO, "store failed")):
            rig = SlaveRig(filled(1000))
            rig.log.error = OSError(number, "injected")
            rig.send(1000, bytes(10))
            self.assertEqual((rig.state, rig.log.max_offset, rig.reports()), (state, 1000, [1000]))
            problem = f"{state} at offset 1000: [Errno {number}] injected"
            self.assertEqual(rig.service.status().problem, problem)

    def test_B131_frames_of_one_read_stand_or_fall_together(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.log.capacity = 1150
        rig.send(1000, bytes(300), batch=100)
        self.assertEqual((rig.log.max_offset, rig.reports()), (1000, [1000]))


class DurableAckTests(SynchronousTestCase):
    def test_only_flushed_bytes_are_acked(self) -> None:
        rig = SlaveRig(filled(1000), ack=HaAck.DURABLE)
        rig.log.hold_flushes = True
        rig.send(1000, bytes(100))
        rig.send(1100, bytes(100))
        self.assertEqual(rig.reports(), [1000])
        self.assertEqual(len(rig.log.flushes), 1)
        rig.log.flushes.pop(0).callback(0)
        self.assertEqual(rig.reports(), [1100])
        rig.log.flushes.pop(0).callback(0)
        self.assertEqual(rig.reports(), [1200])
        self.assertEqual(rig.log.flushes, [])

    def test_the_first_report_waits_for_the_disk_too(self) -> None:
        log = MemoryLog()
        log.append(bytes(1000))
        log.hold_flushes = True
        rig = SlaveRig(log, ack=HaAck.DURABLE)
        self.assertEqual(rig.reports(), [])
        log.flushes.pop().callback(0)
        self.assertEqual(rig.reports(), [1000])

    def test_B54_idle_reports_do_not_run_ahead_of_the_disk(self) -> None:
        rig = SlaveRig(filled(1000), ack=HaAck.DURABLE)
        rig.log.hold_flushes = True
        rig.send(1000, bytes(100))
        rig.seconds(6)
        self.assertEqual(rig.reports(), [1000, 1000])

    def test_a_flush_that_fails_or_falls_short_ends_the_link_unacked(self) -> None:
        for outcome in (fail(OSError(errno.EIO, "injected")), succeed(0)):
            rig = SlaveRig(filled(1000), ack=HaAck.DURABLE)
            rig.service.flush_now = lambda outcome=outcome: outcome
            rig.send(1000, bytes(100))
            self.assertEqual((rig.state, rig.reports()), ("store failed", [1000]))

    def test_a_flush_that_ends_after_its_link_reports_nothing(self) -> None:
        rig = SlaveRig(filled(1000), ack=HaAck.DURABLE)
        rig.log.hold_flushes = True
        rig.send(1000, bytes(100))
        rig.lose()
        rig.wire.clear()
        rig.log.flushes.pop(0).callback(0)
        self.assertEqual(rig.reports(), [])

    def test_it_needs_a_log_that_can_be_flushed(self) -> None:
        rig = SlaveRig(ack=HaAck.DURABLE)
        parts = replace(rig.service._parts, flush_now=None)
        self.assertRaises(ValueError, HAClientService, parts, rig.service.settings)


class MisfitTests(SynchronousTestCase):
    def test_our_masters_no_names_both_offsets_and_is_retried_slowly(self) -> None:
        for nearest, words in ((5000, "begins at 5000"), (400, "hold 600 bytes")):
            caught = LogCatcher(self)
            rig = SlaveRig(filled(1000))
            rig.header(nearest)
            self.assertEqual(rig.state, "master lacks offset")
            self.assertRegex(caught.texts("error")[0], f"ends at 1000.*{words}")
            rig.lose()
            rig.seconds(slavestate.SLOW_RETRY / 2 - 0.25)
            self.assertEqual(len(rig.dialled), 1)
            rig.seconds(slavestate.SLOW_RETRY / 2 + 0.5)
            self.assertEqual(len(rig.dialled), 2)

    def test_B140_a_master_that_outgrew_us_later_is_suspect_until_it_is_proved(self) -> None:
        log = filled(1000)
        log.last_record = 900
        rig = SlaveRig(log)
        rig.header(400)
        self.assertEqual(rig.service.status().suspect_from, 400)
        rig.lose()
        rig.seconds(31)
        rig.send(900, pattern(1000)[900:950])
        self.assertEqual(rig.service.status().suspect_from, 400)
        rig.send(950, pattern(1000)[950:])
        self.assertIsNone(rig.service.status().suspect_from)

    def test_B143_the_masters_range_shows_what_its_heartbeats_hide(self) -> None:
        for master_range, nearest in (((5000, 9000), 5000), ((0, 400), 400)):
            rig = SlaveRig(filled(1000), master_range=lambda answer=master_range: succeed(answer))
            self.assertEqual(rig.state, "master lacks offset", master_range)
            self.assertIn(str(nearest), rig.service.status().problem)

    def test_B143_a_range_that_comes_after_its_link_has_failed_is_not_believed(self) -> None:
        asked: Deferred[tuple[int, int]] = Deferred()
        rig = SlaveRig(filled(1000), master_range=lambda: asked)
        rig.send(1500, bytes(10))
        asked.callback((0, 400))
        self.assertEqual((rig.state, rig.service.status().suspect_from), ("offset mismatch", None))

    def test_a_master_that_does_not_tell_its_range_is_noted(self) -> None:
        caught = LogCatcher(self)
        SlaveRig(filled(1000), master_range=lambda: fail(TimeoutError()))
        (line,) = caught.texts("debug")
        self.assertIn("the master didn't say what its log holds: User timeout", line)

    def test_a_range_that_holds_our_end_or_cannot_be_had_changes_nothing(self) -> None:
        for answer in (succeed((0, 1000)), succeed((1000, 2000)), fail(TimeoutError())):
            rig = SlaveRig(filled(1000), master_range=lambda answer=answer: answer)
            self.assertEqual((rig.state, rig.reports()), ("transfer", [1000]))

    def test_B38_a_master_that_hangs_up_three_times_lacks_our_offset(self) -> None:
        rig = SlaveRig(filled(1000))
        for _ in range(3):
            self.assertEqual(rig.state, "transfer")
            rig.header(1000)
            rig.seconds(4)
            rig.lose()
            rig.clock.advance(0)
        self.assertEqual(rig.state, "master lacks offset")

    def test_B38_links_that_were_reset_before_a_report_left_are_no_word_of_the_master_s(self) -> None:
        """As by a machine where nobody listens any more: the failed write leaves an orderly end to be read."""
        rig = SlaveRig(filled(1000))
        self.patch(haclient, "write_now", lambda transport, data: len(data))
        for _ in range(5):
            rig.lose()
            rig.seconds(slavestate.RETRY_LIMIT + 0.125)
            self.assertEqual(rig.state, "transfer")

    def test_B38_a_link_that_proves_our_log_begins_the_count_again(self) -> None:
        log = filled(1000)
        log.last_record = 900
        rig = SlaveRig(log)
        for proves in (False, False, True, False, False):
            rig.header(900)
            if proves:
                rig.send(900, pattern(1000)[900:])
            rig.lose()
            rig.seconds(slavestate.RETRY_LIMIT + 0.125)
            self.assertEqual(rig.state, "transfer")

    def test_B38_a_link_that_was_idle_for_long_begins_the_count_again(self) -> None:
        rig = SlaveRig(filled(1000))
        for idle in (4, 4, 36, 4, 4):
            for _ in range(idle // 4):
                rig.header(1000)
                rig.seconds(4)
            rig.lose()
            rig.clock.advance(0)
            self.assertEqual(rig.state, "transfer")
        rig.header(1000)
        rig.lose()
        self.assertEqual(rig.state, "master lacks offset")

    def test_a_master_that_restarts_now_and_then_does_not(self) -> None:
        rig = SlaveRig(filled(1000))
        for turn in range(12):
            rig.header(rig.log.max_offset)
            rig.seconds(4)
            if turn % 3 == 2:
                rig.send(rig.log.max_offset, b"x")
            rig.lose()
            rig.clock.advance(0)
            self.assertEqual(rig.state, "transfer")

    def test_B61_a_mismatch_after_good_frames_is_retried_soon(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.send(1000, bytes(10))
        rig.send(1500, bytes(10))
        self.assertEqual(rig.state, "offset mismatch")
        rig.lose()
        rig.seconds(1)
        self.assertEqual(rig.reports()[0], 1010)

    def test_B61_as_the_first_word_it_is_retried_slowly(self) -> None:
        rig = SlaveRig(filled(1000))
        rig.send(1500, bytes(10))
        rig.lose()
        rig.seconds(10)
        self.assertEqual((len(rig.dialled), rig.state), (1, "offset mismatch"))


class FirstSyncTests(SynchronousTestCase):
    def test_B158_the_oldest_offset_is_asked_for_and_reported(self) -> None:
        rig = SlaveRig(
            MemoryLog(1000), first_sync=HaFirstSync.MIN_OFFSET, master_range=lambda: succeed((3000, 8500))
        )
        self.assertEqual(rig.reports(), [3000])
        rig.send(3000, pattern(500))
        self.assertEqual((rig.log.min_offset, rig.log.max_offset), (3000, 3500))

    def test_B158_a_one_file_master_is_told_0(self) -> None:
        rig = SlaveRig(
            MemoryLog(1000), first_sync=HaFirstSync.MIN_OFFSET, master_range=lambda: succeed((0, 1000))
        )
        self.assertEqual(rig.reports(), [0])
        rig.send(0, pattern(500))
        self.assertEqual((rig.log.min_offset, rig.log.max_offset), (0, 500))

    def test_B158_a_log_from_0_on_is_asked_for_from_1_and_byte_0_is_proven(self) -> None:
        log = MemoryLog(1000)
        rig = SlaveRig(log, first_sync=HaFirstSync.MIN_OFFSET, master_range=lambda: succeed((0, 2500)))
        self.assertEqual(rig.reports(), [1])
        record = first_record()
        rig.header(1)
        rig.send(1, record[1:])
        self.assertEqual(bytes(log), record)
        self.assertEqual(rig.reports(), [len(record)])
        rig.send(len(record), b"and so on")
        self.assertEqual(bytes(log), record + b"and so on")

    def test_B158_what_does_not_prove_byte_0_is_not_stored(self) -> None:
        good = first_record()
        for spoilt in (
            good[:4] + b"\xcb\xd4\x31\x94" + good[8:],
            good[:28] + struct.pack(">q", 1000) + good[36:],
            good[:84] + struct.pack(">i", 1 << 24) + good[88:],
            good[:100],
        ):
            log = MemoryLog(1000)
            rig = SlaveRig(log, first_sync=HaFirstSync.MIN_OFFSET, master_range=lambda: succeed((0, 2500)))
            rig.send(1, spoilt[1:])
            self.assertEqual((log.max_offset, rig.state), (0, "offset mismatch"))

    def test_B158_without_an_answer_nothing_is_begun(self) -> None:
        rig = SlaveRig(first_sync=HaFirstSync.MIN_OFFSET, master_range=lambda: fail(TimeoutError()))
        self.assertEqual(rig.reports(), [])
        self.assertTrue(rig.wire.aborted)
        self.assertIn("haFirstSync=minOffset", rig.service.status().problem)

    def test_B158_a_mute_answer_times_out(self) -> None:
        rig = SlaveRig(first_sync=HaFirstSync.MIN_OFFSET, master_range=Deferred)
        rig.seconds(3)
        self.assertTrue(rig.wire.aborted)

    def test_B158_a_master_that_cannot_be_asked_is_warned_about(self) -> None:
        caught = LogCatcher(self)
        rig = SlaveRig(MemoryLog(1000), first_sync=HaFirstSync.MIN_OFFSET)
        self.assertEqual(rig.reports(), [0])
        rig.send(2000, bytes(10))
        self.assertIn("from offset 2000 on: older bytes will be missing", caught.texts("warn")[0])

    def test_a_slave_with_a_log_goes_on_there_whatever_is_set(self) -> None:
        rig = SlaveRig(
            filled(700), first_sync=HaFirstSync.MIN_OFFSET, master_range=lambda: succeed((0, 1 << 30))
        )
        self.assertEqual(rig.reports(), [700])


def first_record(body: bytes = bytes(60)) -> bytes:
    """A record at offset 0 with IPv4 hosts: enough of one to prove the log's first byte."""
    head = struct.pack(">iIiiiqqi", 91 + len(body) + 1, 0xDAA320A7, 0, 0, 0, 0, 0, 0)
    return head + bytes(44) + struct.pack(">i", len(body)) + body + b"\x01T" + bytes(2)

from __future__ import annotations

import errno
import struct

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.ha import haconnection
from hatwisted.ha.grouptransfer import GroupTransferService
from hatwisted.ha.haconnection import GLANCE, HAConnection
from hatwisted.ha.linklimits import MAX_LINKS, MAX_LINKS_OF_HOST, MAX_UNREPORTED
from hatwisted.ha.master import HAService
from hatwisted.ha.slaveprogress import OFFSET_LIMIT
from hatwisted.ha.slavewatch import MAX_LAGS_SHOWN
from hatwisted.wire.haframe import HaFirstSync, encode_report
from hatwisted.wire.networks import Networks
from tests.support.memorylog import MemoryLog
from tests.support.pattern import pattern
from tests.unit.ha.rig import LogCatcher, MasterRig


def filled(size: int, file_size: int = 1 << 20) -> MemoryLog:
    log = MemoryLog(file_size)
    log.append(pattern(size))
    return log


class LookTests(SynchronousTestCase):
    def test_a_link_whose_look_fails_is_closed_and_the_others_get_their_heartbeats(self) -> None:
        rig = MasterRig(filled(100))
        broken, sound = rig.slave(100), rig.slave(100, host="10.0.0.3")

        def look(now: float) -> None:
            raise ZeroDivisionError(now)

        self.patch(broken.link, "look", look)
        rig.seconds(1)
        self.assertTrue(broken.gone)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        broken.lose()
        rig.seconds(12)
        self.assertEqual(sound.frames(), [(100, b""), (100, b"")])

    def test_a_look_that_fails_itself_ends_no_heartbeat_housekeeping_or_lag_log(self) -> None:
        caught = LogCatcher(self)
        rig = MasterRig(filled(100))
        slave, fails = rig.slave(100), [True]
        real = rig.service.hosts.is_known

        def is_known(host: str) -> bool:
            if fails:
                raise ZeroDivisionError(host)
            return real(host)

        self.patch(rig.service.hosts, "is_known", is_known)
        rig.slave(host="10.0.0.9")
        rig.seconds(15)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        fails.clear()
        slave.report(100)
        slave.frames()
        rig.seconds(7)
        self.assertEqual(slave.frames(), [(100, b"")])
        rig.seconds(20)
        self.assertTrue(slave.gone, "housekeeping")
        self.assertTrue([text for text in caught.texts("info") if "slave lag" in text])


class ReadSideTests(SynchronousTestCase):
    def test_B31_only_last_whole_report_counts(self) -> None:
        rig = MasterRig(filled(2000))
        slave = rig.slave()
        slave.send(encode_report(1000) + encode_report(1010) + encode_report(1020) + b"\0")
        self.assertEqual(slave.link.progress.request_offset, 1020)
        self.assertEqual(slave.body(), bytes(rig.log)[1020:])

    def test_B31_49_bytes_give_bytes_41_to_48(self) -> None:
        rig = MasterRig(filled(2000))
        slave = rig.slave(100)
        slave.send(b"".join(map(encode_report, (200, 300, 400, 500, 600, 700))) + b"\0")
        self.assertEqual(rig.service.replicas.push2_slave_max_offset, 700)
        slave.send(encode_report(800)[1:])
        self.assertEqual(rig.service.replicas.push2_slave_max_offset, 800)

    def test_B151_reports_split_at_every_byte(self) -> None:
        stream = b"".join(map(encode_report, (1000, 1500, 1700)))
        for cut in range(len(stream) + 1):
            rig = MasterRig(filled(2000))
            slave = rig.slave()
            slave.send(stream[:cut])
            slave.send(stream[cut:])
            self.assertEqual(slave.link.progress.ack_offset, 1700, f"cut at {cut}")
            first = slave.link.progress.request_offset
            self.assertEqual(slave.body(), bytes(rig.log)[first:], f"cut at {cut}")

    def test_B30_131073_reports_in_one_stream(self) -> None:
        rig = MasterRig(filled(131_073, file_size=1 << 20))
        slave = rig.slave(1)
        stream = b"".join(map(encode_report, range(1, 131_074)))
        for at in range(0, len(stream), 65_531):
            slave.send(stream[at : at + 65_531])
        self.assertEqual(rig.service.replicas.push2_slave_max_offset, 131_073)

    def test_B32_request_offset_is_set_once(self) -> None:
        rig = MasterRig(filled(2000))
        slave = rig.slave()
        self.assertEqual(slave.link.progress.request_offset, -1)
        slave.report(500)
        slave.report(900)
        self.assertEqual((slave.link.progress.request_offset, slave.link.progress.ack_offset), (500, 900))

    def test_B33_B77_an_ack_wakes_exactly_what_it_covers(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(1000)
        waits = [rig.service.wait(end, end, 5.0) for end in (rig.log.append(bytes(100)) for _ in range(3))]
        slave.report(1200)
        self.assertEqual([wait.called for wait in waits], [True, True, False])
        slave.report(1100)
        self.assertFalse(waits[2].called)
        self.assertEqual(rig.service.replicas.push2_slave_max_offset, 1200)
        rig.group.stop()

    def test_B174_a_slave_that_begins_in_the_last_file_speaks_for_no_put_before_it(self) -> None:
        rig = MasterRig(filled(900, file_size=1000))
        skipped, copied = rig.log.append(bytes(50)), rig.log.append(bytes(100))
        waits = [rig.service.wait(end, end, 5.0) for end in (skipped, copied)]
        slave = rig.slave(0)
        self.assertEqual(self.successResultOf(waits[0]), 0)
        self.assertEqual(slave.frames()[0][0], 1000)
        slave.report(copied)
        self.assertEqual(self.successResultOf(waits[1]), copied)

    def test_B34_the_fast_slave_decides(self) -> None:
        rig = MasterRig(filled(1000))
        rig.slave(1000, host="10.0.0.2")
        fast = rig.slave(1000, host="10.0.0.3")
        end = rig.log.append(bytes(50))
        waiting = rig.service.wait(end, end, 5.0)
        fast.report(end)
        self.assertEqual(self.successResultOf(waiting), end)

    def test_B38_B153_an_ack_above_what_was_sent_closes_and_counts_nothing(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(1000)
        end = rig.log.append(bytes(10))
        waiting = rig.service.wait(end, end, 5.0)
        slave.report(end + 1)
        self.assertTrue(slave.wire.aborted)
        self.assertNoResult(waiting)
        self.assertEqual(rig.service.replicas.push2_slave_max_offset, 1000)
        rig.seconds(5)
        self.assertEqual(self.successResultOf(waiting), 0)

    def test_B140_a_slave_that_only_says_where_it_is_completes_no_put(self) -> None:
        """What it has before that may be of a tail that this master has lost."""
        rig = MasterRig(filled(1000))
        waiting = [rig.service.wait(end, end, 5.0) for end in (800, 1000)]
        slave = rig.slave(900)  # where its last record begins
        slave.report(900)
        for each in waiting:
            self.assertNoResult(each)
        slave.report(1000)
        self.assertEqual([self.successResultOf(each) for each in waiting], [1000, 1000])

    def test_B153_a_first_report_of_2_to_the_40_completes_no_put(self) -> None:
        rig = MasterRig(filled(1000))
        liar = rig.slave(1 << 40)
        end = rig.log.append(bytes(10))
        waiting = rig.service.wait(end, end, 0.5)
        self.assertEqual(rig.service.replicas.push2_slave_max_offset, 0)
        self.assertEqual(rig.service.replicas.connection_count, 0)
        rig.seconds(1)
        self.assertEqual(self.successResultOf(waiting), 0)
        self.assertEqual(liar.body(), b"")

    def test_B153_a_first_report_that_no_log_has_reached_is_nobody_s(self) -> None:
        for report, closed in ((OFFSET_LIMIT - 1, False), (OFFSET_LIMIT, True)):
            self.assertEqual(MasterRig(filled(1000)).slave(report).wire.aborted, closed)

    def test_B155_a_negative_report_closes(self) -> None:
        for first in (True, False):
            rig = MasterRig(filled(1000))
            slave = rig.slave() if first else rig.slave(500)
            slave.report(-1)
            self.assertTrue(slave.wire.aborted)

    def test_B35_a_silent_slave_is_closed_after_20_seconds(self) -> None:
        rig = MasterRig(filled(1000))
        mute, waiting = rig.slave(), rig.slave(500)
        rig.seconds(20)
        self.assertFalse(mute.wire.aborted or waiting.wire.aborted)
        rig.seconds(1)
        self.assertTrue(mute.wire.aborted and waiting.wire.aborted)

    def test_B35_a_reporting_slave_stays(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(1000)
        for _ in range(12):
            rig.seconds(5)
            slave.report(1000)
        self.assertFalse(slave.gone)

    def test_B37_100_connects_and_closes_leave_nothing(self) -> None:
        rig = MasterRig(filled(1000))
        for index in range(100):
            slave = rig.slave(500) if index % 2 else rig.slave()
            slave.lose()
        self.assertEqual(rig.service.replicas.connection_count, 0)
        self.assertEqual(rig.service.status(), [])
        rig.seconds(1.1)
        self.assertEqual(rig.log.listeners, 0)

    def test_B28_a_failing_setup_closes_that_socket_alone(self) -> None:
        rig = MasterRig(filled(1000))
        assert rig.factory is not None
        self.patch(rig.service, "new_connection", lambda: 1 / 0)
        self.assertIsNone(rig.factory.buildProtocol(None))  # type: ignore[arg-type]
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        del rig.service.new_connection
        self.assertEqual(rig.slave(0).body(), bytes(rig.log))


class WriteSideTests(SynchronousTestCase):
    def test_B39_nothing_is_sent_before_the_first_report(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave()
        rig.seconds(7)
        rig.log.append(b"more")
        self.assertEqual(slave.wire.value(), b"")

    def test_B40_a_new_slave_gets_the_last_file(self) -> None:
        rig = MasterRig(filled(2500, file_size=1000))
        self.assertEqual(rig.slave(0).frames()[0], (2000, bytes(rig.log)[2000:]))

    def test_B158_or_the_whole_log_where_that_is_set(self) -> None:
        rig = MasterRig(filled(2500, file_size=1000), first_sync=HaFirstSync.MIN_OFFSET)
        self.assertEqual(rig.slave(0).body(), bytes(rig.log))

    def test_B41_frames_hold_a_batch_at_most(self) -> None:
        rig = MasterRig(filled(100_000))
        sizes = [len(body) for _, body in rig.slave(0).frames()]
        self.assertEqual(sizes, [32768, 32768, 32768, 1696])

    def test_B42_no_frame_crosses_a_file_end_in_either_gear(self) -> None:
        rig = MasterRig(filled(2500, file_size=1000), batch_size=300)
        slave = rig.slave(1)
        rig.log.append(pattern(2345, seed=8))
        frames = slave.frames()
        self.assertEqual(b"".join(body for _, body in frames), bytes(rig.log)[1:])
        for offset, body in frames:
            self.assertLessEqual(len(body), 300)
            self.assertEqual(offset // 1000, (offset + len(body) - 1) // 1000)

    def test_B29_each_slave_has_its_own_position(self) -> None:
        rig = MasterRig(filled(1000))
        one, two = rig.slave(100), rig.slave(900)
        rig.log.append(b"fresh")
        self.assertEqual(one.body(), bytes(rig.log)[100:])
        self.assertEqual(two.body(), bytes(rig.log)[900:])

    def test_live_slaves_get_the_same_bytes_object_without_a_read(self) -> None:
        rig = MasterRig(filled(1000))
        slaves = [rig.slave(1000, host=f"10.0.0.{n}") for n in range(3)]
        reads, given = rig.log.reads, []
        for slave in slaves:
            self.patch(slave.wire, "write", given.append)
        rig.log.append(b"fresh bytes")
        self.assertEqual(len(given), 3)
        self.assertEqual(len(set(map(id, given))), 1)
        self.assertEqual(rig.log.reads, reads)

    def test_B45_B79_a_put_leaves_in_the_same_turn(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(1000)
        rig.log.append(b"fresh")
        self.assertEqual(slave.frames(), [(1000, b"fresh")])

    def test_B22_B44_heartbeat_of_12_bytes_once_per_idle_interval(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(1000)
        rig.seconds(5)
        self.assertEqual(slave.wire.value(), b"")
        rig.seconds(1)
        self.assertEqual(slave.wire.take(), struct.pack(">qi", 1000, 0))
        slave.report(1000)
        rig.seconds(12)
        self.assertEqual(slave.frames(), [(1000, b"")] * 2)

    def test_B44_no_heartbeat_under_load(self) -> None:
        rig = MasterRig()
        slave = rig.slave(0)
        for _ in range(30):
            rig.log.append(b"x")
            rig.seconds(0.5)
            slave.report(rig.log.max_offset)
        self.assertNotIn(b"", [body for _, body in slave.frames()])

    def test_B44_a_late_first_report_gets_a_heartbeat_before_its_data(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave()
        rig.seconds(5.5)
        slave.report(0)
        self.assertEqual(slave.frames(), [(0, b""), (0, bytes(rig.log))])

    def test_B43_a_full_transport_gets_no_heartbeat(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(1000)
        slave.wire.fill()
        rig.seconds(12)
        self.assertEqual(slave.wire.value(), b"")

    def test_B47_a_stuck_slave_costs_no_more_than_the_window(self) -> None:
        rig = MasterRig(MemoryLog(file_size=1 << 30))
        slave = rig.slave(0)
        slave.wire.fill()
        for _ in range(300):
            rig.log.append(bytes(10_000))
        self.assertLessEqual(len(slave.wire.value()), haconnection.HA_WRITE_WINDOW)
        self.assertEqual(rig.service.status()[0].state, "catching up")
        slave.wire.drain()
        self.assertEqual(slave.body(), bytes(3_000_000))
        self.assertEqual(rig.service.status()[0].state, "live")

    def test_B46_B47_a_lagging_slave_is_fed_one_chunk_per_drain(self) -> None:
        rig = MasterRig(filled(5 * haconnection.CATCH_UP_CHUNK, file_size=1 << 30))
        slave = rig.slave()
        write = slave.wire.write

        def full_after_each(data: bytes) -> None:
            write(data)
            slave.wire.fill()

        self.patch(slave.wire, "write", full_after_each)
        slave.report(1)
        got = b""
        for _ in range(5):
            self.assertLessEqual(len(slave.wire.value()), haconnection.CATCH_UP_CHUNK + 64 * 12)
            got += slave.body()
            rig.log.append(b"meanwhile")
            slave.wire.drain()
        self.assertEqual(got + slave.body(), bytes(rig.log)[1:])

    def test_the_window_is_full_with_its_last_byte_and_begins_again_with_each_stop(self) -> None:
        self.patch(haconnection, "HA_WRITE_WINDOW", 1000)
        rig = MasterRig(filled(1000))
        slave = rig.slave(1000)
        for _ in range(2):
            slave.wire.fill()
            slave.body()
            rig.log.append(bytes(1000 - 12))
            self.assertEqual(rig.service.status()[0].state, "live")
            rig.seconds(1)
            rig.log.append(b"x")
            status = rig.service.status()[0]
            self.assertEqual((status.state, status.since), ("catching up", rig.clock.seconds()))
            self.assertEqual(slave.body(), bytes(1000 - 12))
            slave.wire.drain()

    def test_changing_gear_over_and_over_loses_and_repeats_nothing(self) -> None:
        self.patch(haconnection, "HA_WRITE_WINDOW", 3000)
        rig = MasterRig(filled(5000, file_size=1000))
        slave = rig.slave(1)
        for step in range(200):
            if step % 7 == 2:
                slave.wire.fill()
            rig.log.append(pattern(step * 13 % 1700 + 1, seed=step))
            if step % 7 == 6:
                slave.wire.drain()
        slave.wire.drain()
        frames = slave.frames()
        position = 1
        for offset, body in frames:
            self.assertEqual(offset, position)
            position += len(body)
        self.assertEqual(b"".join(body for _, body in frames), bytes(rig.log)[1:])

    def test_a_link_that_missed_bytes_is_closed_and_the_others_go_on(self) -> None:
        rig = MasterRig(filled(1000))
        broken, sound = rig.slave(1000), rig.slave(1000)
        broken.link.progress.next_offset -= 1
        rig.log.append(b"fresh")
        self.assertEqual(len(self.flushLoggedErrors(AssertionError)), 1)
        self.assertTrue(broken.wire.aborted)
        self.assertEqual((broken.body(), sound.body()), (b"", b"fresh"))
        rig.log.append(b"again")
        self.assertEqual((broken.body(), sound.body()), (b"", b"again"))

    def test_a_log_without_live_slaves_has_no_listener(self) -> None:
        rig = MasterRig(filled(1000))
        self.assertEqual(rig.log.listeners, 0)
        slave = rig.slave(1000)
        self.assertEqual(rig.log.listeners, 1)
        slave.lose()
        rig.seconds(1.1)
        self.assertEqual(rig.log.listeners, 0)
        rig.slave(1000)
        self.assertEqual(rig.log.listeners, 1)


class StrangerTests(SynchronousTestCase):
    def test_a_port_scanner_is_closed_counted_and_logged_once_a_minute(self) -> None:
        caught = LogCatcher(self)
        rig = MasterRig(filled(1000))
        for _ in range(10):
            scanner = rig.slave(host="10.9.9.9")
            scanner.send(b"GET / HTTP/1.1\r\n\r\n")
            self.assertTrue(scanner.wire.aborted)
            scanner.lose()
        self.assertEqual(len(caught.texts("warn")), 1)
        self.assertEqual((rig.service.unidentified_total, rig.service.complaints.total), (10, 10))
        rig.seconds(60)
        rig.slave(host="10.9.9.9").send(b"\xff" * 8)
        self.assertEqual(len(caught.texts("warn")), 2)
        self.assertIn("9 more like it", caught.texts("warn")[1])

    def test_each_source_is_logged_for_itself(self) -> None:
        caught = LogCatcher(self)
        rig = MasterRig(filled(1000))
        for host in ("10.9.9.1", "10.9.9.2"):
            rig.slave(host=host).send(b"\xff" * 8)
        self.assertEqual(len(caught.texts("warn")), 2)

    def test_a_connection_that_says_nothing_is_counted_and_logged(self) -> None:
        caught = LogCatcher(self)
        rig = MasterRig(filled(1000))
        scanner = rig.slave()
        scanner.send(b"1234567")
        scanner.lose()
        self.assertEqual(rig.service.unidentified_total, 1)
        self.assertIn("left without a report", caught.texts("warn")[0])

    def test_who_only_looks_whether_the_port_is_open_is_counted_and_not_logged(self) -> None:
        caught = LogCatcher(self)
        rig = MasterRig(filled(1000))
        rig.slave().lose()
        self.assertEqual((rig.service.unidentified_total, caught.texts("warn")), (1, []))
        stayed = rig.slave()
        rig.seconds(GLANCE)
        stayed.lose()
        self.assertEqual(rig.service.unidentified_total, 2)
        self.assertIn("left without a report", caught.texts("warn")[0])

    def test_a_trickle_of_bytes_keeps_no_place(self) -> None:
        rig = MasterRig(filled(1000))
        trickler = rig.slave()
        for _ in range(7):
            trickler.send(b"\0")
            rig.seconds(3)
        self.assertTrue(trickler.wire.aborted)

    def test_a_trickle_of_bytes_keeps_no_link_that_has_reported_once(self) -> None:
        rig = MasterRig(filled(1000))
        trickler = rig.slave(1000)
        for _ in range(7):
            self.assertFalse(trickler.wire.aborted)
            trickler.send(bytes(1))
            rig.seconds(3)
        self.assertTrue(trickler.wire.aborted)

    def test_too_many_strangers_push_out_the_scanners_not_the_slave(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(host="10.0.0.2")
        scanners = [rig.slave(host="10.9.9.9") for _ in range(MAX_UNREPORTED + 20)]
        self.assertEqual([peer.wire.aborted for peer in scanners].count(True), 21)
        self.assertTrue(scanners[0].wire.aborted)
        slave.report(1000)
        rig.log.append(b"fresh")
        self.assertEqual(slave.body(), b"fresh")

    def test_each_host_of_strangers_has_a_line_of_its_own(self) -> None:
        caught = LogCatcher(self)
        rig = MasterRig(filled(1000))
        for host in ("10.9.9.8", "10.9.9.9"):
            for stranger in [rig.slave(host=host) for _ in range(MAX_UNREPORTED + 1)]:
                stranger.lose()
            rig.slave(host=host)
        rig.seconds(rig.service.settings.housekeeping_interval + 2)
        for host in ("10.9.9.8", "10.9.9.9"):
            self.assertEqual(len([text for text in caught.texts("warn") if f"{host}:" in text]), 1, host)

    def test_reporting_slaves_are_not_strangers(self) -> None:
        rig = MasterRig(filled(1000))
        hosts = [f"10.0.{each // MAX_LINKS_OF_HOST}.1" for each in range(MAX_UNREPORTED + 20)]
        slaves = [rig.slave(1000, host=host) for host in hosts]
        self.assertFalse(any(slave.gone for slave in slaves))

    def test_B179_too_many_links_push_out_those_that_copy_nothing(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(1000)
        hosts = [f"10.9.{each // MAX_LINKS_OF_HOST}.9" for each in range(MAX_LINKS + 20)]
        strangers = [rig.slave(0, host=host) for host in hosts]
        self.assertEqual([peer.wire.aborted for peer in strangers].count(True), 21)
        other = rig.slave(0, host="10.0.0.3")
        rig.log.append(b"fresh")
        self.assertEqual((slave.gone, slave.body()), (False, b"fresh"))
        self.assertFalse(other.wire.aborted)
        self.assertLessEqual(rig.service.replicas.connection_count, MAX_LINKS)

    def test_B184_too_many_links_of_one_host_push_out_each_other(self) -> None:
        rig = MasterRig(filled(1000))
        slave, behind = rig.slave(1000), rig.slave(1000, host="10.9.9.9")
        strangers = [rig.slave(0, host="10.9.9.9") for _ in range(2 * MAX_LINKS_OF_HOST)]
        self.assertEqual([peer.gone for peer in strangers].count(False), MAX_LINKS_OF_HOST - 1)
        self.assertFalse(slave.gone or behind.gone)

    def test_B184_addresses_of_one_ipv6_network_are_one_host(self) -> None:
        rig = MasterRig(filled(1000))
        strangers = [rig.slave(0, host=f"2001:db8::{number}") for number in range(1, 2 * MAX_LINKS_OF_HOST)]
        self.assertEqual([peer.gone for peer in strangers].count(False), MAX_LINKS_OF_HOST)


class AllowListTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.caught = LogCatcher(self)
        self.rig = MasterRig(filled(1000), allowed=Networks("10.0.0.0/24; fd00::/8"), sync=lambda: True)

    def connect(self, host: str, kind: type[IPv4Address | IPv6Address] = IPv4Address) -> HAConnection | None:
        assert self.rig.factory is not None
        return self.rig.factory.buildProtocol(kind("TCP", host, 40000))

    def test_B183_slaves_from_elsewhere_are_closed_before_a_byte_is_read(self) -> None:
        for host in ("10.0.1.2", "127.0.0.1", "not-an-address"):
            self.assertIsNone(self.connect(host))
        self.assertIsNone(self.connect("fe80::1", IPv6Address))
        self.assertEqual((self.rig.service.turned_away_total, self.rig.service.accepted_total), (4, 0))
        self.assertFalse(self.rig.service.is_slave_ok(1001), "a put would wait for them")
        self.assertRegex(self.caught.texts("warn")[0], r"10\.0\.1\.2:40000 refused, haAllowList")

    def test_B183_slaves_from_there_are_fed_and_count(self) -> None:
        slave = self.rig.slave(1000, host="10.0.0.7")
        self.assertIsNotNone(self.connect("fd00::7%eth0", IPv6Address))
        self.assertIsNotNone(self.connect("::ffff:10.0.0.8", IPv6Address))
        done = self.rig.service.wait(1005, 1005, 5.0)
        self.rig.log.append(b"fresh")
        self.assertEqual(slave.body(), b"fresh")
        slave.report(1005)
        self.assertEqual(self.successResultOf(done), 1005)


class RefusalTests(SynchronousTestCase):
    def test_B143_an_expired_offset_is_refused_loudly_told_and_closed_late(self) -> None:
        caught = LogCatcher(self)
        rig = MasterRig(filled(3500, file_size=1000))
        rig.log.expire(2000)
        slave = rig.slave(1500)
        self.assertEqual(rig.service.status()[0].state, "offset expired")
        self.assertEqual(rig.service.replicas.connection_count, 0)
        self.assertRegex(caught.texts("error")[0], "1500, but the log holds 2000 to 3500")
        rig.seconds(haconnection.REFUSED_LINGER - 0.2)
        self.assertEqual((slave.wire.value(), slave.gone), (b"", False))
        rig.seconds(0.4)
        self.assertEqual((slave.frames(), slave.wire.closed), ([(2000, b"")], True))

    def test_B140_an_offset_ahead_of_the_log_is_refused_the_same_way(self) -> None:
        caught = LogCatcher(self)
        rig = MasterRig(filled(1000))
        slave = rig.slave(1200)
        rig.log.append(bytes(500))
        self.assertIn("1200", caught.texts("error")[0])
        rig.seconds(haconnection.REFUSED_LINGER + 0.2)
        self.assertEqual(slave.frames(), [(1500, b"")])
        self.assertTrue(slave.wire.closed)

    def test_a_slave_overtaken_by_retention_while_it_lags_is_refused(self) -> None:
        caught = LogCatcher(self)
        rig = MasterRig(MemoryLog(file_size=1000))
        slave = rig.slave(0)
        rig.log.append(bytes(500))
        slave.wire.fill()
        for _ in range(4):
            rig.log.append(bytes(haconnection.HA_WRITE_WINDOW))
        self.assertEqual(slave.body(), bytes(500))
        rig.log.expire(rig.log.max_offset // 1000 * 1000)
        rig.seconds(1)
        slave.wire.drain()
        status = rig.service.status()[0]
        self.assertEqual((status.state, status.since), ("offset expired", 1.0))
        self.assertIn("it asks for offset 500, but the log holds", caught.texts("error")[0])
        rig.seconds(haconnection.REFUSED_LINGER + 0.1)
        self.assertEqual(slave.frames()[-1], (rig.log.min_offset, b""))

    def test_a_refused_slave_holds_nothing_back(self) -> None:
        rig = MasterRig(filled(1000))
        refused = rig.slave(1 << 30)
        refused.send(bytes(1 << 20))
        self.assertEqual(rig.service.replicas.push2_slave_max_offset, 0)
        self.assertFalse(refused.gone, "before it's told why")
        refused.lose()
        self.assertEqual(rig.service.status(), [])


class LifeTests(SynchronousTestCase):
    def test_stop_closes_port_and_links_and_releases_puts(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(1000)
        end = rig.log.append(b"x")
        waiting = rig.service.wait(end, end, 100.0)
        stopped = rig.service.stopService()
        self.assertTrue(slave.wire.closed)
        self.assertFalse(rig.port.open)
        self.assertNoResult(stopped)
        slave.lose()
        self.successResultOf(stopped)
        self.assertEqual(self.successResultOf(waiting), 0)
        self.assertEqual(rig.clock.getDelayedCalls(), [])
        self.assertEqual(rig.log.listeners, 0)
        self.successResultOf(rig.service.stopService())

    def test_a_stop_waits_for_the_port(self) -> None:
        rig = MasterRig(filled(1000))
        closing: Deferred[None] = Deferred()
        self.patch(rig.port, "stopListening", lambda: closing)
        stopped = rig.service.stopService()
        self.assertNoResult(stopped)
        closing.callback(None)
        self.successResultOf(stopped)

    def test_a_service_whose_port_was_taken_can_be_stopped(self) -> None:
        def taken(factory: IProtocolFactory) -> IListeningPort:
            raise CannotListenError("", 10912, OSError(errno.EADDRINUSE, "in use"))

        clock = Clock()
        service = HAService(filled(1000), clock, taken, GroupTransferService(clock, 5.0))
        self.assertRaises(CannotListenError, service.startService)
        self.successResultOf(service.stopService())

    def test_a_stop_closes_a_refused_link_that_is_closing_already(self) -> None:
        rig = MasterRig(filled(1000))
        refused = rig.slave(1200)
        rig.seconds(haconnection.REFUSED_LINGER + 0.125)
        self.assertTrue(refused.wire.closed)
        stopped = rig.service.stopService()
        refused.lose()
        self.successResultOf(stopped)
        self.assertEqual(rig.clock.getDelayedCalls(), [])

    def test_B19_a_peer_that_takes_nothing_cannot_hold_up_a_stop(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(1000)
        slave.wire.fill()
        stopped = rig.service.stopService()
        rig.seconds(0.6)
        self.assertTrue(slave.wire.aborted)
        slave.lose()
        self.successResultOf(stopped)

    def test_drain_waits_for_the_last_ack(self) -> None:
        rig = MasterRig(filled(1000))
        one, two = rig.slave(1000), rig.slave(900)
        drained = rig.service.drain(3.0)
        self.assertNoResult(drained)
        one.report(1000)
        self.assertNoResult(drained)
        two.report(1000)
        self.assertTrue(self.successResultOf(drained))
        self.assertTrue(self.successResultOf(rig.service.drain(3.0)))

    def test_drain_ends_at_its_limit(self) -> None:
        rig = MasterRig(filled(1000))
        rig.slave(900)
        drained = rig.service.drain(3.0)
        rig.seconds(3)
        self.assertFalse(self.successResultOf(drained))

    def test_B49_lag_is_the_masters_end_minus_the_best_report(self) -> None:
        caught = LogCatcher(self)
        rig = MasterRig(filled(1000))
        slave = rig.slave(400)
        self.assertEqual(rig.service.fall_behind, 600)
        for _ in range(14):
            rig.seconds(5)
            slave.report(400)
        self.assertEqual(
            sum("10.0.0.2:" in text and " 600 bytes (live)" in text for text in caught.texts("info")), 2
        )

    def test_the_lag_line_names_each_slave_the_worst_first(self) -> None:
        caught = LogCatcher(self)
        rig = MasterRig(filled(1000))
        near, far, _ = rig.slave(990), rig.slave(100, host="10.0.0.3"), rig.slave(host="10.0.0.9")
        rig.seconds(11)
        (line,) = [text for text in caught.texts("info") if "slave lag" in text]
        self.assertEqual(
            line,
            f"slave lag (log ends at 1000): {far.link.peer} 900 bytes (live), "
            f"{near.link.peer} 10 bytes (live)",
        )

    def test_the_lag_line_has_a_limit(self) -> None:
        caught = LogCatcher(self)
        rig = MasterRig(filled(1000))
        for number in range(MAX_LAGS_SHOWN + 3):
            rig.slave(500 + number, host=f"10.0.1.{number}")
        rig.seconds(11)
        (line,) = [text for text in caught.texts("info") if "slave lag" in text]
        self.assertEqual((line.count("bytes ("), line[-12:]), (MAX_LAGS_SHOWN, ", and 3 more"))
        self.assertLess(line.index("10.0.1.0:"), line.index("10.0.1.1:"))
        self.assertIn(" 500 bytes", line)

    def test_a_slave_that_left_is_missed_in_the_lag_line(self) -> None:
        caught = LogCatcher(self)
        rig = MasterRig(filled(1000))
        rig.slave(400).lose()
        rig.seconds(11)
        self.assertIn(
            "no slave is connected; the latest acknowledgement is 600 bytes behind the log's end",
            caught.texts("info"),
        )

    def test_a_slave_lost_on_a_sync_master_is_a_warning(self) -> None:
        for sync, level in ((True, "warn"), (False, "info")):
            caught = LogCatcher(self)
            rig = MasterRig(filled(1000), sync=lambda sync=sync: sync)
            rig.slave(1000, host="10.0.0.3")
            slave = rig.slave(400)
            slave.lose()
            (line,) = [text for text in caught.texts(level) if "left" in text]
            self.assertTrue(
                line.startswith(
                    f"slave {slave.link.peer} left at offset 400, 600 bytes behind: Connection was closed cleanly"
                ),
                line,
            )
            self.assertTrue(line.endswith("slaves still connected: 1"), line)

    def test_a_slave_that_leaves_because_the_master_stops_is_not(self) -> None:
        caught = LogCatcher(self)
        rig = MasterRig(filled(1000), sync=lambda: True)
        slave = rig.slave(1000)
        rig.service.stopService()
        slave.lose()
        self.assertEqual(caught.texts("warn"), [])

    def test_a_sync_master_without_a_slave_says_so_once_after_a_minute(self) -> None:
        caught = LogCatcher(self)
        rig = MasterRig(filled(1000), sync=lambda: True)
        rig.slave(host="10.0.0.9")  # a stranger is no slave
        rig.seconds(59)
        self.assertEqual([text for text in caught.texts("warn") if "no slave has connected" in text], [])
        rig.seconds(120)
        (line,) = [text for text in caught.texts("warn") if "no slave has connected" in text]
        self.assertIn("60 s ago", line)

    def test_a_master_that_becomes_synchronous_gives_slaves_a_minute(self) -> None:
        caught = LogCatcher(self)
        sync = False
        rig = MasterRig(filled(1000), sync=lambda: sync)
        rig.seconds(90)
        sync = True
        rig.seconds(50)
        self.assertEqual(caught.texts("warn"), [])
        rig.seconds(11)
        self.assertIn("no slave has connected", caught.texts("warn")[0])

    def test_nobody_waits_so_nobody_misses_a_slave(self) -> None:
        caught = LogCatcher(self)
        MasterRig(filled(1000)).seconds(120)
        MasterRig(filled(1000), sync=lambda: True, in_sync_replicas=1).seconds(120)
        with_slave = MasterRig(filled(1000), sync=lambda: True)
        with_slave.slave(1000)
        with_slave.seconds(120)
        self.assertEqual([text for text in caught.texts("warn") if "no slave has connected" in text], [])

    def test_a_links_rate_and_times_are_those_of_its_bytes(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(0)
        rig.seconds(1)
        (status,) = rig.service.status()
        self.assertEqual(status.sent_per_second, 1012)
        self.assertEqual((status.last_write, status.last_report), (0.0, 0.0))
        rig.seconds(2)
        slave.report(1000)
        rig.log.append(bytes(500))
        (status,) = rig.service.status()
        self.assertEqual((status.last_write, status.last_report, status.sent_per_second), (3.0, 3.0, 0))
        rig.seconds(1)
        self.assertEqual(rig.service.status()[0].sent_per_second, 512)

    def test_every_socket_is_counted(self) -> None:
        rig = MasterRig(filled(1000))
        for _ in range(3):
            rig.slave(1000)
        self.assertEqual(rig.service.accepted_total, 3)

    def test_waits_that_expired_are_figures(self) -> None:
        rig = MasterRig(filled(1000))
        rig.slave(1000)
        end = rig.log.append(bytes(100))
        rig.service.wait(end, end, 5.0)
        self.assertEqual(rig.service.figures()["slaveWaitsOpen"], "1")
        rig.seconds(6)
        waits = {"slaveWaitsOpen": "0", "slaveWaitsExpired": "1", "slaveWaitsRefused": "0"}
        self.assertEqual(rig.service.figures(), waits | {"slaveFallBehindBytes": "100"})

    def test_B49_of_two_slaves_the_one_that_is_ahead_counts_and_goes_on_counting_when_it_leaves(self) -> None:
        rig = MasterRig(filled(1000))
        rig.slave(400)
        fast = rig.slave(900)
        self.assertEqual(rig.service.fall_behind, 100)
        self.assertEqual([slave.lag_bytes for slave in rig.service.status()], [600, 100])
        fast.lose()
        self.assertEqual(rig.service.fall_behind, 100)
        rig.slave(300)
        self.assertEqual(rig.service.fall_behind, 100)
        rig.log.append(bytes(50))
        self.assertEqual(rig.service.fall_behind, 150)

    def test_status_shows_each_slave(self) -> None:
        rig = MasterRig(filled(1000))
        rig.slave(400, host="10.0.0.7")
        rig.slave(host="10.0.0.8")
        first, second = rig.service.status()
        self.assertRegex(first.address, r"^10\.0\.0\.7:\d+$")
        self.assertEqual(
            (first.state, first.ack_offset, first.sent_offset, first.lag_bytes), ("live", 400, 1000, 600)
        )
        self.assertEqual(
            (second.state, second.ack_offset, second.sent_offset), ("awaiting first report", -1, -1)
        )


class PutPathTests(SynchronousTestCase):
    def test_B70_B71_usable_needs_a_link_within_the_limit(self) -> None:
        rig = MasterRig(filled(1000), fall_behind_max=256)
        self.assertFalse(rig.service.is_slave_ok(1000))
        slave = rig.slave(800)
        self.assertTrue(rig.service.is_slave_ok(1055))
        self.assertFalse(rig.service.is_slave_ok(1056))
        slave.lose()
        self.assertFalse(rig.service.is_slave_ok(1000))

    def test_B76_a_vanished_slave_leaves_the_put_to_its_deadline(self) -> None:
        rig = MasterRig(filled(1000))
        slave = rig.slave(1000)
        end = rig.log.append(b"x")
        waiting = rig.service.wait(end, end, 5.0)
        slave.lose()
        rig.seconds(4.9)
        self.assertNoResult(waiting)
        rig.seconds(0.1)
        self.assertEqual(self.successResultOf(waiting), 0)

    def test_too_few_copies_refuse_before_the_append(self) -> None:
        rig = MasterRig(filled(1000), in_sync_replicas=2, min_in_sync_replicas=2)
        self.assertRegex(rig.service.refusal() or "", "1 copies in sync, 2 needed")
        rig.slave(1000)
        self.assertIsNone(rig.service.refusal())

    def test_three_replicas_wait_for_the_second_slave(self) -> None:
        rig = MasterRig(filled(1000), in_sync_replicas=3)
        one, two = rig.slave(1000), rig.slave(1000)
        end = rig.log.append(b"x")
        waiting = rig.service.wait(end, end, 5.0)
        one.report(end)
        self.assertNoResult(waiting)
        two.report(end)
        self.assertEqual(self.successResultOf(waiting), end)

    def test_B34a_a_slave_that_re_dials_has_one_vote_for_the_puts_that_wait(self) -> None:
        rig = MasterRig(filled(1000), in_sync_replicas=3)
        slave = rig.slave(1000)
        rig.slave(1000, host="10.0.0.2")  # mute
        end = rig.log.append(b"x")
        waiting = rig.service.wait(end, end, 5.0)
        slave.report(end)  # and then its link is half-open
        for host in ("10.0.0.1", "10.0.0.9"):
            rig.slave(1000, end, host=host)
            self.assertNoResult(waiting)
        rig.seconds(5)
        self.assertEqual(self.successResultOf(waiting), 0)

    def test_B34a_a_slave_that_re_dials_is_one_copy_in_sync(self) -> None:
        rig = MasterRig(filled(1000), in_sync_replicas=3, min_in_sync_replicas=3)
        first = rig.slave(1000)
        rig.slave(1000)
        self.assertRegex(rig.service.refusal() or "", "2 copies in sync, 3 needed")
        first.report(1000)
        self.assertIsNone(rig.service.refusal())

    def test_one_replica_waits_for_nobody(self) -> None:
        rig = MasterRig(filled(1000), in_sync_replicas=1)
        self.assertTrue(rig.service.is_slave_ok(1000))
        self.assertEqual(self.successResultOf(rig.service.wait(1000, 1000, 5.0)), 1000)

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.ha.errors import ImplausibleReport
from hatwisted.ha.replicas import Replica, ReplicaTable, at_least
from hatwisted.ha.settings import MasterSettings, SlaveSettings
from hatwisted.ha.slaveprogress import TRANSITIONS, LinkState, SendProgress, start_offset
from hatwisted.wire.haframe import HaFirstSync
from tests.support.memorylog import MemoryLog


def log_of(size: int, file_size: int = 1000, expired: int = 0) -> MemoryLog:
    log = MemoryLog(file_size)
    log.append(bytes(size))
    if expired:
        log.expire(expired)
    return log


def joined(report: int, log: MemoryLog, first_sync: HaFirstSync = HaFirstSync.LAST_FILE) -> SendProgress:
    progress = SendProgress(0.0)
    progress.first_report(report, log, first_sync, 1.0)
    return progress


class FirstReportTests(SynchronousTestCase):
    def test_B40_an_offset_within_the_log_is_where_it_starts(self) -> None:
        progress = joined(1234, log_of(2500))
        self.assertEqual(
            (progress.next_offset, progress.ack_offset, progress.request_offset), (1234, 1234, 1234)
        )
        self.assertIs(progress.state, LinkState.CATCH_UP)

    def test_B40_zero_means_the_start_of_the_last_file(self) -> None:
        for size, start in ((0, 0), (1, 0), (999, 0), (2500, 2000), (2000, 2000)):
            self.assertEqual(start_offset(0, log_of(size), HaFirstSync.LAST_FILE), start)

    def test_B158_zero_means_the_oldest_offset_where_that_is_set(self) -> None:
        self.assertEqual(start_offset(0, log_of(2500), HaFirstSync.MIN_OFFSET), 0)
        self.assertEqual(start_offset(0, log_of(2500, expired=1000), HaFirstSync.MIN_OFFSET), 1000)
        self.assertEqual(start_offset(1500, log_of(2500), HaFirstSync.MIN_OFFSET), 1500)

    def test_B153_above_the_logs_end_is_no_acknowledgement(self) -> None:
        progress = joined(2501, log_of(2500))
        self.assertEqual((progress.state, progress.since), (LinkState.OFFSET_AHEAD, 1.0))
        self.assertEqual(progress.ack_offset, -1)
        self.assertFalse(progress.reported)

    def test_B143_below_the_oldest_offset_is_a_state_of_its_own(self) -> None:
        self.assertIs(joined(999, log_of(2500, expired=1000)).state, LinkState.OFFSET_EXPIRED)
        self.assertIs(joined(1000, log_of(2500, expired=1000)).state, LinkState.CATCH_UP)

    def test_B155_garbage_is_refused_as_such(self) -> None:
        for garbage in (-1, -(2**63), int.from_bytes(b"GET / HT", "big"), 1 << 50):
            with self.assertRaisesRegex(ImplausibleReport, str(garbage)):
                joined(garbage, log_of(2500))


class AcknowledgementTests(SynchronousTestCase):
    def test_B153_only_what_was_sent_on_this_link_can_be_acknowledged(self) -> None:
        progress = joined(1000, log_of(2500))
        progress.sent(1000, 500)
        progress.acknowledge(1500)
        with self.assertRaisesRegex(ImplausibleReport, "1501"):
            progress.acknowledge(1501)
        self.assertEqual(progress.ack_offset, 1500)

    def test_B155_a_negative_acknowledgement_is_refused(self) -> None:
        with self.assertRaises(ImplausibleReport):
            joined(0, log_of(0)).acknowledge(-8)

    def test_bytes_out_of_order_are_our_own_mistake(self) -> None:
        progress = joined(1000, log_of(2500))
        self.assertRaises(AssertionError, progress.sent, 1001, 10)
        self.assertRaises(AssertionError, progress.sent, 999, 10)

    def test_every_state_can_only_go_where_the_table_says(self) -> None:
        for state in LinkState:
            for target in LinkState:
                progress = SendProgress(0.0)
                progress.state = state
                if target in TRANSITIONS[state]:
                    progress.move(target, 3.0)
                    self.assertEqual((progress.state, progress.since), (target, 3.0))
                else:
                    self.assertRaises(AssertionError, progress.move, target, 3.0)


class ReplicaTableTests(SynchronousTestCase):
    def test_without_a_slave_nothing_is_replicated_where_one_is_wanted(self) -> None:
        for wanted, committed in ((0, 1000), (1, 1000), (2, -1), (3, -1)):
            self.assertEqual(ReplicaTable(wanted).commit_offset(1000), committed)

    def table(
        self, *acks: int, in_sync_replicas: int | None = None
    ) -> tuple[ReplicaTable, list[SendProgress]]:
        table = ReplicaTable(in_sync_replicas)
        links = [SendProgress(0.0) for _ in acks]
        for link, ack in zip(links, acks, strict=True):
            table.join(link)
            link.ack_offset = ack
            if ack >= 0:
                table.reported(link, 0)
        for link in links:
            table.acknowledged(link)
        return table, links

    def test_B34_one_fast_slave_is_enough_and_its_leaving_lowers_nothing(self) -> None:
        table, links = self.table(100, 900)
        self.assertEqual(table.commit_offset(1000), 900)
        table.leave(links[1])
        self.assertEqual((table.push2_slave_max_offset, table.commit_offset(1000)), (900, 900))

    def test_B33_a_lower_ack_leaves_the_maximum(self) -> None:
        table, links = self.table(900)
        links[0].ack_offset = 100
        table.acknowledged(links[0])
        self.assertEqual(table.push2_slave_max_offset, 900)

    def test_a_quorum_needs_living_links(self) -> None:
        table, links = self.table(100, 900, 500, in_sync_replicas=3)
        self.assertEqual(table.commit_offset(1000), 500)
        table.leave(links[1])
        self.assertEqual(table.commit_offset(1000), 100)
        table.leave(links[0])
        self.assertEqual(table.commit_offset(1000), -1)

    def test_one_replica_is_the_master_itself(self) -> None:
        table, _ = self.table(in_sync_replicas=1)
        self.assertEqual(table.commit_offset(1000), 1000)

    def test_in_sync_counts_the_master_and_slaves_within_the_gap(self) -> None:
        table, _ = self.table(1000, 901, 900, -1)
        self.assertEqual(table.in_sync_count(1000, 100), 3)

    def test_B70_usable_is_strictly_below_the_limit_and_needs_a_link(self) -> None:
        table, links = self.table(1000)
        self.assertTrue(table.is_slave_ok(1099, 100))
        self.assertFalse(table.is_slave_ok(1100, 100))
        table.leave(links[0])
        self.assertFalse(table.is_slave_ok(1000, 100))

    def test_B70_a_link_that_has_not_reported_yet_counts(self) -> None:
        table, _ = self.table(-1)
        self.assertTrue(table.is_slave_ok(50, 100))

    def test_B37_leaving_twice_counts_once(self) -> None:
        table, links = self.table(1, 2)
        table.leave(links[0])
        table.leave(links[0])
        self.assertEqual(table.connection_count, 1)


class SettingsTests(SynchronousTestCase):
    def test_B18_defaults(self) -> None:
        settings = MasterSettings()
        self.assertEqual(
            (settings.heartbeat_interval, settings.housekeeping_interval, settings.batch_size),
            (5.0, 20.0, 32768),
        )
        self.assertEqual(settings.fall_behind_max, 268435456)

    def test_B26_a_batch_that_no_rocketmq_slave_can_take_is_refused(self) -> None:
        self.assertEqual(MasterSettings(batch_size=4194292).batch_size, 4194292)
        for size in (4194293, 0, -1):
            with self.assertRaisesRegex(ValueError, "haTransferBatchSize"):
                MasterSettings(batch_size=size)

    def test_a_heartbeat_slower_than_housekeeping_is_doubted(self) -> None:
        for settings in (MasterSettings, SlaveSettings):
            self.assertIsNone(settings().warning)
            self.assertIn("haHousekeepingInterval", settings(heartbeat_interval=20.0).warning or "")

    def test_times_of_nothing_are_refused(self) -> None:
        for key in ("heartbeat_interval", "housekeeping_interval"):
            with self.assertRaisesRegex(ValueError, "above 0"):
                SlaveSettings(**{key: 0.0})


class OneVotePerSlaveTests(SynchronousTestCase):
    """Links of one slave have one vote together, however many are listed."""

    def setUp(self) -> None:
        self.table = ReplicaTable(3)

    def link(self, offset: int, log_end: int) -> SendProgress:
        """A slave joins at `offset`."""
        link = SendProgress(0.0)
        link.ack_offset = offset
        self.table.reported(link, log_end)
        return link

    def ack(self, link: SendProgress, offset: int) -> None:
        link.ack_offset = offset
        self.table.acknowledged(link)

    def test_a_half_open_link_and_its_successor_are_one(self) -> None:
        self.link(1000, 1000)
        self.link(1000, 1000)
        self.assertEqual(self.table.commit_offset(1000), -1)
        self.assertEqual(self.table.in_sync_count(1000, 100), 2)

    def test_an_ack_that_was_under_way_on_the_old_link_changes_nothing(self) -> None:
        old = self.link(900, 900)
        new = self.link(1000, 1000)
        self.ack(old, 1000)
        self.ack(new, 1000)
        self.assertEqual(self.table.commit_offset(1000), -1)

    def test_who_acknowledges_what_came_after_the_other_has_a_vote_of_its_own(self) -> None:
        one = self.link(1000, 1000)
        two = self.link(1000, 1000)
        self.ack(one, 1001)
        self.assertEqual(self.table.commit_offset(1001), 1000)
        self.ack(two, 1001)
        self.assertEqual(self.table.commit_offset(1001), 1001)

    def test_a_further_slave_doubts_the_others_as_one(self) -> None:
        self.link(1000, 0)
        self.link(1000, 0)
        self.link(1000, 1000)
        self.assertEqual(
            self.table.commit_offset(1000), 1000, "one of the first two may be the third, not both"
        )

    def test_a_slave_that_re_dials_again_and_again_is_one(self) -> None:
        for end in (1000, 1000, 1100, 1200):
            self.link(end, end)
        self.assertEqual((self.table.commit_offset(1200), self.table.in_sync_count(1200, 500)), (-1, 2))

    def test_two_slaves_that_both_re_dialled_are_two(self) -> None:
        one, two = self.link(900, 900), self.link(900, 900)
        self.ack(one, 1000)
        self.ack(two, 1000)
        self.link(1000, 1000)
        self.link(1000, 1000)
        self.assertEqual(self.table.commit_offset(1000), 1000)

    def test_before_an_append_any_word_since_tells_two_slaves_apart(self) -> None:
        one = self.link(1000, 1000)
        self.link(1000, 1000)
        self.ack(one, 1000)
        self.assertEqual((self.table.in_sync_count(1000, 100), self.table.commit_offset(1000)), (3, -1))

    def test_the_count_is_that_of_the_fewest_slaves_that_can_have_had_these_links(self) -> None:
        random = Random(1)
        for _ in range(300):
            self.table = ReplicaTable(3)
            ends = sorted(random.choices(range(6), k=random.randint(1, 5)))
            links = [Replica(self.link(random.randint(0, 6), end), n, end) for n, end in enumerate(ends)]

            def apart(old: Replica, new: Replica) -> bool:
                return old.link.ack_offset > new.log_end

            self.assertEqual(at_least(links, apart), _fewest(links, apart))


def _fewest(links: Sequence[Replica], apart: Callable[[Replica, Replica], bool]) -> int:
    """By trying: each link, oldest first, follows some slave's last one that may be its predecessor, or is new."""

    def rest(index: int, lasts: tuple[Replica, ...]) -> int:
        if index == len(links):
            return len(lasts)
        link = links[index]
        ways = [(*lasts, link)]
        ways += [
            (*lasts[:at], link, *lasts[at + 1 :]) for at, last in enumerate(lasts) if not apart(last, link)
        ]
        return min(rest(index + 1, way) for way in ways)

    return rest(0, ())

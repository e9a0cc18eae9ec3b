"""Consumers' progress."""

import json

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.consumer import consumeroffset
from hatwisted.broker.consumer.consumeroffset import (
    CHECK_GROUP,
    DELETED_SHARE,
    DELETION_KEPT,
    RECOUNT,
    ConsumerOffsetTable,
)
from hatwisted.broker.consumer.progressbody import Progress, encode_progress, parse_progress
from hatwisted.broker.delay.delayoffsets import DelayOffsets
from hatwisted.wire.layout import HALF_TOPIC, OP_HALF_TOPIC
from tests.support.examples import examples
from tests.support.golden import GOLDEN, answers

ANSWERS = answers()


class TestOffsets(SynchronousTestCase):
    def setUp(self):
        self.clock = Clock()
        self.changes = []
        self.offsets = ConsumerOffsetTable(self.clock)
        self.offsets.on_change(lambda: self.changes.append(1))

    def test_captured_files_come_out_byte_for_byte(self):
        for role in ("master", "slave"):
            content = (GOLDEN / role / "config" / "consumerOffset.json").read_bytes()
            self.offsets.decode(content)
            self.assertEqual(self.offsets.encode(), content)

    def test_commit_and_query(self):
        self.assertIsNone(self.offsets.query("g", "T", 0))
        self.offsets.commit("g", "T", 0, 5)
        self.offsets.commit("g", "T", 0, 3)
        self.assertEqual(self.offsets.query("g", "T", 0), 3)
        self.assertIsNone(self.offsets.query("g", "T", 1))
        self.assertIsNone(self.offsets.query("h", "T", 0))
        self.assertEqual(len(self.changes), 2)

    def test_B103_received_entries_overwrite_and_none_is_removed(self):
        self.offsets.commit("only-here", "T", 0, 9)
        self.offsets.commit("GoldenConsumer", "TopicB", 7, 1)
        self.offsets.take_over(ANSWERS["GET_ALL_CONSUMER_OFFSET"]["body"].encode())
        self.assertEqual(self.offsets.query("only-here", "T", 0), 9)
        self.assertEqual(self.offsets.query("GoldenConsumer", "TopicB", 2), 20)
        self.assertIsNone(self.offsets.query("GoldenConsumer", "TopicB", 7))

    def test_answer_is_the_captured_one_with_quoted_keys(self):
        self.offsets.take_over(ANSWERS["GET_ALL_CONSUMER_OFFSET"]["body"].encode())
        wanted = {"offsetTable": {"TopicB@GoldenConsumer": {"0": 20, "1": 20, "2": 20}}}
        self.assertEqual(json.loads(self.offsets.encode_compact()), wanted)

    def test_slaves_of_5x_get_a_version_that_changes_with_the_table(self):
        first = json.loads(self.offsets.encode_compact(with_version=True))["dataVersion"]
        self.clock.advance(1)
        self.offsets.commit("g", "T", 0, 1)
        second = json.loads(self.offsets.encode_compact(with_version=True))["dataVersion"]
        self.assertEqual(second, {"counter": first["counter"] + 1, "timestamp": 1000})
        self.assertEqual(json.loads(self.offsets.encode_compact(with_version=True))["dataVersion"], second)

    def test_unreadable_tables_are_refused(self):
        for broken in (
            b"",
            b"[]",
            b"{}",
            b'{"offsetTable":[]}',
            b'{"offsetTable":{"a@b":5}}',
            b'{"offsetTable":{"a":{"x":1}}}',
        ):
            self.assertRaises(ValueError, self.offsets.decode, broken)
            self.assertRaises(ValueError, self.offsets.take_over, broken)


class TestBounds(SynchronousTestCase):
    def setUp(self):
        self.clock = Clock()
        self.clock.advance(1000)
        self.table = ConsumerOffsetTable(self.clock)

    def size(self):
        return len(self.table.encode_compact(with_resets=True))

    def test_B178_what_is_sent_to_slaves_stays_below_a_frame(self):
        self.patch(consumeroffset, "MAX_BYTES", 20_000)
        self.table.commit("known", "T", 0, 5)
        for number in range(1000):
            self.table.commit(f"nobody-{number}", "T", 0, 1)
            self.table.reset(f"nobody-{number}", "T", 3, 1)
            told = Progress(offset_table={f"T@{number}": {1: 2}}, reset_table={f"U@{number}": {-1: 9}})
            self.table.join(told)
        self.assertLess(8_000, self.size())
        self.assertLess(self.size(), 20_500)
        self.table.commit("known", "T", 0, 6)
        self.assertEqual(self.table.query("known", "T", 0), 6)
        self.table.commit("known", "T", 1, 6)
        self.assertEqual(self.table.query("known", "T", 1), None)

    def test_B178_made_up_deletions_leave_room_for_progress(self):
        """A report of progress may name any row as deleted; what there's no progress of would be kept for days."""
        self.patch(consumeroffset, "MAX_BYTES", 20_000)
        for number in range(2000):
            self.table.join(Progress(offset_table={}, reset_table={f"T@nobody-{number}": {-1: 9}}))
        for number in range(50):
            self.table.commit(f"g{number}", "T", 0, 1)
        self.assertEqual(self.table.query("g49", "T", 0), 1)
        self.assertLess(len(json.dumps(self.table.progress().reset_table)), 20_000 // DELETED_SHARE)

    def test_what_is_full_is_counted_again_now_and_then_and_not_each_time(self):
        self.patch(consumeroffset, "MAX_BYTES", 2000)
        counted = []
        encode = consumeroffset.encode_progress
        self.patch(consumeroffset, "encode_progress", lambda told: counted.append(told) or encode(told))
        for number in range(1000):
            self.table.commit(f"g{number}", "T", 0, 1)
        self.assertEqual(len(counted), 1)
        self.clock.advance(RECOUNT)
        for number in range(1000):
            self.table.commit(f"g{number}", "U", 0, 1)
        self.assertEqual(len(counted), 2)

    def test_there_is_room_again_once_groups_are_deleted(self):
        self.patch(consumeroffset, "MAX_BYTES", 2000)
        for number in range(100):
            self.table.commit(f"g{number}", "T", 0, 1)
        self.assertEqual(self.table.query("g99", "T", 0), None)
        for number in range(10):
            self.table.remove_group(f"g{number}")
        self.clock.advance(DELETION_KEPT / 1000 + 1)
        self.table.encode()
        self.table.commit("g99", "T", 0, 1)
        self.assertEqual(self.table.query("g99", "T", 0), 1)

    def test_numbers_that_no_answer_could_hold_are_refused(self):
        for number in (1 << 63, -(1 << 63) - 1, 1 << 64):
            for text in ('{"offsetTable":{"T@g":{"0":%d}}}', '{"offsetTable":{"T@g":{"%d":0}}}'):
                self.assertRaises(ValueError, parse_progress, (text % number).encode())

    def test_both_ways_to_read_a_table_agree(self):
        for row in (b'"0":7,"-1":8', b"0:7,-1:8", b'"0":7.0,"-1":"8"', b'" 0":"7","-1":8'):
            known = parse_progress(b'{"offsetTable":{"T@g":{' + row + b"}}}")
            reset = parse_progress(b'{"offsetTable":{},"resetTable":{"T@g":{' + row + b"}}}")
            for table in (known.offset_table, reset.reset_table):
                self.assertEqual(table, {"T@g": {0: 7, -1: 8}}, row)


class TestJoining(SynchronousTestCase):
    """Two brokers' tables; `join` in one direction, `exchange` as a slave's round does it."""

    def setUp(self):
        self.clock = Clock()
        self.clock.advance(1000)
        self.master, self.slave = ConsumerOffsetTable(self.clock), ConsumerOffsetTable(self.clock)

    def copied(self, table):
        """The table as it arrives elsewhere, or is read after a restart."""
        return parse_progress(table.encode())

    def exchange(self, accepts=None):
        theirs = self.copied(self.master)
        self.slave.follow(theirs)
        self.master.join(parse_progress(encode_progress(self.slave.ahead_of(theirs))), accepts)

    def both(self, group="g", topic="T", queue_id=0):
        return [table.query(group, topic, queue_id) for table in (self.master, self.slave)]

    def test_B162_commits_taken_by_the_slave_come_back_and_the_masters_own_stay(self):
        self.master.commit("g", "T", 0, 100)
        self.master.commit("g", "T", 1, 7)
        self.exchange()
        self.slave.commit("g", "T", 0, 150)
        self.slave.commit("h", "U", 3, 5)
        self.master.commit("g", "T", 1, 9)
        self.exchange()
        self.assertEqual(self.both(), [150, 150])
        self.assertEqual(self.both(queue_id=1), [9, 9])
        self.assertEqual(self.both("h", "U", 3), [5, 5])

    def test_what_the_transaction_check_has_passed_is_the_masters_word_alone(self):
        """A slave that was the master knows how far it had come in a log that its successor may never have had:
        new halves stand there now, and nobody has asked about these."""
        self.master.commit(CHECK_GROUP, HALF_TOPIC, 0, 13)
        self.slave.commit(CHECK_GROUP, HALF_TOPIC, 0, 18)
        self.slave.commit(CHECK_GROUP, OP_HALF_TOPIC, 0, 9)
        self.slave.reset(CHECK_GROUP, HALF_TOPIC, 0, 17)
        before = self.copied(self.slave)
        self.exchange()
        self.assertEqual(self.both(CHECK_GROUP, HALF_TOPIC), [13, 13])
        self.assertEqual(self.both(CHECK_GROUP, OP_HALF_TOPIC), [None, None])
        self.master.join(before)
        self.assertEqual(self.both(CHECK_GROUP, HALF_TOPIC), [13, 13])

    def test_B162_nothing_is_sent_when_both_know_the_same(self):
        self.slave.commit("g", "T", 0, 150)
        self.slave.reset("g", "T", 0, 20)
        self.exchange()
        self.assertEqual(self.slave.ahead_of(self.copied(self.master)), Progress(offset_table={}))

    def test_a_reset_wins_over_a_greater_offset_on_either_side(self):
        for table in (self.master, self.slave):
            self.slave.commit("g", "T", 0, 150)
            self.exchange()
            table.reset("g", "T", 0, 20)
            self.exchange()
            self.assertEqual(self.both(), [20, 20])
            self.master.commit("g", "T", 0, 25)
            self.exchange()
            self.assertEqual(self.both(), [25, 25])

    def test_a_reset_forward_wins_over_what_the_slave_has_not_handed_back_yet(self):
        self.slave.commit("g", "T", 0, 150)
        self.master.commit("g", "T", 0, 100)
        self.master.reset("g", "T", 0, 120)
        self.exchange()
        self.assertEqual(self.both(), [120, 120])

    def test_a_step_back_is_a_reset_and_the_later_one_counts(self):
        self.master.commit("g", "T", 0, 100)
        self.exchange()
        self.slave.commit("g", "T", 0, 60)
        self.clock.advance(1)
        self.master.commit("g", "T", 0, 50)
        self.exchange()
        self.assertEqual(self.both(), [50, 50])

    def test_resets_are_later_than_the_former_even_if_the_clock_was_set_back(self):
        self.master.reset("g", "T", 0, 50)
        self.exchange()
        past = ConsumerOffsetTable(Clock())
        past.join(self.copied(self.master))
        past.reset("g", "T", 0, 10)
        self.master.join(self.copied(past))
        self.assertEqual(self.master.query("g", "T", 0), 10)

    def test_deleted_rows_do_not_come_back_from_the_slave_and_new_commits_do(self):
        for remove in (lambda: self.master.remove_group("g"), lambda: self.master.remove_topic("T")):
            for queue_id in range(3):
                self.slave.commit("g", "T", queue_id, 150)
            self.exchange()
            self.slave.commit("g", "T", 5, 1)
            self.clock.advance(1)
            remove()
            self.exchange()
            self.assertEqual([self.both(queue_id=each) for each in (0, 1, 2, 5)], [[None, None]] * 4)
            self.slave.commit("g", "T", 0, 3)
            self.exchange()
            self.assertEqual(self.both(), [3, 3])

    def test_deletions_are_forgotten_in_the_end(self):
        self.master.commit("g", "T", 0, 1)
        self.master.remove_group("g")
        self.assertIn(b"resetTable", self.master.encode())
        self.clock.advance(DELETION_KEPT / 1000 + 1)
        self.assertNotIn(b"resetTable", self.master.encode())

    def test_B140_offsets_beyond_the_masters_messages_wait_until_they_are_there(self):
        self.master.commit("g", "T", 0, 100)
        self.slave.commit("g", "T", 0, 150)
        self.exchange(lambda group, topic, queue_id, offset: offset <= 149)
        self.assertEqual(self.both(), [100, 150])
        self.exchange(lambda group, topic, queue_id, offset: offset <= 150)
        self.assertEqual(self.both(), [150, 150])

    def test_resets_survive_a_restart_of_either_side(self):
        self.slave.commit("g", "T", 0, 150)
        self.exchange()
        self.master.reset("g", "T", 0, 20)
        for table in (self.master, self.slave):
            table.decode(table.encode())
        self.exchange()
        self.assertEqual(self.both(), [20, 20])

    def test_B103_a_rocketmq_master_is_right_in_all_it_says_resets_included(self):
        self.slave.commit("g", "T", 0, 150)
        self.slave.commit("g", "T", 0, 20)
        self.slave.commit("only-here", "T", 0, 1)
        self.slave.take_over(b'{"offsetTable":{"T@g":{0:80}}}')
        self.assertEqual(
            self.slave.progress(), Progress(offset_table={"T@g": {0: 80}, "T@only-here": {0: 1}})
        )

    def test_listeners_hear_what_was_learnt(self):
        heard = []
        self.master.on_joined(lambda *queue: heard.append(queue))
        self.slave.commit("g", "T", 2, 150)
        self.exchange()
        self.exchange()
        self.assertEqual(heard, [("g", "T", 2)])

    ACTS = st.lists(
        st.tuples(
            st.sampled_from(["commit", "reset", "remove_group", "exchange", "lose"]),
            st.sampled_from([0, 1]),
            st.integers(0, 2),
            st.integers(0, 9),
        ),
        max_size=30,
    )

    @given(ACTS)
    @examples(50)
    def test_B162_any_history_converges_to_one_table_whatever_is_lost_on_the_way(self, acts):
        """`lose`: a side crashes and restarts from an older file."""
        self.setUp()
        files = [table.encode() for table in (self.master, self.slave)]
        for act, side, queue_id, offset in acts:
            self.clock.advance(0.001)
            table = (self.master, self.slave)[side]
            if act == "exchange":
                self.exchange()
            elif act == "lose":
                table.decode(files[side])
            elif act == "remove_group":
                table.remove_group("g")
            else:
                getattr(table, act)("g", "T", queue_id, offset)
            if offset == 0:
                files[side] = table.encode()
        self.exchange()
        self.exchange()
        self.assertEqual(self.master.progress().offset_table, self.slave.progress().offset_table)
        after = self.master.progress().offset_table
        self.master.join(self.copied(self.slave))
        self.assertEqual(self.master.progress().offset_table, after)


class TestAnswers(SynchronousTestCase):
    """43: slaves ask for the whole table again and again."""

    KINDS = ((False, False), (True, False), (False, True), (True, True))

    def setUp(self):
        self.clock = Clock()
        self.offsets = ConsumerOffsetTable(self.clock)
        self.encoded = []
        self.patch(
            consumeroffset, "encode_progress", lambda told: self.encoded.append(1) or encode_progress(told)
        )

    def asked(self, kind=(True, True)):
        """The answer, and whether it was encoded anew."""
        before = len(self.encoded)
        return self.offsets.encode_compact(*kind), len(self.encoded) > before

    def test_encoded_once_for_each_state_of_the_table(self):
        for number, kind in enumerate(self.KINDS):
            self.offsets.commit("g", "T", 0, number)
            first, anew = self.asked(kind)
            self.assertTrue(anew)
            self.assertEqual(self.asked(kind), (first, False))

    def test_one_answer_is_kept_each_is_its_own(self):
        self.offsets.commit("g", "T", 0, 5)
        self.offsets.reset("g", "T", 0, 4)
        self.assertEqual(len({self.asked(kind)[0] for kind in self.KINDS}), 4)
        self.assertEqual([self.asked(kind)[1] for kind in self.KINDS], [True] * 4)

    def test_every_change_is_told(self):
        theirs = Progress(offset_table={"T@h": {0: 7}}, reset_table={"T@g": {0: 10**15}})
        for change in (
            lambda: self.offsets.commit("g", "T", 0, 5),
            lambda: self.offsets.commit("g", "T", 0, 4),
            lambda: self.offsets.reset("g", "T", 0, 9),
            lambda: self.offsets.join(theirs),
            lambda: self.offsets.follow(Progress(offset_table={f"T@{CHECK_GROUP}": {0: 1}})),
            lambda: self.offsets.remove_group("h"),
            lambda: self.offsets.take_over(b'{"offsetTable":{"U@g":{"0":1}}}'),
            lambda: self.offsets.remove_topic("U"),
            lambda: self.offsets.decode(b'{"offsetTable":{"V@g":{"0":1}}}'),
        ):
            before, _ = self.asked()
            change()
            self.assertNotEqual(self.asked()[0], before)
            held = self.offsets.progress()
            self.assertEqual(self.asked((False, True))[0], encode_progress(held))

    def test_old_deletions_are_forgotten_here_too(self):
        self.offsets.commit("g", "T", 0, 5)
        self.offsets.remove_group("g")
        self.asked((False, True))
        self.clock.advance(DELETION_KEPT / 1000 + 1)
        self.offsets.encode()
        self.assertEqual(self.asked((False, True))[0], b'{"offsetTable":{}}')


class TestDelayOffsets(SynchronousTestCase):
    def test_B104_slaves_file_is_the_answer_as_received(self):
        answer = ANSWERS["GET_ALL_DELAY_OFFSET"]["body"].encode()
        delays = DelayOffsets()
        delays.take(answer)
        self.assertEqual(delays.encode(), (GOLDEN / "slave/config/delayOffset.json").read_bytes())

    def test_masters_file_is_answered_compact(self):
        delays = DelayOffsets()
        self.assertEqual(delays.encode_compact(), b'{"offsetTable":{}}')
        delays.decode((GOLDEN / "master/config/delayOffset.json").read_bytes())
        self.assertEqual(json.loads(delays.encode_compact()), {"offsetTable": {"1": 3, "2": 2}})
        self.assertRaises(ValueError, delays.take, b"nonsense")
        self.assertRaises(ValueError, delays.take, b"[]")

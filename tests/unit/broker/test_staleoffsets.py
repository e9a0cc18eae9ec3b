"""Offsets from before a loss: groups get every message that is put after it, whatever they remember."""

import json
import shutil
from pathlib import Path

from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from hatwisted.broker.consumer.staleoffsets import DOUBT, LOOK_LIMIT
from tests.unit.broker.rig import BrokerRig, records

COMMIT, QUERY, RESET, CLEAN_EXPIRED, JOIN = 15, 14, 222, 306, 20043


class StaleOffsetsCase(TestCase):
    @inlineCallbacks
    def restarted(self, *, put, kept, topic="T"):
        """A broker whose queue holds `put` messages and whose table says that group g has come to `kept`."""
        rig = BrokerRig(self)
        rig.put(topic, count=put, body=b"old")
        yield rig.stop()
        (Path(rig.root) / "lastrun").unlink()  # the store as it may be after a loss
        table = {"offsetTable": {f"{topic}@g": {0: kept}}}
        (Path(rig.root) / "config" / "consumerOffset.json").write_text(json.dumps(table))
        self.rig = BrokerRig(self, root=rig.root)

    @inlineCallbacks
    def consume(self, at):
        """What a consumer gets that goes where it's sent: bodies, until it has reached the queue's end."""
        bodies = []
        for _ in range(20):
            answer = yield self.rig.pull(at)
            bodies += [record.body for record in records(answer)]
            at = int(answer.ext["nextBeginOffset"])
            if answer.code == 19:
                return bodies
        self.fail(f"a consumer goes in circles at {at}")

    def commit(self, offset):
        return self.rig.ask(COMMIT, consumerGroup="g", topic="T", queueId=0, commitOffset=offset)

    @inlineCallbacks
    def known(self):
        answer = yield self.rig.ask(QUERY, consumerGroup="g", topic="T", queueId=0)
        return int(answer.ext["offset"])


class AfterALossTests(StaleOffsetsCase):
    @inlineCallbacks
    def test_B165_progress_beyond_its_queue_comes_back_to_the_end_at_start(self):
        yield self.restarted(put=50, kept=100)
        self.assertEqual((yield self.known()), 50)
        self.rig.put(count=45, body=b"new")
        self.assertEqual((yield self.consume((yield self.known()))), [b"new"] * 45)

    @inlineCallbacks
    def test_B165_that_counts_as_a_reset_for_the_other_broker(self):
        yield self.restarted(put=50, kept=100)
        self.assertGreater(self.rig.tables.offsets.progress().reset_of("T@g", 0), 0)

    @inlineCallbacks
    def test_B165_a_consumer_that_remembers_a_lost_offset_is_sent_back(self):
        yield self.restarted(put=50, kept=40)
        self.rig.put(count=80, body=b"new")
        got = yield self.consume(100)
        self.assertEqual(got, [b"old"] * 10 + [b"new"] * 80)

    @inlineCallbacks
    def test_B165_who_is_sent_back_costs_no_read_of_the_log(self):
        """Nor can a damaged record at the place that it's sent to stand in its way."""
        yield self.restarted(put=50, kept=40)
        self.patch(self.rig.store.log, "read", lambda offset, limit: self.fail("the log is read"))
        answer = yield self.rig.pull(100)
        self.assertEqual(
            (answer.code, answer.ext["nextBeginOffset"], answer.ext["maxOffset"]), (21, "40", "50")
        )

    @inlineCallbacks
    def test_B165_and_what_it_commits_of_that_is_no_progress(self):
        yield self.restarted(put=50, kept=40)
        self.rig.put(count=80, body=b"new")
        yield self.commit(100)
        yield self.rig.pull(60, flags=5, commitOffset=60)
        self.assertEqual((yield self.known()), 40)

    def slave_says(self, offset):
        """As a slave's round does it, which comes again and again."""
        body = json.dumps({"offsetTable": {"T@g": {0: offset}}}).encode()
        return self.rig.ask(JOIN, body=body)

    @inlineCallbacks
    def test_B165_nor_is_what_a_slave_knows_of_it_once_as_much_is_there_again(self):
        yield self.restarted(put=50, kept=40)
        yield self.slave_says(100)
        self.rig.put(count=80, body=b"new")
        yield self.slave_says(100)
        self.assertEqual((yield self.known()), 40)
        yield self.slave_says(45)
        self.assertEqual((yield self.known()), 45)

    @inlineCallbacks
    def test_B165_nor_when_the_group_has_pulled_what_was_there_at_start(self):
        yield self.restarted(put=50, kept=40)
        self.rig.put(count=80, body=b"new")
        yield self.rig.pull(50)
        yield self.slave_says(100)
        self.assertEqual((yield self.known()), 40)
        yield self.commit(60)
        yield self.slave_says(100)
        self.assertEqual((yield self.known()), 60)

    @inlineCallbacks
    def test_B165_nor_are_the_last_words_of_who_held_the_queue_before(self):
        yield self.restarted(put=50, kept=40)
        self.rig.put(count=80, body=b"new")
        before = self.rig.new_client()
        late = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 100}
        for at in (50, 60):
            yield self.rig.pull(at)
            yield self.rig.ask(COMMIT, client=before, **late)
            self.assertEqual((yield self.known()), 40)
        yield self.commit(60)
        yield self.rig.ask(COMMIT, client=before, **late)
        self.assertEqual((yield self.known()), 60)
        answer = yield self.rig.pull(100, client=before)
        self.assertEqual((answer.code, answer.ext["nextBeginOffset"]), (21, "60"))
        yield self.rig.pull(60, client=before)
        yield self.rig.ask(COMMIT, client=before, **late)
        self.assertEqual((yield self.known()), 100)

    @inlineCallbacks
    def test_whoever_has_pulled_what_was_there_at_start_goes_on(self):
        yield self.restarted(put=50, kept=40)
        self.rig.put(count=80, body=b"new")
        yield self.rig.pull(50)
        answer = yield self.rig.pull(90)
        self.assertEqual((answer.code, len(records(answer))), (0, 32))
        yield self.commit(90)
        self.assertEqual((yield self.known()), 90)

    @inlineCallbacks
    def test_after_a_while_a_new_connection_costs_nothing(self):
        """It would be sent back to what its group has committed, each time, for as long as the master runs."""
        yield self.restarted(put=50, kept=40)
        self.rig.put(count=80, body=b"new")
        yield self.rig.pull(50)
        for _ in range(int(DOUBT / LOOK_LIMIT)):
            self.assertEqual((yield self.rig.pull(100, client=self.rig.new_client())).code, 21)
            self.rig.clock.advance(LOOK_LIMIT)
        again = self.rig.new_client()
        yield self.rig.ask(COMMIT, client=again, consumerGroup="g", topic="T", queueId=0, commitOffset=90)
        self.assertEqual((yield self.known()), 90)
        self.assertEqual((yield self.rig.pull(100, client=again)).code, 0)

    @inlineCallbacks
    def test_a_clock_that_leaps_makes_nobody_believed(self):
        yield self.restarted(put=50, kept=40)
        self.rig.put(count=80, body=b"new")
        yield self.rig.pull(50)
        self.rig.clock.advance(100 * 24 * 3600)
        again = self.rig.new_client()
        yield self.rig.ask(COMMIT, client=again, consumerGroup="g", topic="T", queueId=0, commitOffset=90)
        self.assertEqual((yield self.known()), 40)
        self.assertEqual((yield self.rig.pull(100, client=again)).code, 21)

    @inlineCallbacks
    def test_an_operators_reset_counts_at_once(self):
        yield self.restarted(put=50, kept=40)
        self.rig.put(count=80, body=b"new")
        self.rig.tables.offsets.reset("g", "T", 0, 120)
        answer = yield self.rig.pull(120)
        self.assertEqual((answer.code, len(records(answer))), (0, 10))

    @inlineCallbacks
    def test_B165_nor_do_the_commits_by_which_tools_reset_a_group_that_is_offline_look_stale(self):
        """They ask the broker first, which refers them to commits."""
        yield self.restarted(put=50, kept=40)
        self.rig.put(count=80, body=b"new")
        yield self.commit(130)
        self.assertEqual((yield self.known()), 40)
        yield self.rig.ask(RESET, topic="T", group="g", timestamp=-1, isForce="true")
        yield self.commit(130)
        self.assertEqual((yield self.known()), 130)

    @inlineCallbacks
    def test_a_group_without_progress_begins_where_it_likes(self):
        yield self.restarted(put=50, kept=40)
        self.rig.put(count=80, body=b"new")
        answer = yield self.rig.pull(120, group="fresh")
        self.assertEqual((answer.code, len(records(answer))), (0, 10))

    @inlineCallbacks
    def test_B165_a_queue_that_the_log_has_no_record_of(self):
        """As on a slave with the last file only, made the master: the queue's numbering begins at 0."""
        yield self.restarted(put=5, kept=30, topic="idle")
        yield self.rig.stop()
        config = Path(self.rig.root) / "config" / "consumerOffset.json"
        config.write_text(json.dumps({"offsetTable": {"T@g": {0: 30}}}))
        self.rig = BrokerRig(self, root=self.rig.root)
        self.rig.put(count=10, body=b"new")
        self.assertEqual((yield self.consume((yield self.known()))), [b"new"] * 10)


class WithoutALossTests(StaleOffsetsCase):
    """A master that has come back with all it had, while the group read later messages from a slave."""

    @inlineCallbacks
    def again(self, *, boot, killed=True, first_boot="monday"):
        rig = BrokerRig(self, boot=first_boot)
        rig.put("T", count=50)
        if not killed:
            yield rig.stop()
        root = Path(self.mktemp()).absolute()
        shutil.copytree(rig.root, root)
        (root / "config").mkdir(exist_ok=True)
        (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": {"T@g": {0: 40}}}))
        self.rig = BrokerRig(self, root=str(root), boot=boot)
        self.rig.put(count=80, body=b"new")
        answer = yield self.rig.pull(90)
        yield self.commit(90)
        return answer.code, (yield self.known())

    BELIEVED, SENT_BACK = (0, 90), (21, 40)

    @inlineCallbacks
    def test_B165_a_killed_process_has_lost_nothing(self):
        self.assertEqual((yield self.again(boot="monday")), self.BELIEVED)

    @inlineCallbacks
    def test_B165_a_crashed_system_may_have(self):
        self.assertEqual((yield self.again(boot="tuesday")), self.SENT_BACK)

    @inlineCallbacks
    def test_B165_nor_does_one_count_that_cant_name_its_boots(self):
        self.assertEqual((yield self.again(first_boot="", boot="")), self.SENT_BACK)

    @inlineCallbacks
    def test_B165_an_orderly_stop_loses_nothing(self):
        self.assertEqual((yield self.again(boot="tuesday", killed=False)), self.BELIEVED)


class EmptiedQueueTests(StaleOffsetsCase):
    @inlineCallbacks
    def test_B165_numbering_goes_on_when_all_of_a_queue_has_expired(self):
        rig = self.rig = BrokerRig(self)
        rig.put(count=30)
        yield self.commit(30)
        rig.put("Long", body=bytes(1_000_000), count=2)
        rig.store.log.files.delete_before(1 << 20)
        self.assertEqual((yield rig.ask(CLEAN_EXPIRED)).code, 0)
        rig.put(count=10, body=b"new")
        self.assertEqual((yield self.consume(30)), [b"new"] * 10)

    @inlineCallbacks
    def test_a_topic_that_is_no_more_leaves_nothing_behind(self):
        rig = self.rig = BrokerRig(self)
        rig.put(count=30)
        yield self.commit(30)
        rig.put("Long", body=bytes(1_000_000), count=2)
        rig.store.log.files.delete_before(1 << 20)
        rig.tables.topics.delete("T")
        self.assertEqual((yield rig.ask(CLEAN_EXPIRED)).code, 0)
        self.assertIsNone(rig.store.queues.find("T", 0))
        rig.put(count=10, body=b"new")
        self.assertEqual((yield self.consume((yield self.known()))), [b"new"] * 10)

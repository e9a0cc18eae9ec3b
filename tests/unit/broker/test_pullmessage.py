"""Pulls through the whole broker, from a real store, on master and slave."""

import json

from msgspec.structs import replace
from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from hatwisted.broker.consumer.subscriptiongroup import GroupConfig
from hatwisted.broker.pull import pullmessage
from hatwisted.broker.pull.pullmessage import MAX_BYTES, MAX_COUNT, PullOptions
from hatwisted.wire.registration import TopicConfig
from tests.unit.broker.rig import BrokerRig, heartbeat, records


class PullCase(TestCase):
    def start(self, **options):
        self.rig = BrokerRig(self, **options)
        return self.rig

    def seen(self, answer):
        """Code, remark, next offset, min, max, number of messages."""
        ext = answer.ext
        bounds = tuple(int(ext[name]) for name in ("nextBeginOffset", "minOffset", "maxOffset"))
        return (answer.code, answer.remark, *bounds, len(records(answer)))


class TestAnswers(PullCase):
    @inlineCallbacks
    def test_found_messages_are_the_stored_records(self):
        rig = self.start()
        rig.put(body=b"one", tag="a")
        rig.put(body=b"two", tag="b")
        answer = yield rig.pull(0)
        self.assertEqual(self.seen(answer), (0, "FOUND", 2, 0, 2, 2))
        self.assertEqual(answer.body, rig.store.log.read(0, 1 << 20))
        self.assertEqual([record.body for record in records(answer)], [b"one", b"two"])
        self.assertEqual(answer.ext["suggestWhichBrokerId"], "0")

    @inlineCallbacks
    def test_lite_pull_is_answered_alike(self):
        rig = self.start()
        rig.put()
        answer = yield rig.pull(0, code=361)
        self.assertEqual(self.seen(answer), (0, "FOUND", 1, 0, 1, 1))

    @inlineCallbacks
    def test_statuses_of_offsets_without_a_message(self):
        rig = self.start()
        rig.put(count=3)
        wanted = {
            (3, 0): (19, "OFFSET_OVERFLOW_ONE", 3, 0, 3, 0),
            (9, 0): (21, "OFFSET_OVERFLOW_BADLY", 3, 0, 3, 0),
            (-1, 0): (21, "OFFSET_TOO_SMALL", 0, 0, 3, 0),
            (0, 1): (19, "NO_MATCHED_LOGIC_QUEUE", 0, 0, 0, 0),
            (5, 1): (21, "NO_MATCHED_LOGIC_QUEUE", 0, 0, 0, 0),
        }
        for (offset, queue_id), outcome in wanted.items():
            answer = yield rig.pull(offset, queue_id)
            self.assertEqual(self.seen(answer), outcome, (offset, queue_id))

    @inlineCallbacks
    def test_limits_of_one_answer(self):
        rig = self.start()
        rig.put(count=40)
        self.assertEqual(self.seen((yield rig.pull(0, maxMsgNums=64)))[-1], MAX_COUNT)
        self.assertEqual(self.seen((yield rig.pull(0, maxMsgNums=5)))[2:], (5, 0, 40, 5))
        self.assertEqual(self.seen((yield rig.pull(0, maxMsgNums=0)))[-1], 1)
        self.assertEqual(self.seen((yield rig.pull(0, maxMsgBytes=300)))[-1], 3)
        rig.put(queue_id=1, body=b"x" * 70_000, count=5)
        self.assertEqual(self.seen((yield rig.pull(2, queue_id=1)))[-1], MAX_BYTES // 70_000)

    @inlineCallbacks
    def test_old_messages_come_in_smaller_answers(self):
        rig = self.start(memory_bytes=100_000)
        rig.put(count=40)
        rig.put(queue_id=1, body=b"x" * 50_000, count=3)
        self.assertEqual(self.seen((yield rig.pull(0)))[-1], 8)

    @inlineCallbacks
    def test_binary_requests_get_binary_answers(self):
        rig = self.start()
        rig.put()
        answer = yield rig.pull(0)
        self.assertFalse(answer.binary)
        call = rig.client.call
        rig.client.call = lambda address, request, timeout: call(
            address, replace(request, binary=True), timeout
        )
        answer = yield rig.pull(0)
        self.assertTrue(answer.binary)
        self.assertEqual(self.seen(answer), (0, "FOUND", 1, 0, 1, 1))

    @inlineCallbacks
    def test_flag_1_commits_progress_on_a_master_only(self):
        for slave, wanted in ((False, 7), (True, None)):
            rig = self.start(slave=slave)
            rig.put(count=9)
            yield rig.pull(8, flags=5, commitOffset=7)
            self.assertEqual(rig.tables.offsets.query("g", "T", 0), wanted)
            yield rig.pull(8, flags=5, commitOffset=-1)
            yield rig.pull(8, flags=4, commitOffset=8)
            self.assertEqual(rig.tables.offsets.query("g", "T", 0), wanted)

    @inlineCallbacks
    def test_B119_slow_reader_is_sent_to_a_slave_only_with_slave_read_enable(self):
        for enabled, wanted in ((False, "0"), (True, "1")):
            rig = self.start(slave_read_enable=enabled, slow_distance=500)
            rig.put(count=40)
            answer = yield rig.pull(0, maxMsgNums=1)
            self.assertEqual(answer.ext["suggestWhichBrokerId"], wanted)
            answer = yield rig.pull(38)
            self.assertEqual(answer.ext["suggestWhichBrokerId"], "0")

    @inlineCallbacks
    def test_B119_slow_is_more_than_the_distance_and_the_group_says_which_slave(self):
        rig = self.start(slave_read_enable=True)
        rig.put(count=4)
        end = rig.store.log.max_offset
        rig.tables.groups.put(GroupConfig(group_name="g", which_broker_when_consume_slowly=3))
        for distance, wanted in ((end, "0"), (end - 1, "3")):
            options = PullOptions(role=rig.parts.role, slave_read_enable=True, slow_distance=distance)
            self.patch(rig.pulls, "_options", lambda given=options: given)
            answer = yield rig.pull(0, maxMsgNums=1)
            self.assertEqual(answer.ext["suggestWhichBrokerId"], wanted)


class TestRefusals(PullCase):
    @inlineCallbacks
    def refused(self, code, remark, **kwargs):
        answer = yield self.rig.pull(**kwargs)
        self.assertEqual(answer.code, code)
        self.assertIn(remark, answer.remark)

    @inlineCallbacks
    def test_missing_or_bad_field(self):
        self.start()
        answer = yield self.rig.ask(11, topic="T")
        self.assertEqual((answer.code, answer.remark), (1, "request field consumerGroup is missing"))
        yield self.refused(1, "queueId", queueId="x")

    @inlineCallbacks
    def test_unknown_topic_and_queue(self):
        self.start()
        yield self.refused(17, "topic[Nowhere] not exist", topic="Nowhere")
        self.rig.put()
        yield self.refused(1, "queueId[4] is illegal", queue_id=4)
        yield self.refused(1, "queueId[-1] is illegal", queue_id=-1)

    @inlineCallbacks
    def test_permissions(self):
        self.start()
        self.rig.tables.topics.put(TopicConfig(topic_name="T", perm=2))
        yield self.refused(16, "the topic[T] pulling message is forbidden")
        self.rig.tables.groups.put(GroupConfig(group_name="g", consume_enable=False))
        yield self.refused(16, "subscription group no permission, g")
        self.start(broker_permission=2)
        yield self.refused(16, "the broker pulling message is forbidden")

    @inlineCallbacks
    def test_unknown_group_that_may_not_be_made(self):
        self.start()
        yield self.refused(26, "does not exist", group="")

    @inlineCallbacks
    def test_filter_expressions_are_not_supported(self):
        self.start()
        self.rig.put()
        yield self.refused(1, "SQL92", expressionType="SQL92", subscription="a > 5")


class TestSubscriptions(PullCase):
    @inlineCallbacks
    def test_tags_of_the_request(self):
        rig = self.start()
        for tag in ("red", "green", "blue", None):
            rig.put(tag=tag, body=(tag or "none").encode())
        answer = yield rig.pull(0, subscription="red || blue")
        self.assertEqual(self.seen(answer), (0, "FOUND", 4, 0, 4, 2))
        self.assertEqual([record.body for record in records(answer)], [b"red", b"blue"])
        answer = yield rig.pull(0, subscription="black")
        self.assertEqual(self.seen(answer), (20, "NO_MATCHED_MESSAGE", 4, 0, 4, 0))

    @inlineCallbacks
    def test_tags_of_the_heartbeat(self):
        rig = self.start()
        rig.put(tag="red")
        rig.put(tag="blue")
        answer = yield rig.pull(0, flags=0)
        self.assertEqual((answer.code, answer.remark), (24, "the consumer's group info not exist"))
        yield self.beat("U", 5)
        answer = yield rig.pull(0, flags=0)
        self.assertEqual((answer.code, answer.remark), (24, "the consumer's subscription not exist"))
        yield self.beat("T", 5)
        answer = yield rig.pull(0, flags=0, subVersion=6)
        self.assertEqual((answer.code, answer.remark), (25, "the consumer's subscription not latest"))
        answer = yield rig.pull(0, flags=0, subVersion=5)
        self.assertEqual(self.seen(answer), (0, "FOUND", 2, 0, 2, 1))

    @inlineCallbacks
    def test_broadcasting_needs_the_groups_leave(self):
        rig = self.start()
        rig.put()
        rig.tables.groups.put(GroupConfig(group_name="g", consume_broadcast_enable=False))
        yield self.beat("T", 5, messageModel="BROADCASTING")
        answer = yield rig.pull(0, flags=0)
        self.assertEqual(answer.code, 16)

    def beat(self, topic, version, **more):
        return self.rig.ask(34, json.dumps(heartbeat("c1", "g", {topic: ("blue", version)}, **more)).encode())


class TestHolding(PullCase):
    @inlineCallbacks
    def test_held_until_a_message_arrives(self):
        rig = self.start()
        rig.put()
        (answer,) = yield rig.held(1)
        rig.put(body=b"new", count=3)
        self.assertEqual(self.seen((yield answer)), (0, "FOUND", 4, 0, 4, 3))

    @inlineCallbacks
    def test_B177_what_is_held_of_a_request_is_what_its_answer_needs(self):
        rig = self.start()
        rig.put()
        held = []
        hold = rig.hold.hold
        rig.hold.hold = lambda pull, seconds: held.append(pull) or hold(pull, seconds)
        ask = rig.ask
        rig.ask = lambda code, **more: ask(code, bytes(1 << 16), unknown="x" * 100_000, **more)
        (answer,) = yield rig.held(1)
        (pull,) = held
        self.assertEqual((pull.request.body, pull.request.ext), (b"", {"consumerGroup": "g"}))
        rig.put(body=b"new")
        self.assertEqual(self.seen((yield answer)), (0, "FOUND", 2, 0, 2, 1))

    @inlineCallbacks
    def test_held_on_a_queue_that_does_not_exist_yet(self):
        rig = self.start()
        rig.put(queue_id=1)
        (answer,) = yield rig.held(0)
        rig.put(queue_id=0)
        self.assertEqual(self.seen((yield answer)), (0, "FOUND", 1, 0, 1, 1))

    @inlineCallbacks
    def test_held_over_foreign_tags_until_one_matches(self):
        rig = self.start()
        rig.put(tag="red")
        (answer,) = yield rig.held(1, subscription="blue")
        rig.put(tag="red", count=5)
        self.assertFalse(answer.called)
        self.assertEqual(rig.hold.count, 1)
        rig.put(tag="blue")
        answer = yield answer
        self.assertEqual(self.seen(answer), (0, "FOUND", 7, 0, 7, 1))

    @inlineCallbacks
    def test_time_up_after_foreign_tags_tells_how_far_was_looked(self):
        rig = self.start()
        rig.put(tag="red")
        (answer,) = yield rig.held(1, subscription="blue")
        rig.put(tag="red", count=5)
        rig.clock.advance(16)
        self.assertEqual(self.seen((yield answer)), (19, "OFFSET_OVERFLOW_ONE", 6, 0, 6, 0))

    @inlineCallbacks
    def test_time_up(self):
        rig = self.start()
        rig.put()
        (answer,) = yield rig.held(1, hold=5)
        rig.clock.advance(4)
        self.assertFalse(answer.called)
        rig.clock.advance(2)
        self.assertEqual(self.seen((yield answer)), (19, "OFFSET_OVERFLOW_ONE", 1, 0, 1, 0))

    @inlineCallbacks
    def test_what_is_not_held(self):
        rig = self.start()
        rig.put()
        for answer in (
            (yield rig.pull(1)),
            (yield rig.pull(1, flags=6)),
            (yield rig.pull(0, subscription="blue", hold=15)),
            (yield rig.pull(9, hold=15)),
        ):
            self.assertIn(answer.code, (19, 20, 21))
        self.assertEqual(rig.hold.count, 0)

    @inlineCallbacks
    def test_short_polling(self):
        rig = self.start(long_polling_enable=False)
        rig.put()
        (answer,) = yield rig.held(1, hold=15)
        rig.clock.advance(2)
        self.assertEqual((yield answer).code, 19)

    @inlineCallbacks
    def test_closed_connection_is_forgotten(self):
        rig = self.start()
        rig.put()
        client = rig.new_client()
        (answer,) = yield rig.held(1, client=client)
        answer.addErrback(lambda _: None)
        yield client.close()
        yield rig.until(lambda: rig.hold.count == 0)
        rig.put()

    @inlineCallbacks
    def test_failing_read_is_answered(self):
        rig = self.start()
        rig.put()
        (answer,) = yield rig.held(1)
        rig.pulls._read = lambda *_: 1 // 0
        rig.put()
        answer = yield answer
        self.assertEqual((answer.code, answer.remark.split(":")[0]), (1, "ZeroDivisionError"))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class TestSlave(PullCase):
    @inlineCallbacks
    def test_B121_found_messages_are_served_with_slave_read_enable_off(self):
        rig = self.start(slave=True)
        rig.put()
        answer = yield rig.pull(0)
        self.assertEqual(self.seen(answer), (0, "FOUND", 1, 0, 1, 1))
        self.assertEqual(answer.ext["suggestWhichBrokerId"], "0")

    @inlineCallbacks
    def test_B121_offsets_out_of_range_are_not_corrected(self):
        rig = self.start(slave=True)
        rig.put()
        answer = yield rig.pull(9)
        self.assertEqual(self.seen(answer), (20, "OFFSET_OVERFLOW_BADLY", 9, 0, 1, 0))

    @inlineCallbacks
    def test_B118_what_a_slave_lacks_is_looked_for_at_the_master_at_once(self):
        rig = self.start(slave=True, slave_read_enable=True, slow_distance=0)
        rig.put(count=3)
        for offset in (5, 7):  # the master goes on sending it here, each time for what comes next
            answer = yield rig.pull(offset, hold=15)
            self.assertEqual(self.seen(answer), (20, "OFFSET_OVERFLOW_BADLY", offset, 0, 3, 0))
            self.assertEqual(answer.ext["suggestWhichBrokerId"], "0")

    @inlineCallbacks
    def test_consumer_ahead_of_its_slave_waits_for_it_instead_of_asking_in_a_loop(self):
        rig = self.start(slave=True)
        rig.put()
        self.assertEqual((yield rig.pull(3, hold=15)).code, 20)
        (answer,) = yield rig.held(3)
        rig.put(count=2)
        self.assertFalse(answer.called)
        rig.put(body=b"caught up")
        self.assertEqual(self.seen((yield answer)), (0, "FOUND", 4, 0, 4, 1))
        self.assertEqual((yield rig.pull(9, hold=15)).code, 20)
        (answer,) = yield rig.held(9)
        rig.clock.advance(16)
        self.assertEqual(self.seen((yield answer)), (19, "OFFSET_OVERFLOW_BADLY", 9, 0, 4, 0))

    @inlineCallbacks
    def test_of_many_that_were_sent_to_the_master_so_many_are_remembered(self):
        for most, waits in ((2, True), (1, False)):
            rig = self.start(slave=True)
            rig.put()
            self.patch(pullmessage, "MAX_SENT_ON", most)
            for group in ("g", "h"):
                self.assertEqual((yield rig.pull(3, group=group, hold=15)).code, 20)
            if waits:
                (again,) = yield rig.held(3)
                rig.clock.advance(16)
                yield again
            else:
                self.assertEqual((yield rig.pull(3, group="g", hold=15)).code, 20)

    @inlineCallbacks
    def test_B96_long_poll_on_a_slave_is_answered_within_5_s_even_if_arrivals_go_unannounced(self):
        rig = self.start(slave=True)
        rig.put()
        rig.store._listeners.clear()
        (answer,) = yield rig.held(1)
        rig.put()
        self.assertFalse(answer.called)
        rig.clock.advance(5)
        rig.turn()
        self.assertEqual(self.seen((yield answer))[0], 0)

    @inlineCallbacks
    def test_unknown_group_is_served_without_being_made(self):
        rig = self.start(slave=True)
        rig.put()
        answer = yield rig.pull(0, group="new")
        self.assertEqual(answer.code, 0)
        self.assertNotIn("new", rig.tables.groups.table().subscription_group_table)

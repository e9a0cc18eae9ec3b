"""SQL92 filters of a whole broker: checks, heartbeats, pulls with and without their own expression, waiting."""

import json

from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from hatwisted.store.log.put import Put
from hatwisted.store.queue import reading
from hatwisted.wire import layout
from hatwisted.wire.properties import encode_properties
from tests.unit.broker.rig import HOST, BrokerRig, records

BIG = "price > 100 AND TAGS = 'red'"


class SqlCase(TestCase):
    def start(self, enabled=True, retry=False, **options):
        self.rig = BrokerRig(self, **options)
        self.rig.tables.filters.enabled = enabled
        self.rig.tables.filters.support_retry = retry
        return self.rig

    def put(self, *messages, topic="T", body=b"body"):
        """Append messages with these properties and dispatch them."""
        self.rig.tables.topics.for_send(topic, "TBW102", 4)
        for properties in messages:
            raw = encode_properties(properties)
            put = Put(topic, 0, ((0, body, raw),), HOST, int(self.rig.clock.seconds() * 1000))
            self.rig.store.append([put])
            self.assertGreaterEqual(put.end, 0, put.reason)
        self.rig.turn()

    def put_prices(self, *prices, **more):
        self.put(*({"TAGS": "red", "price": str(price), **more} for price in prices))

    def prices(self, answer):
        return [record.properties["price"] for record in records(answer)]

    def pull(self, offset=0, expression=BIG, kind="SQL92", **more):
        return self.rig.pull(offset, subscription=expression, expressionType=kind, **more)

    def pull_known(self, offset=0, version=1, **more):
        """A pull that relies on the heartbeat's expression."""
        return self.rig.pull(offset, flags=0, expressionType="SQL92", subVersion=version, **more)

    def beat(self, expression=BIG, version=1, kind="SQL92", topic="T", client=None):
        data = {"topic": topic, "subString": expression, "expressionType": kind, "subVersion": version}
        group = {"groupName": "g", "subscriptionDataSet": [data]}
        return self.rig.ask(34, json.dumps({"clientID": "c", "consumerDataSet": [group]}).encode(), client)

    def seen(self, answer):
        return answer.code, answer.remark, int(answer.ext["nextBeginOffset"]), self.prices(answer)

    @inlineCallbacks
    def refused(self, code, remark, asked):
        answer = yield asked
        self.assertEqual(answer.code, code, answer.remark)
        self.assertIn(remark, answer.remark)


class TestCheckClient(SqlCase):
    def check(self, **subscription):
        body = {"clientId": "c", "group": "g", "subscriptionData": subscription, "namespace": ""}
        return self.rig.ask(46, json.dumps(body).encode())

    @inlineCallbacks
    def test_expressions_are_checked_before_a_consumer_starts(self):
        self.start()
        answer = yield self.check(topic="T", expressionType="SQL92", subString=BIG)
        self.assertEqual(answer.code, 0)
        bad = self.check(topic="T", expressionType="SQL92", subString="price > 'x'")
        yield self.refused(23, "at line 1, column 7", bad)
        yield self.refused(23, "unknown expression type FOO", self.check(expressionType="FOO", subString="a"))
        yield self.refused(23, "Invalid MessageSelector", self.check(expressionType="SQL92"))

    @inlineCallbacks
    def test_off_unless_enable_property_filter(self):
        self.start(enabled=False)
        remark = "The broker does not support consumer to filter message by SQL92"
        yield self.refused(1, remark, self.check(expressionType="SQL92", subString=BIG))
        for subscription in ({"expressionType": "TAG"}, {"expressionType": ""}, {}):
            answer = yield self.check(subString="#", **subscription)
            self.assertEqual(answer.code, 0)
        answer = yield self.rig.ask(46, b"{}")
        self.assertEqual(answer.code, 0)


class TestPulls(SqlCase):
    @inlineCallbacks
    def test_only_matching_messages_come_and_the_rest_is_passed_over(self):
        self.start()
        self.put_prices(50, 150, 99, 200)
        self.put({"TAGS": "blue", "price": "500"}, {"TAGS": "red"}, {"TAGS": "red", "price": "dear"})
        answer = yield self.pull()
        self.assertEqual(self.seen(answer), (0, "FOUND", 7, ["150", "200"]))
        answer = yield self.pull(4)
        self.assertEqual(self.seen(answer), (20, "NO_MATCHED_MESSAGE", 7, []))

    @inlineCallbacks
    def test_limits_of_an_answer_stop_behind_its_last_message(self):
        self.start()
        self.put_prices(*[200, 50, 50] * 40)
        answer = yield self.pull(maxMsgNums=3)
        self.assertEqual(self.seen(answer), (0, "FOUND", 7, ["200"] * 3))
        answer = yield self.pull()
        self.assertEqual((len(records(answer)), answer.ext["nextBeginOffset"]), (32, "94"))
        answer = yield self.pull(maxMsgBytes=1)
        self.assertEqual(self.seen(answer), (0, "FOUND", 1, ["200"]))

    @inlineCallbacks
    def test_one_pull_looks_into_a_limited_number_of_bytes(self):
        self.start()
        self.patch(reading, "MAX_FILTER_READ", 3000)
        self.patch(reading, "SIFT_COUNT", 4)
        self.put_prices(*[1] * 100)
        answer = yield self.pull()
        code, remark, offset, prices = self.seen(answer)
        self.assertEqual((code, remark, prices), (20, "NO_MATCHED_MESSAGE", []))
        self.assertTrue(10 < offset < 40, offset)

    @inlineCallbacks
    def test_a_long_expression_looks_at_fewer_messages(self):
        self.start()
        self.put_prices(*[1] * 100)
        long = " OR ".join(f"price = {number}" for number in range(2, 1000))
        self.assertEqual(self.seen((yield self.pull(expression=long)))[2], 32)
        self.assertEqual(self.seen((yield self.pull(expression="price = 2")))[2], 100)

    @inlineCallbacks
    def test_a_slave_filters_too(self):
        self.start(slave=True)
        self.put_prices(50, 150)
        self.assertEqual(self.seen((yield self.pull())), (0, "FOUND", 2, ["150"]))
        yield self.beat()
        self.assertEqual(self.seen((yield self.pull_known())), (0, "FOUND", 2, ["150"]))

    @inlineCallbacks
    def test_off_unless_enable_property_filter(self):
        self.start(enabled=False)
        self.put_prices(150)
        remark = "The broker does not support consumer to filter message by "
        yield self.refused(1, remark + "SQL92", self.pull())
        yield self.refused(1, remark + "FOO", self.pull(kind="FOO"))
        yield self.beat()
        yield self.refused(1, remark + "SQL92", self.pull_known())

    @inlineCallbacks
    def test_broken_expression_that_a_pull_brings_lets_everything_through_as_in_4_9_7(self):
        self.start()
        self.put_prices(50, 150)
        for expression, kind in (("price >", "SQL92"), ("price > 100", "FOO")):
            answer = yield self.pull(expression=expression, kind=kind)
            self.assertEqual(self.seen(answer), (0, "FOUND", 2, ["50", "150"]))
        yield self.refused(23, "parse the consumer's subscription failed", self.pull(expression=""))

    @inlineCallbacks
    def test_IPv6_hosts_and_big_bodies_are_looked_into(self):
        self.start()
        host = bytes(15) + b"\x01" + b"\0\0\x2a\x9f"
        self.rig.tables.topics.for_send("T", "TBW102", 4)
        for price in (b"50", b"150"):
            properties = b"TAGS\x01red\x02price\x01" + price + b"\x02"
            entries = ((0, b"x" * 100_000, properties),)
            self.rig.store.append([Put("T", 0, entries, host, 0, layout.SYS_BORN_HOST_V6)])
        self.rig.turn()
        self.assertEqual(self.seen((yield self.pull())), (0, "FOUND", 2, ["150"]))


class TestHeartbeats(SqlCase):
    @inlineCallbacks
    def test_expression_of_the_heartbeat_counts(self):
        self.start()
        self.put_prices(50, 150)
        yield self.beat()
        self.assertEqual(self.seen((yield self.pull_known())), (0, "FOUND", 2, ["150"]))
        yield self.beat("price < 100", version=2)
        self.assertEqual(self.seen((yield self.pull_known(version=2))), (0, "FOUND", 2, ["50"]))

    @inlineCallbacks
    def test_broken_expression_leaves_no_filter(self):
        for enabled in (True, False):
            self.start(enabled=enabled)
            self.put_prices(150)
            yield self.beat("price >")
            yield self.refused(27, "The broker's consumer filter data is not exist!", self.pull_known())
            yield self.beat(version=2)
            self.assertEqual((yield self.pull_known(version=2)).code, 0 if enabled else 1)
            yield self.beat("price >", version=3)
            yield self.refused(27, "Your expression may be wrong!", self.pull_known(version=3))

    @inlineCallbacks
    def test_filter_older_than_the_pull_is_reported(self):
        self.start()
        self.put_prices(150)
        yield self.beat()
        self.rig.consumers.clients.consumers["g"].subscriptions["T"] = None
        yield self.refused(24, "the consumer's subscription not exist", self.pull_known(version=2))
        yield self.beat(version=7)
        self.rig.tables.filters.find("T", "g").version = 6
        yield self.refused(28, "the consumer's consumer filter data not latest", self.pull_known(version=7))
        self.assertEqual((yield self.pull_known(version=6)).code, 0)

    @inlineCallbacks
    def test_departed_group_leaves_its_filter_dead(self):
        self.start()
        client = self.rig.new_client()
        yield self.beat(client=client)
        known = self.rig.tables.filters.find("T", "g")
        self.assertFalse(known.dead)
        yield self.rig.ask(35, client=client, clientID="c", consumerGroup="g")
        self.assertTrue(known.dead)
        yield self.beat(client=client)
        self.assertFalse(known.dead)
        yield client.close()
        yield self.rig.until(lambda: known.dead)

    @inlineCallbacks
    def test_messages_that_came_back_are_filtered_by_their_topics_expression_if_wanted(self):
        for retry, wanted in ((True, ["150"]), (False, ["50", "150"])):
            self.start(retry=retry)
            yield self.beat()
            back = "%RETRY%g"
            for price in ("50", "150"):
                self.put({"TAGS": "red", "price": price, "RETRY_TOPIC": "T"}, topic=back)
            answer = yield self.rig.pull(0, topic=back)
            self.assertEqual(self.prices(answer), wanted)
            self.put({"price": "1", "RETRY_TOPIC": "Other"}, {"price": "2"}, topic=back)
            self.assertEqual(self.prices((yield self.rig.pull(2, topic=back))), ["1", "2"])


class TestHolding(SqlCase):
    @inlineCallbacks
    def held(self, offset, **more):
        (answer,) = yield self.rig.held(offset, subscription=BIG, expressionType="SQL92", **more)
        return [answer]

    @inlineCallbacks
    def test_arrivals_that_do_not_match_wake_nobody(self):
        self.start()
        self.put_prices(150)
        (answer,) = yield self.held(1)
        self.put_prices(1, 2, 3)
        self.assertFalse(answer.called)
        self.assertEqual(self.rig.hold.count, 1)
        self.put_prices(300)
        self.assertEqual(self.seen((yield answer)), (0, "FOUND", 5, ["300"]))

    @inlineCallbacks
    def test_held_by_the_heartbeats_expression_on_a_slave(self):
        self.start(slave=True)
        self.put_prices(150)
        yield self.beat()
        (answer,) = yield self.rig.held(1, flags=0, expressionType="SQL92", subVersion=1)
        self.put_prices(1)
        self.assertFalse(answer.called)
        self.put_prices(300)
        self.assertEqual(self.seen((yield answer)), (0, "FOUND", 3, ["300"]))

    @inlineCallbacks
    def test_time_up_tells_how_far_was_looked(self):
        self.start()
        self.put_prices(150)
        (answer,) = yield self.held(1)
        self.put_prices(1, 2, 3)
        self.rig.clock.advance(16)
        self.assertEqual(self.seen((yield answer)), (19, "OFFSET_OVERFLOW_ONE", 4, []))

"""Groups and members from heartbeats."""

import json

from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.consumer import clienttable, heartbeat
from hatwisted.broker.consumer.clienttable import CLIENT_TTL, EXPIRY_STEP, ClientTable
from hatwisted.broker.consumer.heartbeat import (
    MAX_GROUPS_PER_HEARTBEAT,
    MAX_SUBSCRIPTIONS_PER_GROUP,
    MAX_WORD,
    parse_heartbeat,
)
from hatwisted.broker.filter.subscriptiondata import parse_subscription, tags_codes
from hatwisted.broker.namesizes import NAME_OF_ONE
from hatwisted.broker.requests import BadClientData
from tests.support.growth import Unwalked

JAVA = json.loads(
    '{"clientID":"10.0.0.2@4711#99","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
    '"consumeType":"CONSUME_PASSIVELY","groupName":"g","messageModel":"CLUSTERING","subscriptionDataSet":['
    '{"classFilterMode":false,"codeSet":[112785],"expressionType":"TAG","subString":"red",'
    '"subVersion":1795222023480,"tagsSet":["red"],"topic":"T"},{"classFilterMode":false,"codeSet":[],'
    '"expressionType":"TAG","subString":"*","subVersion":1795222023481,"tagsSet":[],"topic":"%RETRY%g"}],'
    '"unitMode":false}],"producerDataSet":[{"groupName":"p"}]}'
)
CPP = {
    "clientID": "c",
    "consumerDataSet": [
        {
            "groupName": "g",
            "consumeType": 1,
            "messageModel": 0,
            "consumeFromWhere": 4,
            "subscriptionDataSet": [{"topic": "T", "subString": "a || b", "subVersion": "1795222023480"}],
        }
    ],
}


class TestParsing(SynchronousTestCase):
    def test_heartbeat_of_the_java_client(self):
        beat = parse_heartbeat(JAVA)
        self.assertEqual((beat.client_id, beat.producers), ("10.0.0.2@4711#99", ("p",)))
        (consumer,) = beat.consumers
        self.assertEqual(consumer.group, "g")
        self.assertEqual(consumer.message_model, "CLUSTERING")
        red, retry = consumer.subscriptions
        self.assertEqual((red.topic, red.version, red.tags_codes), ("T", 1795222023480, {112785}))
        self.assertIsNone(retry.tags_codes)

    def test_numbers_for_enums_text_for_numbers_and_missing_sets(self):
        beat = parse_heartbeat(CPP)
        self.assertEqual(beat.producers, ())
        (consumer,) = beat.consumers
        self.assertEqual(
            (consumer.consume_type, consumer.message_model, consumer.consume_from),
            ("CONSUME_PASSIVELY", "BROADCASTING", "CONSUME_FROM_FIRST_OFFSET"),
        )
        self.assertEqual(consumer.subscriptions[0].version, 1795222023480)
        for odd in (1 << 63, "9" * 30):
            self.assertEqual(parse_subscription({"topic": "T", "subVersion": odd}).version, 0)
        self.assertEqual(consumer.subscriptions[0].tags_codes, {97, 98})

    def test_empty_group_names_make_no_group(self):
        beat = parse_heartbeat(
            {"clientID": "c", "producerDataSet": [{"groupName": ""}, {}], "consumerDataSet": [{}]}
        )
        self.assertEqual((beat.producers, beat.consumers), ((), ()))

    def test_what_is_refused(self):
        for body in (None, [], {}, {"clientID": 5}):
            self.assertRaises(BadClientData, parse_heartbeat, body)
        groups = [{"groupName": str(n)} for n in range(MAX_GROUPS_PER_HEARTBEAT + 1)]
        self.assertRaises(BadClientData, parse_heartbeat, {"clientID": "c", "producerDataSet": groups})
        wishes = [{"topic": str(n), "subString": "*"} for n in range(MAX_SUBSCRIPTIONS_PER_GROUP + 1)]
        group = {"groupName": "g", "subscriptionDataSet": wishes}
        self.assertRaises(BadClientData, parse_heartbeat, {"clientID": "c", "consumerDataSet": [group]})
        del wishes[-1]
        parse_heartbeat({"clientID": "c", "consumerDataSet": [group]})
        self.assertRaises(BadClientData, parse_subscription, {"subString": "*"})

    def test_tag_expressions(self):
        for everything in (None, "", "*"):
            self.assertIsNone(tags_codes(everything))
        self.assertEqual(tags_codes("Tag1"), {2598903})
        self.assertEqual(tags_codes(" a||b ||"), {97, 98})
        self.assertEqual(tags_codes(" "), frozenset())

    def test_filter_expressions_are_not_by_tag(self):
        sql = parse_subscription({"topic": "T", "subString": "a > 5", "expressionType": "SQL92"})
        self.assertFalse(sql.by_tag)
        self.assertIsNone(sql.tags_codes)
        self.assertIsNone(
            parse_subscription({"topic": "T", "subString": "C", "classFilterMode": True}).tags_codes
        )


def beat(client, **groups):
    """A heartbeat of `client`: group=[(topic, version), ...]."""
    return parse_heartbeat(
        {
            "clientID": client,
            "consumerDataSet": [
                {
                    "groupName": group,
                    "subscriptionDataSet": [
                        {"topic": topic, "subVersion": version} for topic, version in topics
                    ],
                }
                for group, topics in groups.items()
            ],
        }
    )


class TestGroups(SynchronousTestCase):
    def setUp(self):
        self.clock = Clock()
        self.told = []
        self.clients = ClientTable(self.clock, lambda group, members: self.told.append((group, members)))

    def heartbeat(self, key, client, **groups):
        self.clients.heartbeat(key, beat(client, **groups), "JAVA", 407)

    def news(self):
        told, self.told = self.told, []
        return told

    def test_members_are_told_of_every_newcomer_and_not_of_repetitions(self):
        self.heartbeat("k1", "c1", g=[("T", 1)])
        self.heartbeat("k1", "c1", g=[("T", 1)])
        self.assertEqual(self.news(), [("g", ["k1"])])
        self.heartbeat("k2", "c2", g=[("T", 1)])
        self.assertEqual(self.news(), [("g", ["k1", "k2"])])
        self.assertEqual(self.clients.consumers["g"].client_ids(), ["c1", "c2"])

    def test_members_are_told_of_topics_that_come_and_go(self):
        self.heartbeat("k1", "c1", g=[("T", 1)])
        self.heartbeat("k1", "c1", g=[("T", 1), ("U", 1)])
        self.heartbeat("k1", "c1", g=[("U", 1)])
        self.assertEqual(len(self.news()), 3)
        self.assertEqual(list(self.clients.consumers["g"].subscriptions), ["U"])

    def test_newer_version_of_a_subscription_replaces_older(self):
        for version in (5, 7, 6):
            self.heartbeat("k1", "c1", g=[("T", version)])
        self.assertEqual(self.clients.consumers["g"].subscriptions["T"].version, 7)
        self.assertEqual(len(self.news()), 1)

    def test_closed_connection_leaves_every_group_and_the_rest_is_told(self):
        self.heartbeat("k1", "c1", g=[("T", 1)], h=[("T", 1)])
        self.heartbeat("k2", "c2", g=[("T", 1)])
        self.news()
        self.clients.closed("k1")
        self.assertEqual(self.news(), [("g", ["k2"])])
        self.assertEqual(list(self.clients.consumers), ["g"])
        self.clients.closed("k1")
        self.assertEqual(self.news(), [])

    def test_groups_of_long_names_count_for_what_they_take(self):
        self.patch(clienttable, "MAX_MEMBERSHIPS", 10)
        usual, long, wide = "g" * 255, "l" * (3 * NAME_OF_ONE), "\U0001f600" * NAME_OF_ONE
        self.heartbeat("A", "a", **{usual: [], long: []})
        self.assertEqual(self.clients.memberships, 5)
        beat = parse_heartbeat({"clientID": "b", "producerDataSet": [{"groupName": wide}]})
        self.clients.heartbeat("B", beat, "JAVA", 407)
        self.assertEqual(self.clients.memberships, 10)
        self.assertRaises(BadClientData, self.heartbeat, "C", "c", g=[])
        self.clients.heartbeat("B", beat, "JAVA", 407)
        self.clients.closed("B")
        self.assertEqual(self.clients.memberships, 5)
        self.clients.closed("A")
        self.assertEqual(self.clients.memberships, 0)

    def test_made_up_groups_fill_no_table(self):
        self.patch(clienttable, "MAX_MEMBERSHIPS", 3)
        self.patch(clienttable, "MAX_SUBSCRIPTIONS", 3)
        one, two, three = [("T", 1)], [("T", 1), ("U", 1)], [("T", 1), ("U", 1), ("V", 1)]

        def members():
            return {name: dict(group.members) for name, group in self.clients.consumers.items()}

        self.heartbeat("A", "a", g=two, h=one)
        producer = parse_heartbeat({"clientID": "b", "producerDataSet": [{"groupName": "p"}]})
        self.clients.heartbeat("B", producer, "JAVA", 407)
        before = members()
        for key, groups in (("A", {"i": []}), ("B", {"g": two}), ("A", {"g": three, "h": one})):
            self.assertRaises(BadClientData, self.heartbeat, key, "a", **groups)
        self.assertEqual(members(), before)
        self.heartbeat("A", "a", g=one, h=two)
        self.clients.unregister("B", "p", None)
        self.heartbeat("C", "c", g=one)
        self.clients.closed("A")
        self.heartbeat("C", "c", g=three, h=[])
        self.assertRaises(BadClientData, self.heartbeat, "C", "c", h=one)

    def test_one_connection_fills_no_table(self):
        """However many heartbeats it sends; others go on."""
        self.patch(clienttable, "MAX_GROUPS_PER_CONNECTION", 4)

        def produce(key, *names):
            groups = [{"groupName": name} for name in names]
            beat = parse_heartbeat({"clientID": key, "producerDataSet": groups})
            self.clients.heartbeat(key, beat, "JAVA", 407)

        self.heartbeat("A", "a", g=[], h=[])
        produce("A", "p", "q")
        self.assertRaises(BadClientData, self.heartbeat, "A", "a", g=[], i=[])
        self.assertRaises(BadClientData, produce, "A", "p", "r")
        self.assertEqual((set(self.clients.consumers), set(self.clients.producers)), ({"g", "h"}, {"p", "q"}))
        self.heartbeat("A", "a", g=[], h=[])
        produce("A", "p", "q")
        self.heartbeat("B", "b", i=[])
        produce("B", "r", "s", "t")
        self.clients.unregister("A", "q", None)
        produce("A", "r")
        self.clock.advance(CLIENT_TTL + 1)
        self.clients.expire()
        self.heartbeat("A", "a", i=[], j=[], k=[], l=[])

    def test_long_texts_count_more_than_once(self):
        """A heartbeat has up to 1 MiB: what it says in few words of much text would fill the memory."""
        self.patch(clienttable, "MAX_SUBSCRIPTIONS", 8)
        long = "x" * 3000

        def beat(key, group, *expressions, version=1):
            wanted = [
                {"topic": f"T{number}", "subString": text, "subVersion": version}
                for number, text in enumerate(expressions)
            ]
            data = {"clientID": key, "consumerDataSet": [{"groupName": group, "subscriptionDataSet": wanted}]}
            self.clients.heartbeat(key, parse_heartbeat(data), "JAVA", 407)

        beat("A", "g", long, long)
        beat("A", "g", long, long)
        self.assertRaises(BadClientData, beat, "B", "h", long)
        # An older version takes no place of the newer one, and makes no room either.
        self.assertRaises(BadClientData, beat, "A", "g", "*", "*", long, version=0)
        beat("A", "g", "*", "*", "*", version=2)
        beat("B", "h", long)
        self.assertRaises(BadClientData, beat, "C", "i", "||".join(map(str, range(50))))
        self.clients.closed("A")
        self.clients.closed("B")
        self.assertEqual(self.clients.subscriptions, 0)

    def test_names_have_a_length(self):
        name = "n" * (heartbeat.MAX_NAME + 1)
        for beat in (
            {"clientID": name},
            {"clientID": "c", "producerDataSet": [{"groupName": name}]},
            {"clientID": "c", "consumerDataSet": [{"groupName": name}]},
        ):
            self.assertRaises(BadClientData, parse_heartbeat, beat)
        odd = {"groupName": "g", "consumeType": name, "messageModel": name, "consumeFromWhere": name}
        (consumer,) = parse_heartbeat({"clientID": "c", "consumerDataSet": [odd]}).consumers
        self.assertLess(len(consumer.consume_type + consumer.message_model + consumer.consume_from), 100)
        self.clients.heartbeat("k1", parse_heartbeat(JAVA), name, 407)
        self.assertEqual(len(self.clients.consumers["g"].members["k1"].language), MAX_WORD)

    def test_a_client_whose_new_topics_find_no_room_stays_where_it_is(self):
        self.patch(clienttable, "MAX_SUBSCRIPTIONS", 2)
        self.heartbeat("A", "a", g=[("T", 1)])
        for _ in range(3):
            self.clock.advance(CLIENT_TTL / 2)
            self.heartbeat("stranger", "s", h=[("U", 1)])
            self.assertRaises(BadClientData, self.heartbeat, "A", "a", g=[("T", 1), ("V", 1)])
            self.clients.expire()
        self.assertEqual(set(self.clients.consumers["g"].members), {"A"})

    def test_a_connection_that_closes_is_not_looked_for_in_all_groups(self):
        self.heartbeat("A", "a", g=[("T", 1)], h=[])
        self.heartbeat("B", "b", g=[("T", 1)], i=[])
        producer = parse_heartbeat({"clientID": "a", "producerDataSet": [{"groupName": "p"}]})
        self.clients.heartbeat("A", producer, "JAVA", 407)
        self.clients.consumers = Unwalked(self.clients.consumers)
        self.clients.producers = Unwalked(self.clients.producers)
        self.clients.unregister("A", "p", "h")
        self.assertEqual((len(self.clients.consumers), len(self.clients.producers)), (2, 0))
        self.clients.closed("A")
        self.clients.closed("B")
        self.assertEqual(len(self.clients.consumers), 0)

    def test_unregistering(self):
        self.clients.heartbeat("k1", parse_heartbeat(JAVA), "JAVA", 407)
        self.clients.unregister("k1", "p", "")
        self.assertEqual(list(self.clients.producers), [])
        self.clients.unregister("k1", "p", "nobody")
        self.clients.unregister("k2", None, "g")
        self.assertEqual(list(self.clients.consumers), ["g"])
        self.clients.unregister("k1", None, "g")
        self.assertEqual(list(self.clients.consumers), [])

    def test_producer_is_found_by_its_client_id(self):
        def beat(key, client_id):
            body = {"clientID": client_id, "producerDataSet": [{"groupName": "p"}]}
            self.clients.heartbeat(key, parse_heartbeat(body), "JAVA", 407)

        beat("k1", "c1")
        beat("k1", "c2")
        self.assertEqual([self.clients.producer(client_id) for client_id in ("c1", "c2")], [None, "k1"])
        beat("k2", "c2")
        self.clients.closed("k1")
        self.assertEqual(self.clients.producer("c2"), "k2")
        self.clients.unregister("k2", "p", None)
        self.assertIsNone(self.clients.producer("c2"))
        self.assertEqual((self.clients._producer_keys, self.clients._producer_ids), ({}, {}))

    def test_silent_client_is_dropped_after_120_s(self):
        self.heartbeat("k1", "c1", g=[("T", 1)])
        self.clock.advance(CLIENT_TTL / 2)
        self.heartbeat("k2", "c2", g=[("T", 1)])
        self.news()
        self.clock.advance(CLIENT_TTL / 2)
        self.clients.expire()
        self.assertEqual(self.news(), [])
        self.clock.advance(1)
        self.clients.expire()
        self.assertEqual(self.news(), [("g", ["k2"])])

    def test_many_silent_clients_are_dropped_in_steps(self):
        for number in range(9):
            self.heartbeat(f"k{number}", f"c{number}", g=[("T", 1)], h=[("T", 1)])
        self.clock.advance(CLIENT_TTL + 1)
        seconds = self.clock.seconds

        def slower():
            self.clock.rightNow += EXPIRY_STEP / 4
            return seconds()

        self.clock.seconds = slower
        steps = 0
        for _ in self.clients.expiring():
            steps += 1
            if steps == 1:
                self.assertEqual(list(self.clients.consumers), ["g", "h"])
        self.assertGreater(steps, 3)
        self.assertEqual(self.clients.consumers, {})

    def test_a_silent_client_has_one_line_for_all_its_groups(self):
        self.heartbeat("k1", "c1", g=[("T", 1)], h=[("T", 1)])
        self.heartbeat("k2", "c2", g=[("T", 1)])
        self.clock.advance(CLIENT_TTL + 1)
        lines = []
        globalLogPublisher.addObserver(lines.append)
        self.addCleanup(globalLogPublisher.removeObserver, lines.append)
        self.clients.expire()
        self.assertEqual([line["key"] for line in lines], ["k1", "k2"])

    def test_a_group_left_without_a_word_costs_the_client_no_other_group(self):
        self.heartbeat("k1", "c1", left=[("T", 1)], kept=[("T", 1)])
        self.clients.heartbeat(
            "k1", parse_heartbeat({"clientID": "c1", "producerDataSet": [{"groupName": "p"}]}), "JAVA", 407
        )
        self.clock.advance(CLIENT_TTL)
        self.heartbeat("k1", "c1", kept=[("T", 1)])
        self.clock.advance(1)
        self.news()
        self.clients.expire()
        self.assertEqual((list(self.clients.consumers), self.clients.producers), (["kept"], {}))
        self.assertIsNone(self.clients.producer("c1"))
        self.assertEqual(self.news(), [])

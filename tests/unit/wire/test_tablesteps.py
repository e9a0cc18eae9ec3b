"""A master's table, read in steps, is what it is when it's read at once."""

import json
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import TestCase

from hatwisted.broker.consumer.subscriptiongroup import GroupConfig, GroupTable
from hatwisted.wire import tablesteps
from hatwisted.wire.registerbody import at_once
from hatwisted.wire.registration import (
    BadRegistration,
    DataVersion,
    TopicConfig,
    TopicTable,
    decode_body,
    encode_body,
)
from hatwisted.wire.tablesteps import decoding_table
from tests.support.golden import answers

TOPICS = TopicTable, TopicConfig, "topic_config_table"
GROUPS = GroupTable, GroupConfig, "subscription_group_table"

names = st.text("Tabc%_-", min_size=1, max_size=4)
attributes = st.none() | st.dictionaries(st.sampled_from(["+message.type", "x"]), st.just("FIFO"), max_size=2)
fields = st.fixed_dictionaries(
    {},
    optional={
        "perm": st.integers(0, 7) | st.sampled_from(["6", None, "x", 2**40]),
        "readQueueNums": st.integers(-1, 20),
        "order": st.booleans(),
        "attributes": attributes,
        "more": st.integers(),
    },
)
tables = st.fixed_dictionaries(
    {},
    optional={
        "dataVersion": st.fixed_dictionaries({"counter": st.integers(0, 9)}) | st.just(7),
        "topicConfigTable": st.dictionaries(names, fields, max_size=6) | st.just([]),
        "other": st.just({"a": 1}),
    },
)


def outcome(read):
    try:
        return read()
    except BadRegistration as error:
        return str(error)


class TestDecodingTable(TestCase):
    @given(tables, st.sampled_from([None, "topicName", "wrong"]), st.sampled_from([0, 1 << 16]))
    def test_B98_it_is_what_decode_body_reads(self, table, names, small):
        topics = table.get("topicConfigTable")
        if isinstance(topics, dict) and names is not None:
            for name, fields in topics.items():
                fields["topicName"] = name if names == "topicName" else "T"
        data = json.dumps(table).encode()
        with mock.patch.object(tablesteps, "SMALL", small):
            found = outcome(lambda: at_once(decoding_table(data, *TOPICS, {})))
        self.assertEqual(found, outcome(lambda: decode_body(data, TopicTable)))

    def test_B98_tables_of_rocketmq_and_its_dialect(self):
        with mock.patch.object(tablesteps, "SMALL", 0):
            captured = answers()
            for name, kind in (("TOPIC", TOPICS), ("SUBSCRIPTIONGROUP", GROUPS)):
                data = captured[f"GET_ALL_{name}_CONFIG"]["body"].encode()
                self.assertEqual(at_once(decoding_table(data, *kind, {})), decode_body(data, kind[0]))
            data = b'{"topicConfigTable":{1:{"topicName":"1"}}}'
            self.assertEqual([*at_once(decoding_table(data, *TOPICS, {})).topic_config_table], ["1"])
            data = b'{"forbiddenTable":{"g":{"T":1}},"subscriptionGroupTable":{"g":{"groupName":"g"}}}'
            self.assertEqual(at_once(decoding_table(data, *GROUPS, {})).forbidden_table, {"g": {"T": 1}})

    def test_a_field_that_stands_twice_is_the_last_one(self):
        data = b'{"topicConfigTable":{"T":{"topicName":"T","perm":"x","perm":4}}}'
        with mock.patch.object(tablesteps, "SMALL", 0):
            self.assertEqual(at_once(decoding_table(data, *TOPICS, {})), decode_body(data, TopicTable))

    def test_what_is_known_is_the_known_one(self):
        known = {
            name: TopicConfig(topic_name=name, perm=perm) for name, perm in (("same", 6), ("changed", 4))
        }
        sent = TopicTable(
            topic_config_table={name: TopicConfig(topic_name=name) for name in ("same", "changed", "new")}
        )
        for small in (0, 1 << 16):
            with mock.patch.object(tablesteps, "SMALL", small):
                found = at_once(decoding_table(encode_body(sent), *TOPICS, known))
            self.assertEqual(found, sent)
            self.assertIs(found.topic_config_table["same"], known["same"])
            self.assertIsNot(found.topic_config_table["changed"], known["changed"])

    def test_no_step_has_more_than_some_hundred_topics(self):
        topics = {f"topic-{number}": TopicConfig(topic_name=f"topic-{number}") for number in range(15_000)}
        data = encode_body(TopicTable(data_version=DataVersion(counter=7), topic_config_table=topics))

        class Known(dict):
            looked_up = 0

            def get(self, name, default=None):
                self.looked_up += 1
                return super().get(name, default)

        known, before, most = Known(), 0, 0
        reading = decoding_table(data, *TOPICS, known)
        for _ in reading:
            most, before = max(most, known.looked_up - before), known.looked_up
        self.assertEqual((known.looked_up, known.looked_up - before, most), (15_000, 0, 500))

"""Registrations, routes and cluster info: captured bodies, the compressed form, hostile ones."""

from __future__ import annotations

import random
import zlib
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.wire import registerbody
from hatwisted.wire.codes import V5_3_3
from hatwisted.wire.fastjson import MAX_BARE_REQUEST, dumps_pretty
from hatwisted.wire.registerbody import (
    MAX_OF_TOPIC,
    MAX_PIECE,
    body_checksum,
    decode_register_body,
    decoding_register_body,
    encode_register_body,
    is_small,
)
from hatwisted.wire.registration import (
    BadRegistration,
    BrokerData,
    ClusterInfo,
    DataVersion,
    QueueData,
    RegisterBody,
    TopicConfig,
    TopicRoute,
    TopicTable,
    decode_body,
    encode_body,
)
from tests.support import golden


def body_of(name: str) -> bytes:
    text: str = golden.answers()[name]["body"]
    return text.encode()


TOPICS = decode_body(body_of("GET_ALL_TOPIC_CONFIG"), TopicTable)
BODY = RegisterBody(topic_config_serialize_wrapper=TOPICS, filter_server_list=["h:1"])


def piece(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + text


class Captured(SynchronousTestCase):
    def test_topic_table_there_and_back(self) -> None:
        self.assertEqual(encode_body(TOPICS), body_of("GET_ALL_TOPIC_CONFIG"))
        self.assertEqual(TOPICS.data_version, DataVersion(counter=5, timestamp=1795221204877))
        self.assertEqual(TOPICS.topic_config_table["SCHEDULE_TOPIC_XXXX"].write_queue_nums, 18)
        self.assertEqual(dumps_pretty(TOPICS), (golden.GOLDEN / "slave/config/topics.json").read_bytes())

    def test_B112_route_lists_every_id_and_is_written_with_quoted_ids(self) -> None:
        captured = body_of("NAMESRV_GET_ROUTEINFO_BY_TOPIC")
        route = decode_body(captured, TopicRoute)
        self.assertEqual(route.broker_datas[0].broker_addrs, {0: "127.0.0.1:10911", 1: "127.0.0.1:10921"})
        self.assertEqual(route.queue_datas[0].write_queue_nums, 4)
        self.assertEqual(encode_body(route), captured.replace(b"{0:", b'{"0":').replace(b",1:", b',"1":'))

    def test_cluster_info(self) -> None:
        captured = body_of("NAMESRV_GET_BROKER_CLUSTER_INFO")
        info = decode_body(captured, ClusterInfo)
        self.assertEqual(info.cluster_addr_table, {"DefaultCluster": ["broker-a"]})
        self.assertEqual(encode_body(info), captured.replace(b"{0:", b'{"0":').replace(b",1:", b',"1":'))

    def test_order_conf_is_written_only_when_there(self) -> None:
        route = TopicRoute(
            broker_datas=[BrokerData(broker_name="b", broker_addrs={0: "h:1"})],
            queue_datas=[QueueData(broker_name="b", perm=6, read_queue_nums=1, write_queue_nums=1)],
            order_topic_conf="b:4",
        )
        self.assertIn(b'"orderTopicConf":"b:4"', encode_body(route))
        self.assertEqual(decode_body(encode_body(route), TopicRoute), route)

    def test_unknown_fields_and_numbers_as_text(self) -> None:
        text = b'{"counter":"3","timestamp":"1795221543635","stateVersion":0,"later":{}}'
        version = decode_body(text, DataVersion)
        self.assertEqual((version.counter, version.timestamp, version.state_version), (3, 1795221543635, 0))
        following = version.following(1795221543700)
        self.assertEqual(encode_body(following), b'{"counter":4,"stateVersion":0,"timestamp":1795221543700}')


class RegisterBodies(SynchronousTestCase):
    def test_B109_plain_there_and_back(self) -> None:
        data = encode_register_body(BODY)
        self.assertTrue(
            data.startswith(b'{"filterServerList":["h:1"],"topicConfigSerializeWrapper":{"dataVersion":')
        )
        self.assertEqual(decode_register_body(data, version=407, checksum=body_checksum(data)), BODY)

    def test_compressed_there_and_back(self) -> None:
        data = encode_register_body(BODY, compressed=True)
        self.assertLess(len(data), 500)
        self.assertEqual(
            decode_register_body(data, compressed=True, version=407, checksum=body_checksum(data)), BODY
        )

    def test_compressed_with_what_5_x_appends(self) -> None:
        line = b'T 4 4 6 SINGLE_TAG {"+message.type": "NORMAL"}'
        plain = (
            piece(b'{"counter":1,"timestamp":2,"stateVersion":0}') + b"\0\0\0\1" + piece(line) + piece(b"[]")
        )
        data = zlib.compress(plain + b"\0\0\0\1" + piece(b"{}"))
        body = decode_register_body(data, compressed=True, version=479)
        topic = TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)
        self.assertEqual(body.topic_config_serialize_wrapper.topic_config_table, {"T": topic})

    def test_5x_compresses_and_says_that_it_does_not(self) -> None:
        body = RegisterBody(
            topic_config_serialize_wrapper=TopicTable(topic_config_table={"T": TopicConfig(topic_name="T")})
        )
        sent = encode_register_body(body, compressed=True)
        self.assertEqual(decode_register_body(sent, compressed=False, version=V5_3_3), body)

    def test_old_brokers_send_the_bare_table(self) -> None:
        body = decode_register_body(encode_body(TOPICS), version=36)
        self.assertEqual(body.topic_config_serialize_wrapper, TOPICS)

    def test_empty_body_registers_no_topics(self) -> None:
        self.assertEqual(decode_register_body(b"", version=407), RegisterBody())

    def test_B109_wrong_checksum(self) -> None:
        error = self.assertRaises(BadRegistration, decode_register_body, b"{}", version=407, checksum=5)
        self.assertEqual(str(error), "crc32 not match")

    def test_what_is_no_registration(self) -> None:
        for data in (
            b"?",
            b"[]",
            b'{"filterServerList":5}',
            b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{}}}}',
            b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"topicName":"U"}}}}',
            b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"topicName":"T","readQueueNums":65537}}}}',
            b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"topicName":"T","writeQueueNums":-1}}}}',
        ):
            self.assertRaises(BadRegistration, decode_register_body, data, version=407)

    def test_numbers_that_clients_could_not_read_are_refused(self) -> None:
        plain = encode_register_body(BODY)
        for field, number in (
            (b'"perm":', 1 << 31),
            (b'"topicSysFlag":', -(1 << 40)),
            (b'"counter":', 1 << 63),
        ):
            before, found, after = plain.partition(field)
            bad = before + found + str(number).encode() + after[after.index(b",") :]
            self.assertTrue(found)
            self.assertRaises(BadRegistration, decode_register_body, bad, version=V5_3_3)

    def test_compressed_body_that_is_no_zlib_stream(self) -> None:
        error = self.assertRaises(
            BadRegistration, decode_register_body, b"junk", compressed=True, version=407
        )
        self.assertIn("compressed body", str(error))

    def test_compressed_body_cut_anywhere(self) -> None:
        data = encode_register_body(BODY, compressed=True)
        for cut in range(1, len(data)):
            self.assertRaises(BadRegistration, decode_register_body, data[:cut], compressed=True, version=407)
        plain = zlib.decompress(data)
        for cut in range(0, len(plain), 3):
            broken = zlib.compress(plain[:cut])
            self.assertRaises(BadRegistration, decode_register_body, broken, compressed=True, version=407)

    def test_bad_topic_lines(self) -> None:
        for line in (
            b"",
            b"T 4 4 6",
            b"T x 4 6 SINGLE_TAG",
            b"T 65537 4 6 SINGLE_TAG",
            b"T 4 -1 6 SINGLE_TAG",
            b"\xff 4 4 6 SINGLE_TAG",
        ):
            data = zlib.compress(piece(b"{}") + b"\0\0\0\1" + piece(line) + piece(b"[]"))
            self.assertRaises(BadRegistration, decode_register_body, data, compressed=True, version=407)

    def test_a_body_that_inflates_without_end_is_refused(self) -> None:
        self.patch(registerbody, "MAX_REGISTRATION", 100_000)
        bomb = zlib.compress(bytes(1_000_000))
        error = self.assertRaises(BadRegistration, decode_register_body, bomb, compressed=True, version=407)
        self.assertIn("more than 100000 bytes", str(error))

    def test_B179_a_registration_has_so_many_topics(self) -> None:
        self.patch(registerbody, "MAX_TOPICS", 2)
        topics = {name: TopicConfig(topic_name=name) for name in ("a", "b", "c")}
        for compressed in (False, True):
            for count in (2, 3):
                table = TopicTable(topic_config_table=dict(list(topics.items())[:count]))
                data = encode_register_body(RegisterBody(topic_config_serialize_wrapper=table), compressed)
                if count == 2:
                    decode_register_body(data, version=407)
                else:
                    self.assertRaises(BadRegistration, decode_register_body, data, version=407)

    def test_a_registration_has_so_many_values(self) -> None:
        self.patch(registerbody, "MAX_TOPICS", 2)
        values = MAX_OF_TOPIC * 2
        for count in (values, values + 1):
            # Of what isn't known here nothing is kept, and it isn't looked at for long.
            data = b'{"unknown":[' + b",".join([b"[]"] * count) + b"]}"
            if count == values:
                self.assertEqual(decode_register_body(data, version=407), RegisterBody())
            else:
                error = self.assertRaises(BadRegistration, decode_register_body, data, version=407)
                self.assertIn("more values", str(error))

    def test_a_registration_in_the_dialect_is_read_like_any_request(self) -> None:
        table = '{"topicConfigSerializeWrapper":{"topicConfigTable":{},"mapping":{0:1}'
        self.assertEqual(decode_register_body(f"{table}}}}}".encode(), version=407), RegisterBody())
        padded = f"{table}{' ' * MAX_BARE_REQUEST}}}}}".encode()
        self.assertRaises(BadRegistration, decode_register_body, padded, version=407)

    def test_the_small_pieces_of_a_compressed_one_are_small(self) -> None:
        def decode(version: bytes, servers: bytes) -> RegisterBody:
            data = zlib.compress(piece(version) + bytes(4) + piece(servers))
            return decode_register_body(data, compressed=True, version=407)

        self.assertEqual(decode(b"{}".ljust(MAX_PIECE), b"[]".ljust(MAX_PIECE)), RegisterBody())
        for version, servers in ((MAX_PIECE + 1, 2), (2, MAX_PIECE + 1)):
            self.assertRaises(BadRegistration, decode, b"{}".ljust(version), b"[]".ljust(servers))

    def test_any_bytes_give_a_body_or_the_one_error(self) -> None:
        chance = random.Random(103)
        plain = zlib.decompress(encode_register_body(BODY, compressed=True))
        for _ in range(1500):
            noise = bytearray(plain)
            for _ in range(chance.randrange(1, 4)):
                noise[chance.randrange(len(noise))] = chance.randrange(256)
            try:
                decode_register_body(zlib.compress(bytes(noise), 1), compressed=True, version=407)
            except BadRegistration:
                continue


class LargeBodies(SynchronousTestCase):
    """They are read in steps."""

    def topics(self, count: int, length: int = 20, **fields: Any) -> dict[str, TopicConfig]:
        names = [f"{index}-".ljust(length, "x") for index in range(count)]
        return {name: TopicConfig(topic_name=name, **fields) for name in names}

    def body(self, topics: dict[str, TopicConfig]) -> RegisterBody:
        table = TopicTable(data_version=DataVersion(counter=4), topic_config_table=topics)
        return RegisterBody(topic_config_serialize_wrapper=table, filter_server_list=["h:1"])

    def steps(self, data: bytes, version: int = 407) -> int:
        """How many it takes, in which the same is read as all at once."""
        steps = decoding_register_body(data, version=version)
        count = 1
        try:
            while True:
                next(steps)
                count += 1
        except StopIteration as end:
            self.assertTrue(end.value == decode_register_body(data, version=version))
        return count

    def test_a_small_one_is_read_in_one_step(self) -> None:
        for compressed in (False, True):
            data = encode_register_body(self.body(self.topics(100)), compressed)
            self.assertTrue(is_small(data))
            self.assertEqual(self.steps(data), 1)
        self.assertFalse(is_small(b"x\x9c not zlib"))

    def test_a_large_one_is_read_in_many(self) -> None:
        body = self.body(self.topics(10_000))
        for compressed in (False, True):
            data = encode_register_body(body, compressed)
            self.assertFalse(is_small(data))
            self.assertTrue(decode_register_body(data, version=407) == body)
            self.assertGreaterEqual(self.steps(data), 10_000 // 500)
        bare = encode_body(body.topic_config_serialize_wrapper)
        self.assertGreaterEqual(self.steps(bare, version=36), 10_000 // 500)

    def test_what_looks_like_a_topics_end_is_none(self) -> None:
        for attributes in ({}, {"+message.type": "NORMAL"}, {"a": '}, "', "b": '"},"topicName":"x"}, "'}):
            topics = self.topics(2000, attributes=attributes)
            data = encode_register_body(self.body(topics))
            for text in (data, data.replace(b'},"', b'} ,\n "'), data.replace(b"},", b"}, ")):
                read = decode_register_body(
                    text, version=407
                ).topic_config_serialize_wrapper.topic_config_table
                # No route has attributes.
                self.assertTrue(read == self.topics(2000), attributes)

    def test_of_one_topic_there_is_not_more_than_a_step(self) -> None:
        for size, read in ((MAX_PIECE // 3, True), (2 * MAX_PIECE, False)):
            topics = self.topics(1000) | self.topics(1, size)
            data = encode_register_body(self.body(topics))
            if read:
                self.assertTrue(decode_register_body(data, version=407) == self.body(topics))
            else:
                error = self.assertRaises(BadRegistration, decode_register_body, data, version=407)
                self.assertIn("a topic of more than", str(error))

    def test_what_is_wrong_in_a_late_one_is_refused(self) -> None:
        data = encode_register_body(self.body(self.topics(5000)))
        for right, wrong in (
            (b'"topicName":"4000-', b'"topicName":"other'),
            (b'"4000-xxxxxxxxxxxxxxx":{', b'"4000-xxxxxxxxxxxxxxx":[{'),
            (b'"4000-xxxxxxxxxxxxxxx":{', b'"4000-xxxxxxxxxxxxxxx":{"readQueueNums":65537,'),
            (b'"4999-xxxxxxxxxxxxxxx":{', b'"4999-xxxxxxxxxxxxxxx":{"perm":[],'),
            (b"4000-", b"\xff000-"),
        ):
            self.assertIn(right, data)
            self.assertRaises(BadRegistration, decode_register_body, data.replace(right, wrong), version=407)

    def test_topics_that_are_none_are_refused(self) -> None:
        for table in (b"[]", b"null", b'"x"', b"[" + b"1," * 60_000 + b"1]", b'"%b"' % (b'},"' * 40_000)):
            data = b'{"topicConfigSerializeWrapper":{"topicConfigTable":%b}}' % table
            self.assertRaises(BadRegistration, decode_register_body, data, version=407)

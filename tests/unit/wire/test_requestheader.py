"""Request headers: both spellings of a send, pulls, registrations, and every way to get a field wrong."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.wire.requestheader import (
    NOT_SAID,
    BadRequestField,
    PullHeader,
    RegisterBrokerHeader,
    bool_field,
    int_field,
    long_field,
    parse_pull,
    parse_query_message,
    parse_register_broker,
    parse_send_v1,
    parse_send_v2,
    text_field,
)

V2 = {"a": "g", "b": "T", "c": "TBW102", "d": "4", "e": "-1", "f": "0", "g": "1795221957475", "h": "7"}
V2 |= {"i": "KEYS\x01k", "j": "2", "k": "false", "l": "16", "m": "true", "n": "broker-a"}
V1 = {
    "producerGroup": "g",
    "topic": "T",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "-1",
}
V1 |= {
    "sysFlag": "0",
    "bornTimestamp": "1795221957475",
    "flag": "7",
    "properties": "KEYS\x01k",
    "bname": "broker-a",
}
V1 |= {"reconsumeTimes": "2", "unitMode": "false", "maxReconsumeTimes": "16", "batch": "1"}
PULL = {
    "consumerGroup": "g",
    "topic": "T",
    "queueId": "1",
    "queueOffset": "3",
    "maxMsgNums": "32",
    "sysFlag": "3",
}
PULL |= {"commitOffset": "-1", "suspendTimeoutMillis": "15000", "subVersion": "1795221957822"}


class Sends(SynchronousTestCase):
    def test_both_spellings_mean_the_same(self) -> None:
        header = parse_send_v2(V2)
        self.assertEqual(header, parse_send_v1(V1))
        self.assertEqual((header.topic, header.queue_id, header.flag, header.batch), ("T", -1, 7, True))
        self.assertEqual((header.properties, header.max_reconsume_times), ("KEYS\x01k", 16))

    def test_optional_fields(self) -> None:
        header = parse_send_v2({name: V2[name] for name in "abcdefgh"})
        self.assertEqual((header.properties, header.reconsume_times, header.batch), ("", 0, False))
        self.assertEqual(parse_send_v2(V2 | {"j": "", "l": ""}).max_reconsume_times, NOT_SAID)

    def test_limits_of_the_stored_fields(self) -> None:
        low, high = str(-(1 << 31)), str((1 << 31) - 1)
        for name in "defhjl":
            self.assertEqual(parse_send_v2(V2 | {name: low}), parse_send_v2(V2 | {name: f" {low}"}))
            parse_send_v2(V2 | {name: high})
            for bad in (str(1 << 31), str(-(1 << 31) - 1), str(1 << 70), "x", "1.5"):
                error = self.assertRaises(BadRequestField, parse_send_v2, V2 | {name: bad})
                self.assertEqual((error.name, error.value), (name, bad))
        parse_send_v2(V2 | {"g": str(-(1 << 63))})
        self.assertRaises(BadRequestField, parse_send_v2, V2 | {"g": str(1 << 63)})

    def test_missing_fields_are_named_as_the_peer_writes_them(self) -> None:
        for name in "abcdefgh":
            ext = {key: value for key, value in V2.items() if key != name}
            error = self.assertRaises(BadRequestField, parse_send_v2, ext)
            self.assertEqual(str(error), f"request field {name} is missing")
        error = self.assertRaises(BadRequestField, parse_send_v1, V1 | {"queueId": "many"})
        self.assertEqual(str(error), "request field queueId has the value 'many'")

    def test_a_long_bad_value_is_cut_in_the_message(self) -> None:
        error = self.assertRaises(BadRequestField, parse_send_v2, V2 | {"e": "9" * 5000})
        self.assertLess(len(str(error)), 150)


class Others(SynchronousTestCase):
    def test_pull(self) -> None:
        header = parse_pull(PULL)
        self.assertEqual(
            (header.queue_offset, header.commit_offset, header.suspend_timeout_millis), (3, -1, 15000)
        )
        self.assertEqual(
            (header.subscription, header.expression_type, header.max_msg_bytes), (None, "TAG", -1)
        )
        self.assertTrue(header.sys_flag & PullHeader.SUSPEND)
        self.assertFalse(header.sys_flag & PullHeader.SUBSCRIPTION)

    def test_pull_needs_its_fields(self) -> None:
        for name in PULL:
            ext = {key: value for key, value in PULL.items() if key != name}
            self.assertEqual(self.assertRaises(BadRequestField, parse_pull, ext).name, name)

    def test_query_by_key(self) -> None:
        ext = {
            "topic": "T",
            "key": "k",
            "maxNum": "32",
            "beginTimestamp": "0",
            "endTimestamp": str((1 << 63) - 1),
        }
        self.assertFalse(parse_query_message(ext).by_unique_key)
        self.assertTrue(parse_query_message(ext | {"_UNIQUE_KEY_QUERY": "true"}).by_unique_key)

    def test_registration_there_and_back(self) -> None:
        header = RegisterBrokerHeader("broker-a", "h:10911", "C", 1, "h:10912", True, 77)
        self.assertEqual(parse_register_broker(header.to_ext()), header)
        shorter = {
            name: header.to_ext()[name] for name in ("brokerName", "brokerAddr", "clusterName", "brokerId")
        }
        self.assertEqual(parse_register_broker(shorter).ha_server_addr, "")

    def test_single_fields(self) -> None:
        ext = {"n": "5", "l": "-9223372036854775808", "t": "", "y": "TRUE", "o": "1", "z": "0"}
        self.assertEqual(
            (int_field(ext, "n"), long_field(ext, "l"), text_field(ext, "t")), (5, -(1 << 63), "")
        )
        self.assertEqual(
            (int_field(ext, "none", 3), int_field(ext, "t", 4), long_field(ext, "none", 5)), (3, 4, 5)
        )
        self.assertEqual([bool_field(ext, name) for name in "yoznt"], [True, True, False, False, False])
        self.assertTrue(bool_field(ext, "none", True))
        self.assertRaises(BadRequestField, int_field, ext, "l", 0)
        self.assertRaises(BadRequestField, text_field, ext, "none")

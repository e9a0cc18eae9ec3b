"""What `make run` makes of an input."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.demo.inputs import MAX_BODY, InputError, Message, open_source
from hatwisted.demo.producer import BATCH_BYTES, BATCH_COUNT, grouped
from hatwisted.demo.traffic import Several, Traffic
from hatwisted.wire.properties import decode_properties
from tests.support.golden import GOLDEN, MASTER


class InputCase(SynchronousTestCase):
    def file(self, name: str, content: bytes) -> str:
        folder = self.mktemp()
        os.makedirs(folder)
        path = os.path.join(folder, name)
        Path(path).write_bytes(content)
        return path


class Lines(InputCase):
    def test_each_line_is_a_message(self) -> None:
        source = open_source(self.file("access.log.1", b"one\r\n\ntwo\nthr\xffee"))
        self.assertEqual([message.body for message in source], [b"one", b"two", b"thr\xffee"])
        self.assertEqual((source.position, source.total), (16, 16))

    def test_the_topic_comes_from_the_file_name(self) -> None:
        for name, topic in {"access.log": "access", "a b+c.ndjson": "a-b-c", "...": "Demo"}.items():
            self.assertEqual([message.topic for message in open_source(self.file(name, b"x"))], [topic])

    def test_a_json_lines_id_becomes_its_key(self) -> None:
        lines = b'{"id": 7, "a": 1}\n{"key": "k", "id": 8}\n{"id": "two words"}\n{broken\n[1]\n'
        messages = list(open_source(self.file("events.ndjson", lines)))
        self.assertEqual(
            [decode_properties(m.properties).get("KEYS") for m in messages], ["7", "k", None, None, None]
        )
        self.assertEqual(messages[3].body, b"{broken")

    def test_an_endless_line_is_cut_into_pieces(self) -> None:
        sizes = [len(m.body) for m in open_source(self.file("x", b"a" * (MAX_BODY + 5)))]
        self.assertEqual(sizes, [MAX_BODY, 5])

    def test_what_cant_be_read_is_one_line(self) -> None:
        error = self.assertRaises(InputError, open_source, "/does/not/exist")
        self.assertEqual(str(error), "/does/not/exist: can't be read: No such file or directory")


class Stores(InputCase):
    def test_golden_messages_as_their_producers_sent_them(self) -> None:
        source = open_source(str(MASTER))
        messages = list(source)
        topics = Counter(message.topic for message in messages)
        self.assertEqual(topics, {"TopicA": 68, "TopicB": 153, "TopicDelay": 5, "TopicTx": 3})
        self.assertEqual(source.position, source.total)
        names = {name for message in messages for name in decode_properties(message.properties)}
        self.assertEqual(names, {"KEYS", "TAGS", "UNIQ_KEY", "color"})
        compressed = [message for message in messages if message.sys_flag]
        self.assertEqual([(m.sys_flag, len(m.body)) for m in compressed], [(0x301, 28), (0x301, 42)])

    def test_a_folder_that_is_no_store(self) -> None:
        error = self.assertRaises(InputError, open_source, str(GOLDEN))
        self.assertIn("is not a RocketMQ store", str(error))

    def test_damage_names_file_and_byte(self) -> None:
        root = self.mktemp()
        os.makedirs(os.path.join(root, "commitlog"))
        log = bytearray((MASTER / "commitlog" / "00000000000000000000").read_bytes())
        log[227 + 88] ^= 1
        Path(root, "commitlog", "00000000000000000000").write_bytes(log)
        error = self.assertRaises(InputError, list, open_source(root))
        self.assertIn("damaged at byte 227", str(error))


def message(body: bytes = b"x", topic: str = "T", sys_flag: int = 0) -> Message:
    return Message(topic, body, b"", 0, sys_flag)


class Grouping(SynchronousTestCase):
    def sizes(self, messages: list[Message]) -> list[int]:
        groups = list(grouped(messages))
        self.assertEqual([m for group in groups for m in group], messages)
        return [len(group) for group in groups]

    def test_neighbours_of_one_topic_share_a_request(self) -> None:
        self.assertEqual(self.sizes([message()] * 3 + [message(topic="U")] + [message()]), [3, 1, 1])

    def test_a_request_has_limits(self) -> None:
        self.assertEqual(self.sizes([message()] * (BATCH_COUNT + 1)), [BATCH_COUNT, 1])
        self.assertEqual(self.sizes([message(b"a" * (BATCH_BYTES // 2))] * 3), [2, 1])
        self.assertEqual(self.sizes([message(b"a" * (2 * BATCH_BYTES)), message()]), [1, 1])

    def test_compressed_messages_travel_alone(self) -> None:
        self.assertEqual(
            self.sizes([message(), message(sys_flag=1), message(sys_flag=1), message()]), [1, 1, 1, 1]
        )

    def test_nothing(self) -> None:
        self.assertEqual(self.sizes([]), [])


class TrafficTests(SynchronousTestCase):
    def test_it_is_the_same_each_time_and_has_waves_and_a_rush(self) -> None:
        messages = list(Traffic(20))
        self.assertEqual(messages, list(Traffic(20)))
        by_second = Counter(int(message.due) for message in messages)
        self.assertGreater(max(by_second.values()), 3 * min(by_second.values()))
        orders = Counter(int(message.due) for message in messages if message.topic == "ShopOrders")
        self.assertIn(orders.most_common(1)[0][0], (12, 13, 14))
        self.assertLess(max(map(len, (message.body for message in messages))), 4000)

    def test_sources_follow_each_other(self) -> None:
        both = Several([open_source(str(MASTER)), Traffic(0.3)])
        found = list(both)
        self.assertEqual([each.due for each in found[:229]], [0.0] * 229)
        self.assertGreater(len(found), 229)
        self.assertEqual(both.position, both.total)

    def test_what_is_due_later_goes_by_itself(self) -> None:
        first, later = Message("T", b"a", b""), Message("T", b"b", b"", due=1.0)
        self.assertEqual(list(grouped([first, first, later])), [[first, first], [later]])

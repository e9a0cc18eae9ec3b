"""Rows as messages: content, properties, queues, and which rows can't be sent."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import TestCase

import pyarrow as pa

from hatwisted.pipeline.remote.batchproducer import BATCH_COUNT, Outgoing
from hatwisted.pipeline.remote.rowcolumns import row_columns
from hatwisted.pipeline.remote.rowmessages import BadRow, RowMessages, RowOptions
from hatwisted.wire.properties import decode_properties

TEXTS = pa.map_(pa.string(), pa.string())
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def messages(
    columns: dict[str, list[Any]],
    types: dict[str, pa.DataType] | None = None,
    *,
    topic: str | None = "Orders",
    hash_by: tuple[str, ...] = (),
    partition: int = 0,
    **options: Any,
) -> list[Outgoing]:
    """Of a table's rows, as the first write would send them."""
    arrays = {name: pa.array(values, (types or {}).get(name)) for name, values in columns.items()}
    batch = pa.RecordBatch.from_pydict(arrays)
    chosen = row_columns(batch.schema, topic=topic, hash_by=hash_by)
    made = RowOptions(columns=chosen, topic=topic, **options)
    return list(RowMessages(made, "write", partition).of(batch))


def properties_of(message: Outgoing) -> dict[str, str]:
    """All but the unique key, which has to be there."""
    found = decode_properties(message.properties)
    del found["UNIQ_KEY"]
    return found


class RowMessagesTest(TestCase):
    def test_a_row_with_everything(self) -> None:
        (message,) = messages(
            {
                "topic": ["Paid"],
                "body": [b"\x00\xff"],
                "tags": ["eu"],
                "keys": [["o-1", "o-2"]],
                "unique_key": ["mine"],
                "properties": [{"a": "1", "UNIQ_KEY": "earlier", "DELAY": "3", "PGROUP": "g", "empty": ""}],
                "delay_level": [4],
                "flag": [9],
                "queue_id": [2],
                "broker": ["broker-b"],
            },
            {"properties": TEXTS},
            topic=None,
        )
        self.assertEqual((message.topic, message.body, message.flag), ("Paid", b"\x00\xff", 9))
        self.assertEqual((message.broker, message.queue_id, message.place), ("broker-b", 2, None))
        self.assertEqual(
            decode_properties(message.properties),
            {"a": "1", "TAGS": "eu", "KEYS": "o-1 o-2", "DELAY": "4", "UNIQ_KEY": "mine"},
        )
        self.assertTrue(message.alone)

    def test_a_row_of_kafkas(self) -> None:
        (message,) = messages(
            {"key": [b"k 1"], "value": ["text"], "headers": [[{"key": "h", "value": b"v"}]]},
            {"headers": HEADERS},
        )
        self.assertEqual(message.body, b"text")
        self.assertEqual(properties_of(message), {"h": "v", "KEYS": "k 1"})

    def test_headers_that_are_none_are_left_out_or_told(self) -> None:
        (message,) = messages(
            {"value": ["x"], "headers": [[None, {"key": "h", "value": None}, {"key": "i", "value": b"v"}]]},
            {"headers": HEADERS},
        )
        self.assertEqual(properties_of(message), {"i": "v"})
        with self.assertRaisesRegex(BadRow, "row 0 of partition 0: has a header without a key"):
            messages({"value": ["x"], "headers": [[{"key": None, "value": b"v"}]]}, {"headers": HEADERS})

    def test_null_is_an_empty_body(self) -> None:
        self.assertEqual(messages({"body": [None]}, {"body": pa.string()})[0].body, b"")

    def test_keys_are_the_same_again(self) -> None:
        rows: dict[str, list[Any]] = {"body": ["a", "a", "b"]}
        first, again = messages(rows), messages(rows)
        self.assertEqual([each.properties for each in first], [each.properties for each in again])
        self.assertEqual(len({each.properties for each in first}), 3)

    def test_queues(self) -> None:
        rows: dict[str, list[Any]] = {
            "body": ["x"] * 4,
            "queue_id": [1, None, None, 0],
            "partition": [5, 5, None, None],
        }
        places = [(each.queue_id, each.place) for each in messages(rows)]
        self.assertEqual(places[:2] + places[3:], [(1, None), (None, 5), (0, None)])
        self.assertIsNotNone(places[2][1])
        self.assertIsNone(messages(rows, keep_queues=False)[0].queue_id)
        by_key = [each.place for each in messages({"body": ["x"] * 3, "key": ["a", "b", "a"]})]
        self.assertEqual(by_key[0], by_key[2])
        self.assertNotEqual(by_key[0], by_key[1])
        rows |= {"customer": [1, 2, 1, None]}
        hashed = [(each.queue_id, each.place) for each in messages(rows, hash_by=("customer",))]
        self.assertEqual(hashed[0], hashed[2])
        self.assertEqual([queue for queue, _ in hashed], [None] * 4)
        self.assertEqual(len(set(hashed)), 3)

    def test_any_queue_means_all_of_them(self) -> None:
        """Within a task after each full request, and tasks begin with queues of their own."""
        many = messages({"body": ["x"] * (BATCH_COUNT * 8)})
        self.assertEqual(
            Counter(each.place % 8 for each in many if each.place is not None),
            dict.fromkeys(range(8), BATCH_COUNT),
        )
        firsts = {messages({"body": ["x"]}, partition=number)[0].place % 8 for number in range(64)}  # type: ignore[operator]
        self.assertGreater(len(firsts), 4)

    def test_a_bad_row_is_named(self) -> None:
        for told, columns in {
            "row 1 of partition 0: has no topic": {"body": ["x", "x"], "topic": ["T", None]},
            "row 1 of partition 0: topic TBW102 is the brokers' own": {
                "body": ["x", "x"],
                "topic": ["T", "TBW102"],
            },
            "row 0 of partition 0: topic 'a b'": {"body": ["x"], "topic": ["a b"]},
            "row 0 of partition 0: 40005 bytes of properties": {
                "body": ["x"],
                "topic": ["T"],
                "tags": ["t" * 40_000],
            },
            "row 0 of partition 0: flag 2147483648 must be from": {
                "body": ["x"],
                "topic": ["T"],
                "flag": [1 << 31],
            },
            "row 0 of partition 0: delay_level -1 must": {"body": ["x"], "topic": ["T"], "delay_level": [-1]},
            "row 0 of partition 0: .*invalid start byte": {"body": ["x"], "topic": ["T"], "key": [b"\xff"]},
        }.items():
            with self.subTest(told), self.assertRaisesRegex(BadRow, told):
                messages(columns, topic=None)

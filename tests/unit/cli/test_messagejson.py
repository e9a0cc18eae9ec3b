"""A message as JSON: one set of names, written by every command that shows messages and read by `produce`."""

from __future__ import annotations

import base64
import json

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster.consume import as_json as consumed
from hatwisted.cli.cluster.produce import parse_line
from hatwisted.cli.log.recordformat import as_json as dumped
from hatwisted.cli.messagejson import MessageFields
from hatwisted.clientcore.message import received
from hatwisted.wire.recordreader import decode_record
from hatwisted.wire.storedrecord import Record
from tests.support.golden import GOLDEN

COMMON = set(MessageFields.__annotations__)


def golden_records(count: int) -> list[Record]:
    """The first of RocketMQ's log."""
    data = (GOLDEN / "master" / "commitlog" / ("0" * 20)).read_bytes()
    records, position = [], 0
    while len(records) < count:
        record = decode_record(data, position)
        assert isinstance(record, Record)
        records.append(record)
        position += record.total_size
    return records


class MessageJsonTests(SynchronousTestCase):
    def test_dump_and_consume_say_the_same_of_a_message(self) -> None:
        for record in golden_records(5):
            shown = json.loads(dumped(record, "text"))
            got = json.loads(consumed(received(record, "broker-a")))
            self.assertEqual({name: shown[name] for name in COMMON}, {name: got[name] for name in COMMON})
            self.assertEqual(shown.get("body"), got.get("body"))

    def test_produce_reads_what_they_write(self) -> None:
        for record in golden_records(5):
            for line in (dumped(record, "text"), dumped(record, "base64")):
                given = parse_line(line)
                self.assertEqual(given.topic, record.topic)
                self.assertEqual(given.properties, record.properties)
                content = given.body.encode() if given.body64 is None else base64.b64decode(given.body64)
                self.assertEqual(content, received(record, "broker-a").body)

    def test_produce_reads_a_line_of_an_exported_table(self) -> None:
        line = {
            "topic": "T", "broker": "b", "queue_id": 1, "queue_offset": 2, "physical_offset": 3, "flag": 0,
            "store_timestamp": "2026-11-21T00:33:12.000Z", "born_timestamp": "2026-11-21T00:33:12.000Z",
            "store_host": "h:1", "born_host": "h:2", "tags": "t", "keys": ["k"], "unique_key": "U", "sys_flag": 0,
            "properties": {"a": "1"}, "reconsume_times": 0, "transaction": "none", "body": None, "body64": "/w==",
        }  # fmt: skip
        given = parse_line(json.dumps(line).encode())
        self.assertEqual((given.topic, given.tags, given.keys, given.body64), ("T", "t", ["k"], "/w=="))

    def test_lines_of_former_versions(self) -> None:
        given = parse_line(b'{"queue": 1, "offset": 2, "offsetId": "x", "msgId": "y", "bodyBase64": "/w=="}')
        self.assertEqual(given.body64, "/w==")

    def test_a_misspelt_name_is_one(self) -> None:
        error = self.assertRaises(ValueError, parse_line, b'{"bodi": "x"}')
        self.assertIn("bodi", str(error))
        self.assertRaises(ValueError, parse_line, b"[1]")
        self.assertRaises(ValueError, parse_line, b'{"body": 1}')

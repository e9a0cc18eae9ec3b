"""A message as JSON: one set of names, written by every command that shows messages and read by `produce` and
`pipeline import`. What an export writes is compared in tests/pipeline/jobs/test_export.py."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster.consume import as_json as consumed
from hatwisted.cli.cluster.produce import parse_line
from hatwisted.cli.log.recordformat import as_json as dumped
from hatwisted.clientcore.message import received, received_anyway
from hatwisted.clientcore.messagejson import NAMES, TABLE_NAMES, MessageFields
from hatwisted.pipeline.jobs.messages.importing import Sending
from hatwisted.pipeline.jobs.messages.messagefiles import MessageRow, open_message_file
from hatwisted.wire import layout
from hatwisted.wire.properties import decode_properties
from hatwisted.wire.recordreader import decode_record
from hatwisted.wire.storedrecord import Record
from tests.support.golden import GOLDEN
from tests.support.oddmessages import odd_log, sent_body

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


def written(record: Record) -> list[bytes]:
    """By every command that writes messages but the export. `msg get` writes as `consume` does."""
    return [dumped(record, "text"), dumped(record, "base64"), consumed(received(record, "broker-a"))]


def sample() -> list[Record]:
    return [*golden_records(5), *odd_log().records]


class MessageJsonTests(SynchronousTestCase):
    def imported(self, *lines: bytes) -> list[MessageRow]:
        """The rows that `pipeline import` makes of them."""
        path = Path(self.mktemp() + ".ndjson")
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return list(open_message_file(str(path)).rows())

    def test_dump_and_consume_say_the_same_of_a_message(self) -> None:
        for record in sample():
            shown = json.loads(dumped(record, "text"))
            got = json.loads(consumed(received(record, "broker-a")))
            self.assertEqual({name: shown[name] for name in COMMON}, {name: got[name] for name in COMMON})
            # A body that isn't text, or is compressed by another library, is shown as it is stored.
            if "body" in shown:
                self.assertEqual(shown["body"], got["body"])

    def test_every_name_is_one_of_those_that_are_listed(self) -> None:
        for record in sample():
            for line in written(record):
                names = list(json.loads(line))
                self.assertLessEqual(set(names), set(NAMES))
                self.assertEqual(names[: len(COMMON)], list(MessageFields.__annotations__))
        self.assertLessEqual(set(TABLE_NAMES.values()), set(NAMES))

    def test_produce_reads_what_they_write(self) -> None:
        for record in sample():
            for line in written(record):
                given = parse_line(line)
                self.assertEqual(given.topic, record.topic)
                self.assertEqual(given.properties, record.properties)
                content = given.body.encode() if given.body64 is None else base64.b64decode(given.body64)
                self.assertEqual(content, sent_body(record))

    def test_an_import_reads_what_they_write(self) -> None:
        for record in sample():
            for row in self.imported(*written(record)):
                self.assertEqual((row.topic, row.queue_id), (record.topic, record.queue_id))
                self.assertEqual(
                    (row.born, row.reconsume_times), (record.born_timestamp, record.reconsume_times)
                )
                self.assertEqual(row.all_properties, record.properties)
                self.assertEqual(row.content, sent_body(record))

    def test_an_id_that_says_where_a_message_lay_is_no_property_of_its_copy(self) -> None:
        line = json.dumps({"body": "", "messageId": "0A", "offsetMessageId": "0A"}).encode()
        other = json.dumps({"body": "", "messageId": "U1", "offsetMessageId": "0A"}).encode()
        one, two = self.imported(line, other)
        self.assertEqual((one.all_properties, two.all_properties), ({}, {"UNIQ_KEY": "U1"}))

    def test_what_has_waited_is_not_delayed_again(self) -> None:
        waited = {"body": "", "topic": "T", "properties": {"DELAY": "18", "REAL_TOPIC": "T", "REAL_QID": "0"}}
        to_wait = {"body": "", "topic": "T", "properties": {"DELAY": "18"}}
        sent = [
            Sending().message(0, row) for row in self.imported(*map(msgspec.json.encode, (waited, to_wait)))
        ]
        self.assertEqual([decode_properties(each.properties) for each in sent], [{}, {"DELAY": "18"}])
        self.assertEqual([each.alone for each in sent], [False, True])

    def test_what_a_group_failed_to_consume_is_produced_to_where_it_came_from(self) -> None:
        failed = [record for record in odd_log().records if record.topic.startswith("%")]
        self.assertEqual(len(failed), 2)
        for record in failed:
            for line in written(record):
                self.assertEqual(json.loads(line)["topic"], record.topic)
                self.assertEqual(parse_line(line).sent_to, "Orders")
        self.assertEqual(parse_line(b'{"topic": "%RETRY%desk"}').sent_to, "%RETRY%desk")

    def test_a_body_that_was_left_out_is_not_an_empty_one(self) -> None:
        (empty,) = [record for record in odd_log().records if not record.body]
        self.assertEqual(parse_line(dumped(empty, "none")).body, "")
        line = dumped(golden_records(1)[0], "none")
        self.assertIn("left out", str(self.assertRaises(ValueError, parse_line, line)))
        (row,) = self.imported(line)
        self.assertRaises(ValueError, lambda: row.content)

    def test_a_body_that_cannot_be_decompressed_is_marked_as_it_is_stored(self) -> None:
        for kind, name in ((layout.SYS_COMPRESSION_ZLIB, "zlib"), (layout.SYS_COMPRESSION_ZSTD, "zstd")):
            record = odd_log().add(body=b"\xffnothing", sys_flag=layout.SYS_COMPRESSED | kind)
            line = consumed(received_anyway(record, "broker-a"))
            self.assertEqual(json.loads(line)["compression"], name)
            self.assertRaises(ValueError, parse_line, line)
            (row,) = self.imported(line)
            self.assertRaises(ValueError, lambda row=row: row.content)

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

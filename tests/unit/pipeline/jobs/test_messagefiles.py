"""Files of messages as people write them: what is read, and how a bad one is refused."""

import base64
import csv
import gzip
import json
import os
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

from hatwisted.pipeline.jobs.messages.messagefiles import (
    BadMessageFile,
    find_message_files,
    open_message_file,
)

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    pa = None

PROPERTIES = {"PLACE": "Köln", "KEYS": "k1 k2", "TAGS": "red"}


class TestMessageFiles(unittest.TestCase):
    def setUp(self):
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def read(self, name, content, form=None):
        path = self.folder / name
        path.write_bytes(content)
        return list(open_message_file(str(path), form).rows())

    def assertBad(self, said, name, content):
        with self.assertRaises(BadMessageFile) as caught:
            self.read(name, content)
        self.assertIn(said, str(caught.exception))
        self.assertIn(str(self.folder / name), str(caught.exception))

    def test_ndjson(self):
        lines = [
            {"topic": "T", "body": "grün", "properties": PROPERTIES, "queue_id": 3, "somewhere": "else"},
            {"body64": base64.b64encode(b"\xff\x00").decode(), "tags": "t", "keys": ["a", "b"]},
            {"body": "", "born_timestamp": "2026-11-21T00:33:12.756Z", "keys": "c d"},
        ]
        text = "\n\n".join(json.dumps(line) for line in lines)
        one, two, three = self.read("m.ndjson", text.encode())
        self.assertEqual((one.topic, one.content, one.queue_id), ("T", "grün".encode(), 3))
        self.assertEqual(one.all_properties, PROPERTIES)
        self.assertEqual(two.content, b"\xff\x00")
        self.assertEqual(two.all_properties, {"TAGS": "t", "KEYS": "a b"})
        self.assertEqual(three.content, b"")
        self.assertEqual(three.all_properties, {"KEYS": "c d"})
        self.assertEqual(three.born, 1795221192756)

    def test_names_as_messages_have_them_in_json_or_in_tables(self):
        """Exports of NDJSON had the tables' until they got those of all commands."""
        former = {
            "queue_id": 3,
            "reconsume_times": 2,
            "born_timestamp": "1970-01-01T00:00:00.007Z",
            "unique_key": "U",
        }
        now = {
            "queueId": 3,
            "reconsumeTimes": 2,
            "bornTimestamp": 7,
            "messageId": "U",
            "offsetMessageId": "0A",
        }
        for names in (former, now):
            line = {"topic": "T", "body": "x", "flag": -7, "broker": "b", **names}
            (row,) = self.read("m.ndjson", json.dumps(line).encode())
            (cells,) = self.read(
                "m.csv", (",".join(line) + "\n" + ",".join(map(str, line.values()))).encode()
            )
            for each in (row, cells):
                self.assertEqual((each.topic, each.broker, each.queue_id, each.flag), ("T", "b", 3, -7))
                self.assertEqual((each.reconsume_times, each.born, each.content), (2, 7, b"x"))
                self.assertEqual(each.all_properties, {"UNIQ_KEY": "U"})

    def test_csv(self):
        path = self.folder / "m.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["topic", "body", "body64", "keys", "properties", "queue_id", "tags"])
            writer.writerow(["T", 'a "b",\nc', "", '["k 1"]', json.dumps(PROPERTIES), "2", ""])
            writer.writerow(["T", "", base64.b64encode(b"\r\x00").decode(), "k1 k2", "", "", "t"])
            writer.writerow(["T", "", "", "", "", "", ""])
        one, two, three = open_message_file(str(path)).rows()
        self.assertEqual((one.content, one.queue_id), (b'a "b",\nc', 2))
        self.assertEqual(one.all_properties, PROPERTIES)
        self.assertEqual(two.content, b"\r\x00")
        self.assertEqual(two.all_properties, {"KEYS": "k1 k2", "TAGS": "t"})
        self.assertEqual((three.content, three.queue_id), (b"", None))

    @unittest.skipIf(pa is None, "needs pyarrow")
    def test_parquet(self):
        properties = pa.array([list(PROPERTIES.items()), None], pa.map_(pa.string(), pa.string()))
        table = pa.table(
            {"body": [b"\xff", b""], "keys": [["a"], None], "properties": properties, "x": [1, 2]}
        )
        pq.write_table(table, self.folder / "m.parquet")
        one, two = open_message_file(str(self.folder / "m.parquet")).rows()
        self.assertEqual((one.content, one.all_properties), (b"\xff", PROPERTIES))
        self.assertEqual((two.content, two.all_properties), (b"", {}))

    def test_any_time_of_birth_that_a_producer_may_say(self):
        for text, born in (
            ("2026-11-21T00:33:12.756Z", 1795221192756),
            ("2026-11-21 01:33:12.756+01:00", 1795221192756),
            ("2026-11-21T00:33:12.756", 1795221192756),
            ("1969-12-31T23:59:59.999Z", -1),
            ("+10000-01-01T00:00:00.000Z", 253402300800000),
            ("+292278994-08-17T07:12:55.807Z", (1 << 63) - 1),
            ("-292275055-05-16T16:47:04.192Z", -1 << 63),
            ("0000-02-29T00:00:00Z", -62162121600000),
            (-7, -7),
        ):
            (row,) = self.read("m.ndjson", json.dumps({"body": "", "born_timestamp": text}).encode())
            self.assertEqual(row.born, born, text)
        for text in ("yesterday", "2026-13-01T00:00:00Z", "", "+10000-02-30T00:00:00Z"):
            row = json.dumps({"body": "", "born_timestamp": text})
            self.assertBad("m.ndjson line 1: born_timestamp", "m.ndjson", row.encode())

    @unittest.skipIf(pa is None, "needs pyarrow")
    def test_any_time_of_birth_in_parquet(self):
        born = [1795221192756, -1, None, 9_223_372_036_854_775, -9_223_372_036_854_775]
        micros = pa.array([each and each * 1000 for each in born], pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"body": [b""] * 5, "born_timestamp": micros}), self.folder / "m.parquet")
        rows = open_message_file(str(self.folder / "m.parquet")).rows()
        self.assertEqual([row.born for row in rows], born)

    def test_gzip(self):
        (row,) = self.read("m.jsonl.gz", gzip.compress(b'{"body": "x"}\n'))
        self.assertEqual(row.content, b"x")

    def test_a_file_that_is_packed_badly_is_named_with_its_last_row(self):
        bodies = [base64.b64encode(os.urandom(900)) for _ in range(40)]
        for name, lines in (
            ("m.ndjson.gz", [b'{"body64": "%s"}' % body for body in bodies]),
            ("m.csv.gz", [b"body64", *bodies]),
        ):
            packed = gzip.compress(b"\n".join(lines))
            self.assertBad("line", name, packed[:-9000])
            self.assertBad("line", name, packed[:9000] + bytes(40) + packed[9040:])
            self.assertBad("a gzipped file", name, lines[0])

    def test_the_mark_that_spreadsheets_put_in_front_is_no_part_of_a_file(self):
        (row,) = self.read("m.csv", "body,tags\r\nx,t\r\n".encode("utf-8-sig"))
        self.assertEqual((row.content, row.tags), (b"x", "t"))
        (row,) = self.read("m.ndjson", '{"body": "x"}'.encode("utf-8-sig"))
        self.assertEqual(row.content, b"x")

    def test_a_time_of_birth_in_ms_as_text(self):
        rows = self.read("m.csv", b"body,born_timestamp\nx,1795221192756\nx,-7\n")
        self.assertEqual([row.born for row in rows], [1795221192756, -7])

    def test_numbers_that_no_message_can_have_are_refused(self):
        for name in ("flag", "reconsume_times", "queue_id"):
            for value in (1 << 31, -(1 << 31) - 1):
                self.assertBad("line 1", "m.ndjson", json.dumps({"body": "", name: value}).encode())
                self.assertBad("line 2", "m.csv", f"body,{name}\nx,{value}\n".encode())
        self.assertBad("queue_id", "m.ndjson", b'{"body": "", "queue_id": -1}')
        for born in (1 << 63, -(1 << 63) - 1, "+999999999-01-01T00:00:00Z"):
            row = json.dumps({"body": "", "born_timestamp": born})
            self.assertBad("line 1", "m.ndjson", row.encode())
        (row,) = self.read("m.ndjson", b'{"body": "", "flag": -2147483648}')
        self.assertEqual(row.flag, -1 << 31)

    def test_bad_rows_are_named(self):
        good = b'{"body": "x"}\n'
        self.assertBad("m.ndjson line 2", "m.ndjson", good + b"nonsense\n")
        self.assertBad("queue_id", "m.ndjson", good + b'{"body": "x", "queue_id": "one"}')
        self.assertBad("m.csv line 2", "m.csv", b"body,flag\nx,high\n")
        self.assertBad("no column body", "m.csv", b"boddy\nx\n")
        self.assertBad("name doesn't end in", "m.txt", good)
        (row,) = self.read("n.ndjson", b'{"body64": "%%%"}')
        self.assertRaises(ValueError, lambda: row.content)

    @unittest.skipIf(pa is None, "needs pyarrow")
    def test_a_foreign_parquet_file(self):
        self.assertBad("m.parquet", "m.parquet", b"PAR1 no")
        pq.write_table(pa.table({"name": ["x"]}), self.folder / "n.parquet")
        with self.assertRaisesRegex(BadMessageFile, "no column body"):
            list(open_message_file(str(self.folder / "n.parquet")).rows())

    def test_a_folder_is_read_in_the_order_of_its_names(self):
        for name in ("part-00001.json", "part-00000.json", "_SUCCESS", ".part-00000.json.crc", "notes.txt"):
            (self.folder / name).touch()
        found = [os.path.basename(path) for path in find_message_files([str(self.folder)])]
        self.assertEqual(found, ["part-00000.json", "part-00001.json"])

    def test_an_unfinished_export_is_refused(self):
        (self.folder / "part-00000.json").touch()
        (self.folder / "_temporary").mkdir()
        with self.assertRaisesRegex(BadMessageFile, "interrupted"):
            find_message_files([str(self.folder)])

    def test_no_files(self):
        self.assertRaises(BadMessageFile, find_message_files, [str(self.folder)])
        self.assertRaises(BadMessageFile, find_message_files, [str(self.folder / "x.csv")])

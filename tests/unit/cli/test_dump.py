"""`hatwisted log dump` and `tail`: what is shown, what is let through, and following a log that grows."""

from __future__ import annotations

import base64
import json
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.log import dump
from hatwisted.cli.log.dump import RecordFilter, follow, last_records
from hatwisted.cli.log.recordformat import as_json, as_line, body_text
from hatwisted.wire import layout
from hatwisted.wire.record import encode_blank, encode_record, make_record
from hatwisted.wire.storedrecord import Record
from tests.support.clistores import golden_copy, open_log, overwrite, run, write_log
from tests.support.golden import GOLDEN
from tests.support.logbuilder import LogBuilder

MASTER = GOLDEN / "master"
TOKYO = timezone(timedelta(hours=9))


def shown(*options: object, store: Path = MASTER) -> list[dict[str, Any]]:
    """The records `dump --json` shows."""
    result = run("dump", store, "--json", *options)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def offsets(*options: object) -> list[int]:
    return [record["physicalOffset"] for record in shown(*options)]


class DumpTests(SynchronousTestCase):
    def test_json_gives_every_field(self) -> None:
        (record,) = shown("--from", 227, "--limit", 1)
        self.assertEqual(record["physicalOffset"], 227)
        self.assertEqual((record["topic"], record["queueId"], record["queueOffset"]), ("TopicB", 1, 0))
        self.assertEqual(record["offsetMessageId"], "7F00000100002A9F00000000000000E3")
        self.assertEqual((record["bornHost"], record["storeHost"]), ("127.0.0.1:52088", "127.0.0.1:10911"))
        self.assertEqual((record["body"], record["bodySize"], record["bodyCRC"]), ("\0", 1, 0x5202EF8D))
        self.assertEqual(record["properties"]["KEYS"], "key1 alt1")

    def test_all_records_in_order(self) -> None:
        self.assertEqual((len(offsets()), offsets()), (246, sorted(offsets())))

    def test_properties_that_end_in_a_zero_byte(self) -> None:
        """As a Java program's may: nothing is torn where other records follow."""
        log = LogBuilder(file_size=4096)
        log.add("T", 0, b"body", raw=b"own\x01ends so\0")
        log.add("T", 0, b"body")
        log.save(store := Path(self.mktemp()))
        first, _ = shown(store=store)
        self.assertEqual(first["properties"], {"own": "ends so\0"})
        self.assertEqual(len(run("tail", store, "-n", 2).stdout.splitlines()), 2)

    def test_text_is_one_line_a_record(self) -> None:
        lines = run("dump", MASTER, "--limit", 3).stdout.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertIn(
            " TopicB/1/0 211B tag=Tag1 keys=key1 alt1 id=FD0000000000000000000000000000021821", lines[1]
        )
        self.assertTrue(lines[1].endswith(r"body=\x00"))
        self.assertTrue(lines[2].endswith("body=Grüße 世界 🚀"))

    def test_filters_by_topic_and_queue(self) -> None:
        records = shown("--topic", "TopicTx", "--queue", 3)
        self.assertEqual({(record["topic"], record["queueId"]) for record in records}, {("TopicTx", 3)})
        self.assertEqual(
            len(shown("--topic", "TopicTx")), len(records) + len(shown("--topic", "TopicTx", "--queue", 1))
        )
        self.assertEqual(shown("--topic", "Nobody"), [])

    def test_filters_by_key_and_unique_key(self) -> None:
        (record,) = shown("--key", "b0")
        self.assertEqual(record["physicalOffset"], 102133)
        unique = record["properties"]["UNIQ_KEY"]
        self.assertEqual(offsets("--key", unique), [102133])
        self.assertEqual(offsets("--key", "b"), [])
        self.assertEqual(offsets("--key", "no such key"), [])

    def test_bounds_by_offset(self) -> None:
        self.assertEqual(offsets("--from", 227, "--to", 667), [227, 438])
        self.assertEqual(offsets("--from", 1, "--to", 228), [227])
        self.assertEqual(offsets("--from", 111453), [])
        self.assertEqual(offsets("--from", 65536, "--limit", 1), [65536])

    def test_bounds_by_time(self) -> None:
        every = shown()
        middle = every[130]["storeTimestamp"]
        moment = datetime.fromtimestamp(middle / 1000, UTC)
        later = [record["physicalOffset"] for record in every if record["storeTimestamp"] >= middle]
        text = moment.replace(tzinfo=None).isoformat()
        self.assertEqual(offsets("--from", text), later)
        self.assertEqual(offsets("--from", moment.astimezone(TOKYO).isoformat()), later)
        self.assertEqual(len(offsets("--to", text)), 246 - len(later))

    def test_bodies_as_base64_or_not_at_all(self) -> None:
        (record,) = shown("--from", 438, "--limit", 1, "--body", "base64")
        self.assertEqual(base64.b64decode(record["body64"]).decode(), "Grüße 世界 🚀")
        (record,) = shown("--from", 438, "--limit", 1, "--body", "none")
        self.assertFalse({"body", "bodyBase64"} & record.keys())
        self.assertNotIn("body=", run("dump", MASTER, "--limit", 1, "--body", "none").stdout)

    def test_compressed_body_is_shown_as_text(self) -> None:
        packed = next(record for record in shown() if record["sysFlag"] & layout.SYS_COMPRESSED)
        self.assertEqual(
            (packed["compression"], packed["bodySize"], packed["body"]), ("zlib", 28, "x" * 5000)
        )

    def test_limit_zero(self) -> None:
        self.assertEqual(shown("--limit", 0), [])

    def test_after_the_last_one_that_is_wanted_nothing_is_read(self) -> None:
        store = golden_copy(self.mktemp())
        last = run("dump", store, "--key", "b0", "--json").stdout
        overwrite(store, json.loads(last)["physicalOffset"] + 5000, b"????" * 100)
        self.assertEqual(run("dump", store, "--key", "b0", "--json").exit_code, 1)
        result = run("dump", store, "--key", "b0", "--json", "--limit", 1)
        self.assertEqual((result.exit_code, result.stdout), (0, last))

    def test_damage_is_passed_over_and_named(self) -> None:
        store = golden_copy(self.mktemp())
        overwrite(store, 4962, b"????")
        result = run("dump", store, "--json")
        self.assertEqual((result.exit_code, len(result.stdout.splitlines())), (1, 245))
        self.assertEqual(
            result.stderr,
            "damage at offset 4958: unknown magic 3f3f3f3f; valid records resume at 5400\n",
        )


class FormatTests(SynchronousTestCase):
    def test_line_stays_a_line(self) -> None:
        record = make_record("T", b"a\nb\tc\x1b[31m", raw_properties=b"KEYS\x01k\n1")
        line = as_line(record, "text")
        self.assertTrue(line.isprintable(), line)
        self.assertTrue(line.endswith(r"keys=k\n1 body=a\nb\tc\x1b[31m"))

    def test_long_body_is_cut_in_a_line_and_whole_in_json(self) -> None:
        record = make_record("T", b"x" * 1000)
        self.assertTrue(as_line(record, "text").endswith("x... (1000 bytes)"))
        self.assertEqual(json.loads(as_json(record, "text"))["body"], "x" * 1000)

    def test_what_is_no_text_becomes_base64(self) -> None:
        for body, flag in (
            (b"\xff\xfe", 0),
            (b"no zlib", 0x301),
            (b"lz4", 0x101),
            (zlib.compress(b"\xff"), 1),
        ):
            record = make_record("T", body, sys_flag=flag)
            self.assertIsNone(body_text(record))
            self.assertEqual(base64.b64decode(json.loads(as_json(record, "text"))["body64"]), body)
            self.assertIn("body=base64:", as_line(record, "text"))

    def test_compressed_body_is_inflated_within_bounds(self) -> None:
        self.patch(dump, "POLL_INTERVAL", 0)
        bomb = make_record("T", zlib.compress(bytes(5 << 20)), sys_flag=1)
        self.assertIsNone(body_text(bomb))
        self.assertEqual(body_text(make_record("T", zlib.compress(b"ok"), sys_flag=1)), "ok")

    def test_transaction_and_impossible_time(self) -> None:
        record = make_record("T", b"", sys_flag=8, prepared_transaction_offset=77, store_timestamp=1 << 62)
        self.assertIn(f" {1 << 62} T/0/0 ", as_line(record, "none"))
        self.assertIn("transaction=commit@77", as_line(record, "none"))


class TailTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store = Path(self.mktemp())

    def test_last_records_across_files(self) -> None:
        log = write_log(self.store, [b"x" * 300] * 40)
        records, end = log.records, log.end
        for count in (0, 1, 5, 39, 40, 100):
            found, reached = last_records(open_log(self.store, 4096), RecordFilter(), count)
            self.assertEqual(found, records[len(records) - min(count, 40) :], count)
            self.assertEqual(reached, end)

    def test_file_made_ahead_does_not_hide_the_end(self) -> None:
        log = write_log(self.store, [b"x" * 300] * 5)
        records, end = log.records, log.end
        (self.store / "commitlog" / layout.file_name(4096)).write_bytes(bytes(4096))
        for count in (2, 0):
            found, reached = last_records(open_log(self.store, 4096), RecordFilter(), count)
            self.assertEqual((found, reached), (records[5 - count :], end), count)

    def test_filters_count_before_the_limit(self) -> None:
        records = write_log(self.store, [b"x" * 300] * 40).records
        found, _ = last_records(open_log(self.store, 4096), RecordFilter(queue_id=1), 12)
        self.assertEqual(found, records[17::2])

    def test_command(self) -> None:
        lines = run("tail", MASTER, "-n", 2, "--json").stdout.splitlines()
        self.assertEqual([json.loads(line)["physicalOffset"] for line in lines], [111191, 111452])

    def test_following_ends_with_an_interrupt(self) -> None:
        def interrupt(seconds: float) -> None:
            raise KeyboardInterrupt

        self.patch(time, "sleep", interrupt)
        result = run("tail", MASTER, "-n", 1, "-f")
        self.assertEqual((result.exit_code, len(result.stdout.splitlines())), (0, 1))

    def test_empty_log(self) -> None:
        write_log(self.store, [])
        self.assertEqual(last_records(open_log(self.store, 4096), RecordFilter(), 5), ([], 0))


class Interrupted(Exception):
    """Ends a `follow` in a test."""


class FollowTests(SynchronousTestCase):
    """What is appended while somebody looks: each sleep is one step of the writer."""

    def setUp(self) -> None:
        self.store = Path(self.mktemp())
        self.written = write_log(self.store, [b"x" * 300] * 3)
        self.warnings: list[str] = []

    def followed(self, *steps: tuple[int, bytes]) -> list[Record]:
        """Follow from the end; before each look one of `steps` (offset, bytes) is written."""
        todo = list(steps)

        def sleep(seconds: float) -> None:
            self.assertEqual(seconds, dump.POLL_INTERVAL)
            if not todo:
                raise Interrupted
            offset, data = todo.pop(0)
            path = self.store / "commitlog" / layout.file_name(offset - offset % 4096)
            if not path.exists():
                path.write_bytes(bytes(4096))
            overwrite(self.store, offset, data, 4096)

        found: list[Record] = []
        log = open_log(self.store, 4096)
        try:
            for record in follow(log, self.written.end, RecordFilter(), sleep, self.warnings.append):
                found.append(record)
        except Interrupted:
            return found
        raise AssertionError("follow ended by itself")

    def record(self, at: int, body: bytes = b"fresh") -> tuple[Record, bytes]:
        record = make_record("T", body, physical_offset=at, store_timestamp=1)
        return record, encode_record(record)

    def test_records_appear_as_they_are_appended(self) -> None:
        first, data = self.record(self.written.end)
        second, more = self.record(self.written.end + len(data))
        found = self.followed(
            (self.written.end, data), (self.written.end, b""), (second.physical_offset, more)
        )
        self.assertEqual(found, [first, second])

    def test_B94_half_a_record_is_waited_for(self) -> None:
        record, data = self.record(self.written.end, b"y" * 400)
        steps = [(self.written.end, data[:cut]) for cut in (3, 30, 200, len(data))]
        self.assertEqual(self.followed(*steps), [record])
        self.assertEqual(self.warnings, [])

    def test_B94_properties_that_are_half_written_are_waited_for(self) -> None:
        """Without their end the rest passes for a message: only the body has a checksum."""
        whole = make_record(
            "T", b"y", physical_offset=self.written.end, raw_properties=b"a\x01one\x02b\x01two"
        )
        data = encode_record(whole)
        steps = [(self.written.end, data[:-cut]) for cut in (12, 7, 1)]
        self.assertEqual(self.followed(*steps, (self.written.end, data)), [whole])
        self.assertEqual(self.warnings, [])

    def test_B94_properties_that_end_in_a_zero_byte_are_shown_in_the_end(self) -> None:
        whole = make_record("T", b"y", physical_offset=self.written.end, raw_properties=b"a\x01one\0")
        record, more = self.record(self.written.end + len(encode_record(whole)))
        steps = [(self.written.end, encode_record(whole)), *[(self.written.end, b"")] * (dump.STALLED + 1)]
        self.assertEqual(self.followed(*steps), [whole])
        self.assertEqual(self.followed(steps[0], (record.physical_offset, more)), [whole, record])

    def test_next_file_is_gone_on_with(self) -> None:
        room = 4096 - self.written.end
        record, data = self.record(4096)
        self.assertEqual(self.followed((self.written.end, encode_blank(room)), (4096, data)), [record])

    def changed(self, at: int, change: Callable[[Path], object]) -> list[int]:
        """Where the records are that are shown after a file of the log was changed and one was written.

        - at: where that one is
        - change: of the folder
        """
        folder = self.store / "commitlog"
        steps = [lambda: change(folder), lambda: self.write(at)]

        def sleep(seconds: float) -> None:
            if not steps:
                raise Interrupted
            steps.pop(0)()

        found: list[int] = []
        log = open_log(self.store, 4096)
        try:
            for record in follow(log, self.written.end, RecordFilter(), sleep, self.warnings.append):
                found.append(record.physical_offset)
        except Interrupted:
            return found
        raise AssertionError("follow ended by itself")

    def write(self, at: int) -> None:
        overwrite(self.store, at, self.record(at)[1], 4096)

    def test_what_is_deleted_meanwhile_is_named_and_passed_over(self) -> None:
        def expire(folder: Path) -> None:
            (folder / layout.file_name(4096)).write_bytes(bytes(4096))
            (folder / layout.file_name(0)).unlink()

        self.assertEqual(self.changed(4096, expire), [4096])
        self.assertEqual(self.warnings, [f"offsets {self.written.end} to 4096 have been deleted meanwhile"])

    def test_a_log_that_has_become_shorter_is_followed_from_its_end(self) -> None:
        short = write_log(Path(self.mktemp()), [b"x"])
        self.written = write_log(Path(self.mktemp()), [b"x" * 300] * 40)
        self.store = Path(self.mktemp())
        write_log(self.store, [b"x" * 300] * 40)

        def replace(folder: Path) -> None:
            for file in folder.iterdir():
                file.unlink()
            write_log(self.store, [b"x"])

        self.assertEqual(self.changed(short.end, replace), [short.end])
        self.assertIn(f"it ends at {short.end}, not at {self.written.end}", self.warnings[0])

    def test_record_longer_than_a_look(self) -> None:
        self.patch(dump, "FOLLOW_CHUNK", 128)
        record, data = self.record(self.written.end, b"z" * 1000)
        self.assertEqual(self.followed((self.written.end, data)), [record])

    def test_lasting_damage_is_named_and_passed_over(self) -> None:
        record, data = self.record(self.written.end + 100)
        steps = [(self.written.end, b"\0\0\0\x64broken"), (record.physical_offset, data)]
        found = self.followed(*steps, *[(record.physical_offset, b"")] * (dump.STALLED + 2))
        self.assertEqual(found, [record])
        self.assertEqual(
            self.warnings, [f"no valid record at offset {self.written.end}: unknown magic 62726f6b"]
        )

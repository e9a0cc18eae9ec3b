"""The last message of each key, of whichever kind the tables are."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any
from unittest import TestCase
from unittest.mock import patch

import msgspec
import pyarrow as pa
from click.testing import CliRunner
from deltalake import DeltaTable

from hatwisted.cli.main import main
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.errors import WrongSchema
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.jobs.latest import latesttable
from hatwisted.pipeline.jobs.latest.latesttable import LatestResult, latest
from hatwisted.wire.properties import encode_properties
from hatwisted.wire.storedrecord import Record, crc
from tests.support.growing import GrowingStore
from tests.support.soak import times

Last = dict[tuple[str, str, str], tuple[int, bytes | None]]
"""By topic, key and broker: offset and body."""
COLUMNS = ("topic", "key", "broker", "physical_offset", "body")


class KeyedStore(GrowingStore):
    """Few keys, and a message without a body now and then."""

    def _record(self, number: int) -> Record:
        chance = random.Random(number * 31 + self._seed)
        record = super()._record(number)
        key = "" if number % 17 == 3 else f"k{chance.randrange(12)}"
        body = b"" if number % 5 == 4 else record.body
        return msgspec.structs.replace(
            record,
            topic=f"topic-{number % 2}",
            body=body,
            body_crc=crc(body),
            raw_properties=encode_properties({"KEYS": key}) if key else b"",
        )


class Killed(BaseException):
    """The process is gone."""


class LatestCase(TestCase):
    """Two stores, where they land, and their last messages: Delta tables, if a test doesn't say otherwise."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.stores = [KeyedStore(self.folder / f"broker-{name}", seed) for seed, name in enumerate("ab")]
        self.table, self.into = str(self.folder / "table"), str(self.folder / "last")
        self.left_over = set[str]()
        """What killed runs wrote that no version has."""

    def land(self, *stores: KeyedStore, **options: Any) -> None:
        how = LandOptions(**{"engine": "local", "compact_below": None, **options})
        land([str(store.root) for store in stores or self.stores], self.table, how)

    def latest(self, **options: Any) -> LatestResult:
        return latest(self.table, self.into, **options)

    def grow(self, number: int, **options: Any) -> None:
        """So many messages more in each store, landed."""
        for store in self.stores:
            store.append(number)
        self.land(**options)

    def rows(self) -> Last:
        return self.by_key(DeltaTable(self.into).to_pyarrow_table(columns=list(COLUMNS)))

    def by_key(self, table: pa.Table) -> Last:
        """No key is there twice."""
        rows = table.to_pylist()
        found = {
            (row["topic"], row["key"], row["broker"]): (row["physical_offset"], row["body"]) for row in rows
        }
        self.assertEqual(len(found), len(rows))
        return found

    def landed_version(self) -> int:
        """Of the table that is read."""
        return DeltaTable(self.table).version()

    def partitioned_by(self) -> list[str]:
        """What the files of the last messages are apart by."""
        return DeltaTable(self.into).metadata().partition_columns

    def file_count(self) -> int:
        """Of the last messages' table, as it is now."""
        return len(DeltaTable(self.into).file_uris())

    def unmentioned(self) -> set[str]:
        """Data files in the last messages' folder, hidden or not, that no version of them has."""
        mentioned = "".join(entry.read_text() for entry in Path(self.into).glob("_delta_log/*.json"))
        return {path.name for path in Path(self.into).glob("topic=*/*") if path.name not in mentioned}

    def expected(self, *stores: KeyedStore) -> Last:
        """By going through the records one by one."""
        return {
            (record.topic, key, store.root.name): (record.physical_offset, record.body or None)
            for store in stores or self.stores
            for record in store.records
            if (key := record.properties.get("KEYS"))
        }

    def steps_to_die_at(self, *steps: tuple[Any, str]) -> None:
        """A run is killed before and after each of these calls, one moment after the other, and rows land between.

        - steps: object and name of what is called. Every third moment is tried, in the soak all of them
        """
        for moment in count(step=1 if times(1) > 1 else 3):
            if moment < 10:
                self.grow(12)
            if not self._dies_at(moment, steps):
                break
            found = self.rows()
            for known_by, (offset, _) in self.expected().items():
                self.assertLessEqual(found.get(known_by, (offset,))[0], offset)
        self.assertGreater(moment, 10)
        self.assertNotEqual(self.left_over, set[str]())
        self.grow(12)
        self.latest()
        self.assertEqual(self.rows(), self.expected())
        self.assertEqual(self.latest().rows, 0)
        self.assertEqual(self.unmentioned(), set())

    def _dies_at(self, moment: int, steps: Sequence[tuple[Any, str]]) -> bool:
        """Does a run get as far as this moment? Then it dies there."""
        moments = count()

        def around(do: Any) -> Any:
            def stepwise(*given: Any, **named: Any) -> Any:
                if next(moments) == moment:
                    raise Killed
                done = do(*given, **named)
                if next(moments) == moment:
                    raise Killed
                return done

            return stepwise

        with ExitStack() as patches:
            patches.enter_context(patch.object(latesttable, "MERGE_BYTES", 5_000))
            for owner, name in steps:
                patches.enter_context(patch.object(owner, name, around(getattr(owner, name))))
            try:
                self.latest()
            except Killed:
                self.left_over |= self.unmentioned()
                return True
        return False


class AnyMergeCase(LatestCase):
    """What holds of every kind of table. Test modules don't import it by its own name: it would run there."""

    merges = 9
    """After which small files have become few."""

    def test_each_key_has_its_last_message(self) -> None:
        for number in (200, 0, 150):
            self.grow(number)
            found = self.latest()
            self.assertEqual(self.rows(), self.expected())
            self.assertEqual((found.rows, found.version), (2 * number, self.landed_version()))
        self.assertIn(None, [body for _, body in self.rows().values()])
        self.assertEqual(self.partitioned_by(), ["topic"])

    def test_brokers_may_come_in_any_order(self) -> None:
        for store in self.stores:
            store.append(150)
        for store in reversed(self.stores):
            self.land(store)
            self.latest()
        self.assertEqual(self.rows(), self.expected())

    def test_an_interrupted_run_is_made_up_for(self) -> None:
        self.grow(200, max_bytes_per_trigger=20_000)
        merge = latesttable._Run._merge
        for after in range(3):
            calls = count()

            def broken(*given: Any, after: int = after, calls: Any = calls) -> None:
                merge(*given)
                if next(calls) == after:
                    raise KeyboardInterrupt

            with (
                patch.object(latesttable, "MERGE_BYTES", 20_000),
                patch.object(latesttable._Run, "_merge", broken),
                self.assertRaises(KeyboardInterrupt),
            ):
                self.latest()
        self.latest()
        self.assertEqual(self.rows(), self.expected())
        self.assertEqual(self.latest().rows, 0)

    def test_many_small_merges_leave_few_files(self) -> None:
        for _ in range(self.merges):
            self.grow(2)
            self.latest(key="physical_offset")
        self.assertLess(self.file_count(), self.merges)
        self.assertEqual(len(self.rows()), 4 * self.merges)
        self.assertEqual(self.latest(key="physical_offset").rows, 0)

    def test_of_some_topics_and_by_another_column(self) -> None:
        self.grow(60)
        found = self.latest(topics=["topic-1"], key="queue_id")
        self.assertEqual(found.rows, 60)
        self.assertEqual(
            set(self.rows()), {("topic-1", each, f"broker-{name}") for each in "01" for name in "ab"}
        )

    def test_the_command(self) -> None:
        self.grow(100)
        command = ["pipeline", "latest", self.table, self.into]
        done = CliRunner().invoke(main, command)
        self.assertEqual(done.exit_code, 0, done.output)
        self.assertIn("keys inserted, 0 updated", done.output)
        done = CliRunner().invoke(main, [*command, "--json"])
        self.assertEqual(json.loads(done.output)["rows"], 0)
        done = CliRunner().invoke(main, [*command, "--key", "nothing"])
        self.assertEqual(done.exit_code, 2)
        self.assertEqual(self.rows(), self.expected())


class AnyRefusedCase(LatestCase):
    """As AnyMergeCase."""

    absent = "there's no table"
    """What is said of a landed table that isn't there."""

    def test_what_does_not_fit_is_told_in_a_line(self) -> None:
        with self.assertRaisesRegex(WrongTable, self.absent):
            self.latest()
        self.grow(20)
        with self.assertRaisesRegex(WrongSchema, "column body can't be the key: give one of topic, .*keys"):
            self.latest(key="body")
        self.latest()
        for other in ({"key": "unique_key"}, {"topics": ["topic-1"]}):
            with self.assertRaisesRegex(
                WrongTable, "by another key or of other topics .key keys, topics all"
            ):
                self.latest(**other)
        with self.assertRaisesRegex(WrongSchema, "has a column key"):
            latest(self.into, str(self.folder / "more"))

"""Topics with schemas landed into Iceberg tables: the same columns and dead letters as in Delta tables, each once
through interruptions at every step."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyiceberg.types import IntegerType

from hatwisted.pipeline.delta.errors import Fenced, WrongTable
from hatwisted.pipeline.iceberg import deadletters, snapshots, upkeep
from hatwisted.pipeline.iceberg.catalogs import IcebergName
from hatwisted.pipeline.iceberg.deadletters import settle
from hatwisted.pipeline.iceberg.snapshots import IcebergClaim, claim
from hatwisted.pipeline.jobs.land import locallanding
from hatwisted.pipeline.jobs.land.icebergbatches import settle_ended
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from tests.support import schemacase
from tests.support.icebergcatalog import iceberg_catalog
from tests.support.logbuilder import START_TIME, LogBuilder
from tests.support.schemacase import BAD, GOOD, ORDER

NAME = IcebergName.parse("iceberg:lake.rocketmq.messages")


class IcebergSchemas(schemacase.SchemaCase):
    """SchemaCase's tables, in a catalog."""

    def setUp(self) -> None:
        super().setUp()
        self.enterContext(iceberg_catalog(self.folder))
        self.table, self.beside = str(NAME), str(NAME.beside)

    def loaded(self, table: str) -> Table:
        return load_catalog("lake").load_table(IcebergName.parse(table).table)

    def rows(self, table: str) -> pa.Table:
        return self.loaded(table).scan().to_arrow()

    def files(self, table: str) -> set[str]:
        return {task.file.file_path.rpartition("/")[2] for task in self.loaded(table).scan().plan_files()}

    def version(self) -> int:
        return len(self.loaded(self.table).snapshots())

    def merging(self, number: int) -> AbstractContextManager[Any]:
        return patch.object(upkeep, "MIN_FILES", number)

    def on_disk(self) -> set[str]:
        """Lists of dead letters, too."""
        return {path.name for path in (self.folder / "warehouse").rglob("data/**/*") if path.is_file()}


class LandedValuesTests(IcebergSchemas, schemacase.AnyValuesCase):
    def test_what_is_null_and_what_is_empty_are_two_things(self) -> None:
        """Also where lists and maps are of records, which pyiceberg by itself doesn't keep apart."""
        record = {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True}]}
        kinds = {
            "list": {"type": "array", "elementType": record, "containsNull": True},
            "map": {"type": "map", "keyType": "string", "valueType": record, "valueContainsNull": True},
            "plain": {"type": "array", "elementType": "long", "containsNull": True},
        }
        fields = [{"name": name, "type": kind, "nullable": True} for name, kind in kinds.items()]
        bodies = (
            {"list": [{"n": 1}, {"n": 2}], "map": {"a": {"n": 1}}, "plain": [1]},
            {},
            {"list": [], "map": {}, "plain": []},
            {"list": [{}, None], "map": {"b": None}, "plain": [None]},
        )
        for _ in range(2):
            self.append(*(json.dumps(body).encode() for body in bodies))
            self.assertEqual(self.land({"type": "struct", "fields": fields}).dead_letters, {})
        with self.merging(2):
            how = LandOptions(engine="local", schemas=self.schema({"type": "struct", "fields": fields}))
            found = land([str(self.store)], self.table, how)
        self.assertEqual((found.compacted, found.put_off), (2, ()))
        expected = [
            {"list": [{"n": 1}, {"n": 2}], "map": [("a", {"n": 1})], "plain": [1]},
            {"list": None, "map": None, "plain": None},
            {"list": [], "map": [], "plain": []},
            {"list": [{"n": None}, None], "map": [("b", None)], "plain": [None]},
        ]
        self.assertEqual(self.values(), expected * 2)
        # As others read it:
        (file,) = (task.file.file_path for task in self.loaded(self.table).scan().plan_files())
        there = pq.read_table(file.removeprefix("file://")).sort_by("physical_offset").column("Orders")
        self.assertEqual(there.to_pylist(), expected * 2)


class GrowthTests(IcebergSchemas, schemacase.AnyGrowthCase):
    def test_columns_become_wider(self) -> None:
        kinds = {"type": "struct", "fields": [{"name": "price", "type": "decimal(10,2)", "nullable": True}]}
        self.append(b'{"price": 1.25}')
        self.land(kinds)
        catalog = load_catalog("lake")
        with catalog.load_table(NAME.table).update_schema() as change:
            change.add_column(("Orders", "paid"), IntegerType())
        kinds["fields"] = [
            {"name": "price", "type": "decimal(12,2)", "nullable": True},
            {"name": "paid", "type": "long", "nullable": True},
        ]
        self.append(b'{"price": 1234567890.25, "paid": 4294967296}')
        self.assertEqual(self.land(kinds).dead_letters, {})
        self.assertEqual(
            [(str(value["price"]), value["paid"]) for value in self.values()],
            [("1.25", None), ("1234567890.25", 1 << 32)],
        )


class OnceTests(IcebergSchemas, schemacase.AnyOnceCase):
    told_by = deadletters.__name__

    def test_a_run_that_ends_anywhere_is_made_up_for(self) -> None:
        """Some steps of writing fail, before or after they are done: snapshots of both tables, and the lists."""
        bodies = [GOOD[0] if number % 3 else b"bad %d" % number for number in range(600)]
        self.append(*bodies)
        ends, calls = set[tuple[str, str]](), Counter[str]()
        # No run ends right behind its claim: then nobody would remove the files of the one before.
        every = {"commit": 12, "list": 5, "settled": 7, "kept": 3}

        def ending(step: str, do: Any) -> Any:
            def called(*given: Any, **more: Any) -> Any:
                calls[step] += 1
                if calls[step] % every[step] == 2:
                    ends.add((step, "before"))
                    raise OSError("no more")
                result = do(*given, **more)
                if calls[step] % every[step] == 0:
                    ends.add((step, "after"))
                    raise KeyboardInterrupt
                return result

            return called

        broken, keep = 0, deadletters.keep
        with (
            patch.object(snapshots, "_commit", ending("commit", snapshots._commit)),
            patch.object(deadletters, "write_manifest", ending("list", deadletters.write_manifest)),
            patch.object(deadletters, "keep", ending("settled", keep)),
            patch("hatwisted.pipeline.iceberg.landedfiles.keep", ending("kept", keep)),
            patch.object(locallanding, "SPLIT_BYTES", 10_000),
        ):
            for _ in range(60):
                try:
                    if not self.land(max_bytes_per_trigger=10_000).rows:
                        break
                except (WrongTable, OSError, KeyboardInterrupt):
                    broken += 1
        self.assertGreater(broken, 4)
        self.assertEqual(ends, {(step, when) for step in every for when in ("before", "after")})
        self.land()
        self.assertEqual(len(self.values()), len(bodies))
        self.assertEqual(self.dead("body"), [body for body in bodies if body.startswith(b"bad")])
        self.assertEqual(self.on_disk(), self.files(self.table) | self.files(self.beside))

    def between(self) -> None:
        """A landing that ends between its two commits."""
        with (
            patch("hatwisted.pipeline.iceberg.landedfiles.keep", side_effect=OSError("no more")),
            self.assertRaises(OSError),
        ):
            self.land()

    def settle(self) -> None:
        settle(self.loaded(self.table), NAME)

    def everything_mentioned(self) -> set[str]:
        """By any snapshot."""
        found = [self.loaded(table).inspect.all_data_files() for table in (self.table, self.beside)]
        paths = [path for files in found for path in files["file_path"].to_pylist()]
        return {path.rpartition("/")[2] for path in paths}

    def remove_promised(self) -> None:
        for file in (self.folder / "warehouse").rglob("dead-letters-*"):
            file.unlink()

    def compaction_killed(self) -> AbstractContextManager[Any]:
        replaced = upkeep.replace_files

        def killed(table: Table, name: str, *given: Any) -> bool:
            if name == self.beside:
                raise KeyboardInterrupt
            return replaced(table, name, *given)

        return patch.object(upkeep, "replace_files", killed)

    def test_two_that_make_up_for_them_at_the_same_time_do_it_once(self) -> None:
        """The other one is done when this one commits, or has only come so far as to read the list."""
        for late in (snapshots._commit, deadletters._listed):
            with self.subTest(late=late.__name__):
                self.append(*BAD)
                self.between()
                before, rivals = len(self.dead("body")), [settle]

                def rivalled(*given: Any, do: Any = late, left: Any = rivals) -> Any:
                    if left:
                        left.pop()(self.loaded(self.table), NAME)
                    return do(*given)

                with patch.object(__import__(late.__module__, fromlist=["_"]), late.__name__, rivalled):
                    settle(self.loaded(self.table), NAME)
                self.assertEqual(len(self.dead("body")), before + len(BAD))

    def test_what_was_settled_isn_t_looked_at_again(self) -> None:
        for _ in range(3):
            self.append(*[*BAD] * 8)
            with patch.object(locallanding, "SPLIT_BYTES", 500):
                self.assertGreater(len(self.land(max_bytes_per_trigger=500).versions), 4)
        with patch.object(deadletters, "keep", side_effect=deadletters.keep) as kept:
            self.land()
        self.assertEqual(kept.call_count, 1, "of each run the last one")
        self.assertEqual(len(self.dead("body")), 3 * 8 * len(BAD))

    def test_a_table_beside_that_was_dropped_stops_nothing(self) -> None:
        self.append(*BAD)
        self.between()
        load_catalog("lake").purge_table(NAME.beside.table)
        self.append(*BAD)
        land([str(self.store)], self.table, LandOptions(engine="local"))
        self.append(*BAD)
        self.land()
        self.assertEqual(self.dead("body"), list(BAD))

    def test_a_run_that_tidies_up_takes_no_file_that_a_compaction_is_about_to_bring(self) -> None:
        """One landing is at its end when the next one begins, and removes what the first can't commit any more."""
        for compacted in (self.table, self.beside):
            for _ in range(2):
                self.append(*GOOD, *BAD)
                self.land()
            compact, replaced, claims = upkeep.compact, upkeep.replace_files, list[IcebergClaim]()

            def late(*given: Any, compact: Any = compact, at: str = compacted, claims: Any = claims) -> Any:
                if given[1] == at:
                    claims.append(claim(self.loaded(self.table), self.table, ["broker-a"]))
                return compact(*given)

            def tidied(
                *given: Any, replaced: Any = replaced, at: str = compacted, claims: Any = claims
            ) -> Any:
                if given[1] == at:
                    settle_ended(self.loaded(self.table), NAME, claims[-1].ended)
                return replaced(*given)

            how = LandOptions(engine="local", schemas=self.schema(ORDER))
            with (
                self.merging(2),
                patch.object(upkeep, "compact", late),
                patch.object(upkeep, "replace_files", tidied),
            ):
                land([str(self.store)], self.table, how)
            self.assertEqual(len(claims), 1)
            self.assertEqual(len(self.files(compacted)), 1)
        self.land()
        self.assertEqual(len(self.values()), 4 * len([*GOOD, *BAD]))
        self.assertEqual(self.dead("body"), [*BAD] * 4)
        self.assertEqual(self.on_disk() - self.everything_mentioned(), set())

    def test_a_promise_of_somebody_else_doesn_t_expire(self) -> None:
        """It's days old, and this run has begun before."""
        self.append(*BAD)
        self.land()
        self.append(*BAD)
        later = datetime.now(UTC) + timedelta(days=9)
        other = self.folder / "broker-b"
        log = LogBuilder()
        for body in BAD:
            log.add("Orders", body=body)
        log.save(other)

        def progress(done: int, total: int) -> None:
            with (
                patch("hatwisted.pipeline.iceberg.landedfiles.keep", side_effect=OSError("no more")),
                self.assertRaises(OSError),
            ):
                land([str(other)], self.table, LandOptions(engine="local", schemas=self.schema(ORDER)))

        with patch.object(upkeep, "datetime", wraps=datetime) as clock:
            clock.now.return_value = later
            how = LandOptions(engine="local", schemas=self.schema(ORDER))
            land([str(self.store)], self.table, how, progress=progress)
        self.assertEqual(len(self.dead("body")), 3 * len(BAD))
        self.assertEqual(len(self.loaded(self.table).snapshots()), 1)

    def test_a_run_that_another_one_has_ended_leaves_nothing(self) -> None:
        self.append(*GOOD, *BAD)
        commit, rivals = snapshots._commit, [1]

        def late(change: Any, files: Any, note: Any) -> None:
            if files and rivals:
                rivals.pop()
                claim(self.loaded(self.table), str(NAME), ["broker-a"])
            commit(change, files, note)

        with patch.object(snapshots, "_commit", late), self.assertRaises(Fenced):
            self.land()
        self.assertEqual(self.on_disk(), set())
        self.land()
        self.assertEqual(self.dead("body"), list(BAD))

    def test_how_many_days_there_are_doesn_t_make_a_promise_longer(self) -> None:
        lengths = []
        for number in range(2):
            for day in range(1 + 30 * number):
                self.log.add(
                    "Orders", body=b"?", store_timestamp=START_TIME + 86_400_000 * (day + 40 * number)
                )
            self.log.save(self.store)
            self.land()
            found = next(deadletters._promises(self.loaded(self.table)))
            lengths.append(len(str(found.note)))
        self.assertEqual(len(self.files(self.beside)), 32)
        self.assertLess(lengths[1] - lengths[0], 5)

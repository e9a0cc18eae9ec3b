"""The last message of each key: whatever is merged in which order, again, and after whichever interruption."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from deltalake import DeltaTable, Schema, TableFeatures, write_deltalake
from deltalake.exceptions import CommitFailedError

from hatwisted.pipeline.delta.compaction import compact
from hatwisted.pipeline.delta.datafiles import DataFiles
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.orphans import remove_orphans
from hatwisted.pipeline.jobs.latest import deltakeyed, latesttable
from hatwisted.pipeline.jobs.latest.deltachange import DeltaChange
from tests.support import latestcase
from tests.support.columnmapping import rename


class MergeTests(latestcase.AnyMergeCase):
    def test_only_what_is_new_is_read(self) -> None:
        for number in (100, 40, 0):
            self.stores[0].append(number)
            self.land(self.stores[0])
            found = self.latest()
            self.assertEqual(found.rows, number)
            self.assertEqual(found.version, DeltaTable(self.table).version())
        self.assertEqual((found.inserted, found.updated), (0, 0))

    def test_rows_that_a_compaction_has_moved_bring_nothing_back(self) -> None:
        for _ in range(8):
            self.stores[0].append(10)
            self.land(self.stores[0])
        self.latest()
        before = self.rows()
        self.land(self.stores[0], compact_below=64 << 20)
        found = self.latest()
        self.assertEqual((found.rows, found.inserted, found.updated), (80, 0, 0))
        self.assertEqual(self.latest().rows, 0)
        self.assertEqual(self.rows(), before)

    def test_a_log_that_has_expired_is_read_again(self) -> None:
        self.stores[0].append(50)
        self.land(self.stores[0])
        self.latest()
        self.stores[0].append(10)
        self.land(self.stores[0])
        log = Path(self.table, "_delta_log")
        DeltaTable(self.table).create_checkpoint()
        *expired, _ = sorted(log.glob("*.json"))
        for commit in expired:
            commit.unlink()
        self.assertEqual(self.latest().rows, 60)  # if the version that was merged can be read no more, all
        self.assertEqual(self.rows(), self.expected(self.stores[0]))

    def test_another_writer_s_commit_between_is_gone_along_with(self) -> None:
        self.stores[0].append(50)
        self.land(self.stores[0])
        commit, rivals = DeltaChange.commit, [self.latest]

        def late(*given: Any) -> Any:
            if rivals:
                rivals.pop()()
            return commit(*given)

        with patch.object(DeltaChange, "commit", late):
            self.latest()
        self.assertEqual(self.rows(), self.expected(self.stores[0]))

    def test_it_may_be_killed_at_every_step(self) -> None:
        self.stores[0].append(60)
        self.land()
        self.latest()
        with patch.object(DeltaChange, "remove"), patch.object(DataFiles, "abandon"):
            self.steps_to_die_at((DeltaChange, "write"), (DataFiles, "close"), (DeltaChange, "commit"))

    def test_tidying_never_takes_what_is_about_to_be_committed(self) -> None:
        self.grow(50)
        commit, tidied = DeltaChange.commit, []

        def tidied_before(*given: Any) -> Any:
            tidied.append(remove_orphans(self.into))
            return commit(*given)

        with patch.object(DeltaChange, "commit", tidied_before):
            self.latest()
        self.assertEqual(tidied, [[]])
        self.assertEqual(self.rows(), self.expected())

    def test_a_run_whose_files_another_one_has_removed_looks_again(self) -> None:
        """They are still hidden, or whole."""
        for begun in (DataFiles._flush, lambda files: files.close()):
            self.grow(30)
            close, rivals = DataFiles.close, [self.latest]

            def late(files: DataFiles, begun: Any = begun, close: Any = close, rivals: Any = rivals) -> Any:
                if rivals:
                    rivals.pop()
                    with patch.object(DataFiles, "close", close):
                        begun(files)
                        self.assertNotEqual(self.unmentioned(), set())
                        self.latest()
                    self.assertEqual(self.unmentioned(), set())
                return close(files)

            with patch.object(DataFiles, "close", late):
                found = self.latest()
            self.assertEqual((rivals, found.inserted, found.updated), ([], 0, 0))
            self.assertEqual(self.rows(), self.expected())
            self.assertEqual(self.unmentioned(), set())

    def test_compactions_and_appends_between_are_looked_at(self) -> None:
        commit, key = DeltaChange.commit, {"key": "physical_offset"}

        def compacted() -> None:
            self.assertGreater(compact(self.into, 1 << 20, min_files=2).removed, 1)

        def optimized() -> None:
            self.assertGreater(DeltaTable(self.into).optimize.compact()["numFilesRemoved"], 1)

        def appended() -> None:
            rows = DeltaTable(self.into).to_pyarrow_table().slice(0, 1)
            at = rows.column_names.index("key")
            write_deltalake(self.into, rows.set_column(at, "key", pa.array(["mine"])), mode="append")

        for rival in (compacted, optimized, appended):
            rivals = [rival]
            for _ in range(2):  # files with nothing to replace, so that they stay
                self.stores[0].append(10)
                self.land(self.stores[0])
                self.latest(**key)
            self.stores[0].append(5)
            self.land(self.stores[0])

            def late(*given: Any, rivals: Any = rivals) -> Any:
                if rivals:
                    rivals.pop()()
                return commit(*given)

            with patch.object(DeltaChange, "commit", late):
                self.assertEqual(self.latest(**key).inserted, 5)
            self.assertEqual(rivals, [])
        self.assertEqual(len(self.rows()), 76)
        mentioned = {Path(path).name for path in DeltaTable(self.into).file_uris()}
        DeltaTable(self.into).vacuum(0, dry_run=False, enforce_retention_duration=False)
        self.assertEqual({path.name for path in Path(self.into).rglob("*.parquet")}, mentioned)

    def test_what_a_lost_merge_wrote_is_removed(self) -> None:
        self.stores[0].append(50)
        self.land(self.stores[0])
        with (
            patch.object(DeltaChange, "commit", side_effect=CommitFailedError("another one")),
            self.assertRaisesRegex(WrongTable, "no merge after 10 attempts; try again"),
        ):
            self.latest()
        self.assertEqual(list(Path(self.into).rglob("*.parquet")), [])

    def test_files_that_cannot_have_the_keys_are_not_read(self) -> None:
        for number, store in enumerate(self.stores):
            store.append(20)
            self.land(store)
            with patch.object(DeltaChange, "_read", side_effect=AssertionError):
                self.assertEqual(self.latest(key="broker").inserted, 2, number)

    def test_columns_of_the_users_own_stay(self) -> None:
        self.stores[0].append(50)
        self.land(self.stores[0])
        self.latest()
        DeltaTable(self.into).alter.add_columns(Schema.from_arrow(pa.schema([("note", pa.string())])).fields)
        DeltaTable(self.into).update({"note": "'seen'"}, predicate="topic = 'topic-1'")
        self.stores[0].append(2)
        self.land(self.stores[0])
        found = self.latest()
        rows = DeltaTable(self.into).to_pyarrow_table().to_pylist()
        seen = [row for row in rows if row["note"] == "seen"]
        ones = [row for row in rows if row["topic"] == "topic-1"]
        self.assertEqual(found.inserted + found.updated, 2)
        self.assertEqual(len(ones) - len(seen), 1)
        self.assertEqual(self.rows(), self.expected(self.stores[0]))

    def test_a_restore_between_two_merges_of_a_run_is_told_and_made_up_for(self) -> None:
        self.stores[0].append(50)
        self.land(self.stores[0])
        self.latest()
        restored = DeltaTable(self.into).version()
        self.stores[0].append(200)
        self.land(self.stores[0], max_bytes_per_trigger=5_000)
        merge, merges = latesttable._Run._merge, count()

        def then_restored(*given: Any) -> None:
            merge(*given)
            if next(merges) == 0:
                DeltaTable(self.into).restore(restored)

        with (
            patch.object(latesttable, "MERGE_BYTES", 20_000),
            patch.object(latesttable._Run, "_merge", then_restored),
            self.assertRaisesRegex(WrongTable, "was restored to an earlier version meanwhile; try again"),
        ):
            self.latest()
        self.latest()
        self.assertEqual(self.rows(), self.expected(self.stores[0]))

    def test_what_was_read_is_noted_wherever_the_last_merge_ends(self) -> None:
        self.stores[0].append(50)
        self.land(self.stores[0])
        with patch.object(latesttable, "MERGE_BYTES", 1):  # so that nothing is left for the end
            self.assertEqual(self.latest().rows, 50)
        self.assertEqual(self.latest().rows, 0)
        self.assertEqual(self.rows(), self.expected(self.stores[0]))

    def test_rows_that_have_no_key_are_read_once(self) -> None:
        self.stores[0].append(40)
        self.land(self.stores[0])
        found = self.latest(key="unique_key")
        self.assertEqual((found.rows, found.without_key, found.inserted), (40, 40, 0))
        self.assertEqual(self.latest(key="unique_key").rows, 0)

    def test_rows_of_the_user_s_own_that_lie_nowhere_are_left_out(self) -> None:
        self.stores[0].append(40)
        self.land(self.stores[0])
        row = DeltaTable(self.table).to_pyarrow_table().slice(0, 1)
        for name in ("broker", "physical_offset"):
            at = row.column_names.index(name)
            lost = row.set_column(at, name, pa.nulls(1, row.column(at).type))
            write_deltalake(self.table, lost, mode="append")
        self.latest()
        write_deltalake(self.table, lost, mode="append")
        self.assertEqual(self.latest().without_key, 1)
        self.assertEqual(self.rows(), self.expected(self.stores[0]))

    def test_a_landed_table_may_be_vacuumed_and_restored(self) -> None:
        self.stores[0].append(50)
        self.land(self.stores[0])
        early = DeltaTable(self.table).version()
        self.stores[0].append(20)
        self.land(self.stores[0])
        self.latest()
        DeltaTable(self.table).restore(early)
        DeltaTable(self.table).vacuum(0, dry_run=False, enforce_retention_duration=False)
        self.assertEqual(self.latest().rows, 0)
        self.assertEqual(self.rows(), self.expected(self.stores[0]))

    def test_a_backup_that_comes_to_the_same_version_again_is_told_apart(self) -> None:
        self.stores[0].append(50)
        self.land(self.stores[0])
        backup = self.folder / "backup"
        shutil.copytree(self.table, backup)
        self.stores[0].append(10)
        self.land(self.stores[0])
        before = self.latest().version
        shutil.rmtree(self.table)
        backup.rename(self.table)
        self.stores[0].append(30)
        self.land(self.stores[0])
        self.assertEqual(self.latest().version, before)
        self.assertEqual(self.rows(), self.expected(self.stores[0]))


class RefusedTests(latestcase.AnyRefusedCase):
    def test_a_table_of_something_else_is_left_as_it_is(self) -> None:
        self.stores[0].append(20)
        self.land(self.stores[0])
        write_deltalake(self.into, pa.table({"topic": ["mine"], "amount": [1]}), partition_by=["topic"])
        with self.assertRaisesRegex(WrongTable, "rows that aren't the last messages of a table"):
            self.latest()
        self.assertEqual(DeltaTable(self.into).version(), 0)

    def test_rows_that_somebody_puts_into_an_empty_one_meanwhile_are_left_as_they_are(self) -> None:
        self.stores[0].append(20)
        self.land(self.stores[0])
        text = deltakeyed.property_text

        def text_late(*given: Any) -> str:
            write_deltalake(self.into, pa.table({"topic": ["mine"]}), mode="append", schema_mode="merge")
            return text(*given)

        with (
            patch.object(deltakeyed, "property_text", text_late),
            self.assertRaisesRegex(WrongTable, "rows that aren't the last messages of a table"),
        ):
            self.latest()
        self.assertEqual(DeltaTable(self.into).to_pyarrow_table()["topic"].to_pylist(), ["mine"])

    def test_what_arrow_cannot_read_is_told_in_a_line(self) -> None:
        self.stores[0].append(20)
        self.land(self.stores[0])
        table = DeltaTable(self.table)
        Path(table.file_uris()[0]).unlink()
        with self.assertRaisesRegex(WrongTable, "its file .* has just been removed"):
            self.latest()
        table.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
        with self.assertRaisesRegex(WrongTable, "can't be read: .*deletionVectors"):
            self.latest()

    def test_columns_with_other_names_in_files_are_not_taken_for_empty_ones(self) -> None:
        self.stores[0].append(20)
        self.land(self.stores[0])
        rename(self.table, "tags", "labels")
        with self.assertRaisesRegex(WrongTable, "can't be read: its columns are mapped"):
            self.latest()

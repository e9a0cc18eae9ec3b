"""Iceberg tables that others change between landings in ways that pyiceberg doesn't write: renamed columns, format
version 3, equality deletes. What can go on does, and the rest is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyiceberg.types import IntegerType

from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.errors import WrongSchema
from hatwisted.pipeline.iceberg import catalogs, snapshots
from tests.support.equalitydeletes import delete_equal
from tests.tables.iceberg.test_landing import IDENTIFIER, NAME, IcebergCase


class OtherWriters(IcebergCase):
    def setUp(self) -> None:
        super().setUp()
        self.store.append(40)
        self.land()

    def rename(self, column: str, other: str) -> None:
        with self.table.update_schema() as change:
            change.rename_column(column, other)

    def test_a_renamed_column_is_refused_until_it_has_its_name_back(self) -> None:
        """It would go on as two, and without notes a landing would look for the last rows in the new one."""
        self.store.append(10)
        for column in ("tags", "topic", "physical_offset", "store_date"):
            self.rename(column, "mine")
            with self.assertRaisesRegex(
                WrongSchema, f"^{NAME}: column {column} was renamed to mine: name it {column} again"
            ):
                self.land()
            self.rename("mine", column)
        self.assertEqual(self.land().rows, 10)
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_a_column_that_is_renamed_while_rows_land_ends_that_in_a_line(self) -> None:
        for column, why in (
            ("tags", "with name: tags"),
            ("topic", "rows have no mine, by which they're filed"),
        ):

            def rename(done: int, total: int, column: str = column) -> None:
                if "mine" not in self.table.schema().column_names:
                    self.rename(column, "mine")
                    self.store.append(10)

            self.store.append(10)
            with self.assertRaisesRegex(WrongTable, f"^{NAME}: .*{why}"):
                self.land(mode="continuous", every=0.1, progress=rename)
            self.rename("mine", column)
            self.land()
            self.assertEqual(self.offsets(), self.store.offsets)

    def test_what_lands_without_it_may_be_renamed(self) -> None:
        self.rename("tags", "mine")
        self.store.append(10)
        self.assertEqual(self.land(columns=["unique_key"]).rows, 10)

    def test_a_column_that_was_dropped_comes_back(self) -> None:
        with self.table.update_schema() as change:
            change.delete_column("tags")
        self.store.append(10)
        self.land()
        self.assertEqual(self.table.scan().to_arrow()["tags"].null_count, 40)

    def test_another_column_of_that_name_is_landed_into(self) -> None:
        self.rename("flag", "mine")
        with self.table.update_schema() as change:
            change.add_column("flag", IntegerType())
        self.store.append(10)
        self.assertEqual(self.land().rows, 10)
        self.assertEqual(self.table.scan().to_arrow()["flag"].null_count, 40)

    def test_a_table_of_format_version_3_is_refused(self) -> None:
        catalog, place = load_catalog("lake"), Path(self.table.metadata_location.removeprefix("file://"))
        metadata = json.loads(place.read_text()) | {"format-version": 3, "next-row-id": 0}
        later = place.with_name("99999-later.metadata.json")
        later.write_text(json.dumps(metadata))
        catalog.drop_table(IDENTIFIER)
        catalog.register_table(IDENTIFIER, f"file://{later}")
        self.store.append(10)
        with self.assertRaisesRegex(
            WrongTable, f"^{NAME}: has format version 3, .*: land into a table of version 2"
        ):
            self.land()
        later_on = patch.object(catalogs, "NEWEST_FORMAT", 3)
        with later_on, self.assertRaisesRegex(WrongTable, f"^{NAME}: Cannot write manifest .*version: 3"):
            self.land()
        self.assertEqual(self.offsets(), self.store.offsets[:40])

    def test_equality_deletes_are_left_alone_and_landings_go_on(self) -> None:
        """Their rows can't be told by pyiceberg, so nothing is merged."""
        table = self.table
        delete_equal(table, "unique_key", self.store.records[0].properties["UNIQ_KEY"])
        for _ in range(9):
            self.store.append(8)
            found = self.land(compact_below=1 << 20)
            self.assertEqual(found.rows, 8)
            self.assertEqual(found.compacted, 0)
            (line,) = found.put_off
            self.assertRegex(line, f"^{NAME}: PyIceberg does not yet support equality deletes")
        by_server = NotImplementedError("there are equality deletes")  # where it plans what is read
        with patch.object(Table, "scan", side_effect=by_server):
            self.assertEqual(self.land(compact_below=1 << 20).put_off, (f"{NAME}: {by_server}",))
        told = self.assertRaisesRegex(WrongTable, f"^{NAME}: PyIceberg does not yet support equality deletes")
        with patch.object(snapshots, "TAIL", "elsewhere."), told:
            self.land()

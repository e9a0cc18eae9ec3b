"""What users switch on for a landed Delta table: landings go on, or refuse it in a line, writing nothing."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from hatwisted.pipeline import union_arrow
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.features import COMPLIED
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.jobs.workertasks import InlineTasks
from tests.support.unioncase import LOCAL, UnionCase

READERS = {"deletionVectors", "columnMapping", "typeWidening", "timestampNtz", "v2Checkpoint", "variantType"}


class FeatureCase(UnionCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = str(self.store.root)
        self.store.append(40)
        land([self.log], self.table, LOCAL)

    def declare(self, protocol: dict[str, Any], metadata: dict[str, Any] | None = None, **kept: str) -> None:
        """A version that says so. metadata: of a column `mine`; kept: properties"""
        log = Path(self.table, "_delta_log")
        lines = [line for path in sorted(log.glob("*.json")) for line in path.read_text().splitlines()]
        found = [json.loads(line)["metaData"] for line in lines if "metaData" in line][-1]
        schema = json.loads(found["schemaString"])
        if metadata is not None:
            mine = {"name": "mine", "type": "string", "nullable": True, "metadata": metadata}
            schema["fields"].append(mine)
        found |= {"schemaString": json.dumps(schema), "configuration": kept}
        actions = [{"protocol": protocol}, {"metaData": found}]
        path = log / f"{DeltaTable(self.table).version() + 1:020}.json"
        path.write_text("\n".join(map(json.dumps, actions)) + "\n")

    def feature(self, name: str, **kept: str) -> None:
        """By the names of features, as Delta 4 has them."""
        readers = {"readerFeatures": [name]} if name in READERS else {}
        version = 3 if readers else 1
        protocol = {"minReaderVersion": version, "minWriterVersion": 7, "writerFeatures": [name]}
        self.declare(protocol | readers, None, **kept)

    def refusal(self) -> str:
        """Of both ways in which stores land, with nothing written."""
        self.store.append(5)
        before, files = DeltaTable(self.table).version(), set(Path(self.table).rglob("*.parquet"))
        told = set()
        for options, tasks in ((LOCAL, None), (LandOptions(engine="spark"), InlineTasks())):
            with self.assertRaises(WrongTable) as error:
                land([self.log], self.table, options, spark=tasks)
            told.add(str(error.exception))
        self.assertEqual(DeltaTable(self.table).version(), before)
        self.assertEqual(set(Path(self.table).rglob("*.parquet")), files)
        (line,) = told
        self.assertNotIn("\n", line)
        return line


class FeatureTests(FeatureCase):
    def test_what_landed_files_comply_with(self) -> None:
        for name in sorted(COMPLIED - {"deletionVectors", "variantType-preview"}):
            with self.subTest(name):
                self.feature(
                    name, **{"delta.enableChangeDataFeed": "true"} if name == "changeDataFeed" else {}
                )
                self.store.append(5)
                self.assertEqual(land([self.log], self.table, LandOptions(engine="local")).rows, 5)
                self.assertEqual(self.offsets(self.log), self.store.offsets)

    def test_a_change_feed_has_the_landed_rows_and_not_what_was_merged(self) -> None:
        self.feature("changeDataFeed", **{"delta.enableChangeDataFeed": "true"})
        begun = DeltaTable(self.table).version()
        merged = 0
        for _ in range(8):
            self.store.append(5)
            merged += land([self.log], self.table, LandOptions(engine="local")).compacted
        self.assertGreater(merged, 0)
        # What Delta makes the feed of; delta-rs reads none of files whose names have a percent sign.
        commits = sorted(Path(self.table, "_delta_log").glob("*.json"))[begun + 1 :]
        actions = [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]
        added = [action["add"] for action in actions if "add" in action]
        rows = [json.loads(each["stats"])["numRecords"] for each in added if each["dataChange"]]
        self.assertEqual(sum(rows), 40)
        self.assertFalse([each for each in actions if each.get("remove", {}).get("dataChange")])

    def test_what_they_lack_is_named_with_what_to_do(self) -> None:
        for name, why in (
            ("rowTracking", "row ids: ALTER TABLE ... DROP FEATURE rowTracking, or land into another table"),
            ("typeWidening", "the history of its columns' types"),
            ("allowColumnDefaults", "its columns' defaults"),
            ("clustering", "its clustering"),
            ("inCommitTimestamp", "times in their commits"),
            ("checkpointProtection", "DROP FEATURE checkpointProtection TRUNCATE HISTORY"),
            ("someFeatureToCome", "feature someFeatureToCome, and landed files lack what that asks for"),
        ):
            with self.subTest(name):
                self.feature(name)
                self.assertIn(why, self.refusal())
        # Spark makes the domain metadata of row ids by itself: which of both to drop is the user's own.
        protocol = {"minReaderVersion": 1, "minWriterVersion": 7}
        self.declare(protocol | {"writerFeatures": ["domainMetadata", "rowTracking"]})
        self.assertIn("feature rowTracking", self.refusal())

    def test_columns_that_ask_for_more_by_their_metadata(self) -> None:
        for version, key, why in (
            (4, "delta.generationExpression", "column mine is generated"),
            (2, "delta.invariants", "column mine has an invariant"),
            (6, "delta.identity.start", "column mine is an identity column"),
        ):
            with self.subTest(key), tempfile.TemporaryDirectory() as folder:
                self.table = f"{folder}/table"
                land([self.log], self.table, LOCAL)
                self.declare({"minReaderVersion": 1, "minWriterVersion": version}, {key: "1"})
                self.assertIn(f"{why}, which landed files can't comply with: drop the column", self.refusal())

    def test_unions_read_what_delta_rs_gives_arrow_no_dataset_of(self) -> None:
        self.feature("v2Checkpoint")
        self.store.append(5)
        rows = union_arrow(self.table, self.log, ["physical_offset", "tags"]).read_all()
        self.assertEqual(sorted(rows["physical_offset"].to_pylist()), self.store.offsets)

    def test_unions_tell_in_a_line_what_delta_rs_cannot_read(self) -> None:
        self.feature("typeWidening")
        with self.assertRaisesRegex(WrongTable, "can't be read by delta-rs: .*TypeWidening") as told:
            self.offsets(self.log)
        self.assertNotIn("\n", str(told.exception))

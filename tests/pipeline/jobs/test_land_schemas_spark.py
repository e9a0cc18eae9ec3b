"""Topics with schemas, landed by Spark: as without it, in turns with that, and through what a kill leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hatwisted.pipeline.delta.deadletters import dead_letter_table
from hatwisted.pipeline.errors import WrongSchema
from hatwisted.pipeline.jobs.land.landing import LandOptions, LandResult, land
from hatwisted.pipeline.schemas.topicschemas import parse_schemas
from tests.pipeline.jobs import landing
from tests.support.logbuilder import LogBuilder

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "at": {"type": "array", "items": {"type": "number"}}},
    "required": ["id"],
}


class Lake:
    """A store, and tables into which it is landed."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self.store = folder / "broker-a"
        self._log = LogBuilder()
        schema = folder / "orders.json"
        schema.write_text(json.dumps(SCHEMA))
        self.schemas = parse_schemas([f"Orders=json:{schema}"])
        self._number = 0

    def append(self, count: int) -> None:
        """Every third doesn't fit; every fourth is of another topic."""
        for number in range(self._number, self._number + count):
            body = b'{"id": %d, "at": [1, %d.5]}' % (number, number) if number % 3 else b'{"at": []}'
            self._log.add("Orders" if number % 4 else "Other", number % 2, body)
        self._number += count
        self._log.save(self.store)

    def land(self, table: Path, engine: str, by: str = "tasks", **options: Any) -> LandResult:
        how = LandOptions(engine=engine, schemas=self.schemas, **{"compact_below": None, **options})  # type: ignore[arg-type]
        spark = self._spark if engine == "spark" else None
        return land(landing.source(by, str(self.store)), str(table), how, spark=spark)


def rows(table: Path | str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(table).to_pyarrow_table().sort_by("physical_offset").to_pylist()
    return found


def test_both_engines_land_the_same_in_turns_and_alone(spark: SparkSession, tmp_path: Path) -> None:
    lake, turns, alone = Lake(spark, tmp_path), tmp_path / "turns", tmp_path / "alone"
    counts = []
    for engine in ("spark", "local", "spark"):
        lake.append(120)
        found = lake.land(
            turns, engine, max_bytes_per_trigger=16 << 10, partitions=2 if engine == "spark" else None
        )
        counts.append(found.dead_letters)
    assert counts == [{"missing": 30}] * 3
    lake.land(alone, "local")
    assert rows(turns) == rows(alone)
    assert rows(dead_letter_table(str(turns))) == rows(dead_letter_table(str(alone)))
    assert [row["Orders"]["id"] for row in rows(turns) if row["Orders"]][:4] == [1, 2, 5, 7]


def test_a_batch_that_was_cut_off_between_its_commits_is_made_up_for_and_not_repeated(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, table = Lake(spark, tmp_path), tmp_path / "table"
    for _ in range(2):
        lake.append(120)
        lake.land(table, "spark", by="stream")
    # As after a kill between the two commits: Spark doesn't know of its batch, and the table beside lacks it.
    beside = Path(dead_letter_table(str(table)))
    max((beside / "_delta_log").glob("*.json")).unlink()
    (state,) = (table / "_landing").iterdir()
    last = max((state / "spark" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    assert len(rows(str(beside))) == 30
    lake.append(60)
    found = lake.land(table, "spark", by="stream")
    assert (found.rows, found.dead_letters) == (60, {"missing": 15})
    assert [row["Orders"] is None for row in rows(table) if row["topic"] == "Orders"].count(True) == 75
    offsets = [row["physical_offset"] for row in rows(str(beside))]
    assert len(set(offsets)) == len(offsets) == 75
    mentioned = {Path(path).name for path in DeltaTable(str(beside)).file_uris()}
    assert {path.name for path in beside.glob("topic=*/*/*.parquet")} == mentioned


def test_what_can_t_be_had_with_a_transformation_is_said_before_spark_starts(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path)
    lake.append(4)
    starts: list[int] = []

    def start() -> SparkSession:
        starts.append(1)
        return spark

    how = LandOptions(schemas=lake.schemas, transform=lambda frame: frame)
    with pytest.raises(WrongSchema, match="schemas and a transformation can't be had together"):
        land([str(lake.store)], str(tmp_path / "table"), how, spark=start)
    assert starts == []

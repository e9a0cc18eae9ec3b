"""Landing into Iceberg tables by Spark: once, again, replayed, in turns with the engine without Spark, fenced."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyiceberg import catalog
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyiceberg.utils.config import Config
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hatwisted.pipeline.delta.compaction import MIN_FILES, Compaction
from hatwisted.pipeline.delta.errors import Fenced
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.iceberg import upkeep
from hatwisted.pipeline.iceberg.catalogs import IcebergName
from hatwisted.pipeline.iceberg.fileids import TASKS
from hatwisted.pipeline.iceberg.snapshots import RUN, claim
from hatwisted.pipeline.jobs.land import landingrounds, sparklanding
from hatwisted.pipeline.jobs.land.landing import LandOptions, LandResult, land
from hatwisted.pipeline.jobs.land.landingsources import Stores
from hatwisted.pipeline.schemas.topicschemas import parse_schemas
from tests.support.golden import GOLDEN
from tests.support.growing import TOPICS, GrowingStore
from tests.support.icebergcatalog import iceberg_catalog
from tests.support.s3server import s3_server

MOST_ROWS = 20_000
"""That a landing which follows is given to make files of that can be merged."""

NAME = IcebergName.parse("iceberg:lake.rocketmq.messages")
NUMBER = "hatwisted.batch"
WAYS = ("local", "tasks", "stream")


@dataclass
class Lake:
    """A store, the table it is landed into, and the verbs of the tests."""

    spark: SparkSession
    folder: Path
    name: IcebergName = NAME

    def __post_init__(self) -> None:
        self.store = GrowingStore(self.folder / "broker-a")

    def land(self, *stores: Path, by: str = "stream", **arguments: Any) -> LandResult:
        """By Spark's `tasks`, a `stream` of Spark's, or `local`."""
        paths = [str(store) for store in stores or (self.store.root,)]
        engine = "local" if by == "local" else "spark"
        sources = Stores(paths, {"mode": "failfast"} if by == "stream" else {})
        running = {name: arguments.pop(name) for name in ("stop", "progress") if name in arguments}
        options = LandOptions(engine=engine, **{"compact_below": None, **arguments})  # type: ignore[arg-type]
        spark = self.spark if engine == "spark" else None
        return land(sources, str(self.name), options, spark=spark, **running)

    def table(self, name: IcebergName | None = None) -> Table:
        return load_catalog("lake").load_table((name or self.name).table)

    def rows(self, name: IcebergName | None = None) -> pa.Table:
        return (
            self.table(name)
            .scan()
            .to_arrow()
            .sort_by([("broker", "ascending"), ("physical_offset", "ascending")])
        )

    def offsets(self) -> list[int]:
        found: list[int] = self.rows()["physical_offset"].to_pylist()
        return found

    def state(self) -> Path:
        (found,) = (self.folder / "warehouse" / "rocketmq" / "messages" / "_landing").iterdir()
        return found

    def forget_last_batch(self) -> None:
        """As if Spark was killed between the table's commit and its own."""
        last = max((self.state() / "spark" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)

    def left_over(self) -> set[str]:
        """Files of no snapshot."""
        there = {path.name for path in (self.folder / "warehouse").rglob("data/**/*") if path.is_file()}
        names = load_catalog("lake").list_tables("rocketmq")
        for name in names:
            files = load_catalog("lake").load_table(name).inspect.all_data_files()["file_path"].to_pylist()
            there -= {path.rpartition("/")[2] for path in files}
        return there


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    with iceberg_catalog(tmp_path):
        yield Lake(spark, tmp_path)


def test_the_engines_take_turns_and_make_the_same_table(lake: Lake) -> None:
    for count, by in enumerate(("stream", "tasks", "local", "stream", "stream", "tasks", "tasks", "local")):
        count = 10 * (count + 1)
        lake.store.append(count)
        found = lake.land(by=by)
        assert (found.rows, found.log_bytes > 0, len(found.versions)) == (count, True, 1)
    assert lake.offsets() == lake.store.offsets
    alone = {}
    for by in WAYS:
        lake.name = IcebergName.parse(f"iceberg:lake.rocketmq.{by}")
        lake.land(GOLDEN / "master", by=by)
        alone[by] = (lake.rows(), lake.table().schema(), lake.table().spec())
    assert alone["local"] == alone["tasks"] == alone["stream"]


def test_many_triggers_of_two_brokers_are_as_many_snapshots(lake: Lake) -> None:
    other = GrowingStore(lake.folder / "broker-b", seed=1)
    lake.store.append(1200)
    other.append(700)
    found = lake.land(lake.store.root, other.root, max_bytes_per_trigger=200 << 10, partitions=4)
    assert found.rows == 1900
    assert len(found.versions) >= 3
    assert lake.offsets() == lake.store.offsets + other.offsets
    notes = [lake.table().snapshot_by_id(number).summary for number in found.versions]  # type: ignore[union-attr]
    assert [note[NUMBER].rpartition(" ")[2] for note in notes if note] == [*map(str, range(len(notes)))]
    assert lake.land(lake.store.root, other.root).rows == 0


def test_a_committed_batch_that_spark_repeats_changes_nothing(lake: Lake) -> None:
    lake.store.append(500)
    lake.land()
    lake.forget_last_batch()
    lake.store.append(300)
    assert lake.land().rows == 300
    assert lake.offsets() == lake.store.offsets
    assert lake.left_over() == set()


def test_a_lost_checkpoint_and_one_that_lies_behind_repeat_nothing(lake: Lake) -> None:
    lake.store.append(100)
    lake.land()
    lake.store.append(30)
    lake.land(by="local")
    lake.store.append(30)
    assert lake.land().rows == 30
    shutil.rmtree(lake.state())
    lake.store.append(30)
    assert lake.land().rows == 30
    assert lake.offsets() == lake.store.offsets


def test_what_a_roll_back_took_is_landed_again(lake: Lake) -> None:
    lake.store.append(50)
    lake.land()
    restored = lake.table().current_snapshot()
    assert restored is not None
    lake.store.append(30)
    lake.land()
    lake.table().manage_snapshots().rollback_to_snapshot(restored.snapshot_id).commit()
    lake.store.append(7)
    assert lake.land().rows == 37
    assert lake.offsets() == lake.store.offsets
    assert lake.land().rows == 0


@pytest.mark.parametrize("by", WAYS[1:])
def test_a_later_run_fences_it_and_nothing_of_it_is_left(lake: Lake, by: str) -> None:
    lake.store.append(300)
    lake.land()
    lake.store.append(300)

    def rival(done: int, total: int) -> None:
        claim(lake.table(), str(NAME), ["broker-a"])
        lake.store.append(300)

    with pytest.raises(PipelineError, match="took over from run"):
        lake.land(mode="continuous", every=0.1, progress=rival, by=by)
    landed = len(lake.offsets())
    assert lake.offsets() == lake.store.offsets[:landed]
    assert landed < len(lake.store.offsets)
    lake.land()
    assert lake.offsets() == lake.store.offsets
    assert lake.left_over() == set()


def test_what_killed_tasks_wrote_goes_with_the_next_landing(lake: Lake) -> None:
    lake.store.append(40)
    lake.land()
    run = lake.table().properties[RUN + "broker-a"]
    file = next((lake.folder / "warehouse").rglob("data/**/*.parquet"))
    assert file.stem.replace("-", "").endswith(f"{run}{0:012x}{TASKS + 1:08x}")
    left = file.with_name(f"00001{file.name[5:]}")
    others = file.with_name(f"00000-0-{'f' * 8}-{'f' * 4}-4{'f' * 3}-8{'f' * 3}-{'f' * 12}.parquet")
    for copy in (left, others):
        shutil.copy(file, copy)
    lake.store.append(40)
    assert lake.land().removed == 1
    assert not left.exists() and others.exists() and file.exists()


def test_a_transformation_lands_what_it_makes_of_the_rows(lake: Lake) -> None:
    lake.store.append(400)

    def transform(rows: DataFrame) -> DataFrame:
        return rows.where(F.col("topic") == "orders").drop("body").withColumn("mine", F.col("size") * 2)

    assert lake.land(transform=transform).rows == 100
    table = lake.rows()
    assert "body" not in table.column_names
    assert table["mine"].to_pylist() == [2 * size for size in table["size"].to_pylist()]
    assert table["keys"].to_pylist()[1] == ["k4"]
    lake.store.append(4)
    assert lake.land(transform=transform).rows == 1
    assert lake.offsets() == lake.store.offsets[::4]


def test_small_files_are_compacted_and_old_snapshots_expire(lake: Lake) -> None:
    lake.store.append(10)
    lake.land()
    with lake.table().transaction() as change:
        change.set_properties({"history.expire.max-snapshot-age-ms": "0"})
    lake.store.append(1500)
    found = lake.land(max_bytes_per_trigger=64 << 10, compact_below=16 << 20)
    assert found.compacted >= 8 and found.put_off == ()
    assert lake.offsets() == lake.store.offsets
    assert len(lake.table().snapshots()) == 1
    assert len(list(lake.table().scan().plan_files())) <= len(TOPICS) * 2
    assert lake.left_over() == set()
    lake.store.append(5)
    assert lake.land().rows == 5


@pytest.mark.parametrize("by", WAYS[1:])
def test_a_landing_that_follows_compacts_and_ends_when_asked_to(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    for module in (sparklanding, landingrounds):
        monkeypatch.setattr(module, "COMPACT_EVERY", 0.0)
    stop, compact, merged = threading.Event(), upkeep.compact, [0]
    lake.store.append(100)

    def noted(*given: Any) -> Compaction:
        found = compact(*given)
        merged.append(found.removed)
        return found

    def told(done: int, total: int) -> None:
        # Of how many rows a round makes its files is for the machine's pace to say.
        if sum(merged) < MIN_FILES and len(lake.store.offsets) < MOST_ROWS:
            lake.store.append(100)
        else:
            stop.set()

    monkeypatch.setattr(upkeep, "compact", noted)

    found = lake.land(mode="continuous", every=0.1, stop=stop, progress=told, compact_below=16 << 20, by=by)
    assert found.stopped and found.compacted >= MIN_FILES
    assert lake.offsets() == lake.store.offsets[: found.rows]
    lake.land()
    assert lake.offsets() == lake.store.offsets


def test_bodies_become_a_column_and_those_that_do_not_fit_go_beside(lake: Lake) -> None:
    schema = lake.folder / "schema.json"
    schema.write_text(json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}}))
    schemas = parse_schemas([f"orders=json:{schema}"])
    for count, by in ((40, "stream"), (20, "local"), (60, "tasks"), (80, "stream")):
        lake.store.append(count)
        found = lake.land(by=by, schemas=schemas)
        assert found.dead_letters == {"type": count // 4}
    lake.forget_last_batch()
    lake.store.append(4)
    assert lake.land(schemas=schemas).dead_letters == {"type": 1}
    assert lake.offsets() == lake.store.offsets
    assert lake.rows(NAME.beside)["physical_offset"].to_pylist() == lake.store.offsets[::4]
    assert lake.left_over() == set()


@pytest.fixture
def lake_at_s3(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    """The catalog here, its tables there; keys are the catalog's, as Spark's workers have none."""
    with s3_server("lake") as server, iceberg_catalog(tmp_path):
        properties = {
            "WAREHOUSE": "s3://lake/warehouse",
            "S3__ENDPOINT": server["AWS_ENDPOINT_URL"],
            "S3__REGION": server["AWS_REGION"],
            "S3__ACCESS_KEY_ID": server["AWS_ACCESS_KEY_ID"],
            "S3__SECRET_ACCESS_KEY": server["AWS_SECRET_ACCESS_KEY"],
        }
        variables = {f"PYICEBERG_CATALOG__LAKE__{name}": value for name, value in properties.items()}
        with patch.dict(os.environ, variables), patch.object(catalog, "_ENV_CONFIG", Config()):
            yield Lake(spark, tmp_path)


def test_tasks_write_where_the_catalog_says_and_with_its_keys(lake_at_s3: Lake) -> None:
    lake = lake_at_s3
    lake.store.append(300)
    assert lake.land(by="tasks").rows == 300
    lake.store.append(30)
    with pytest.raises(PipelineError, match="give a checkpoint that this machine has"):
        lake.land(by="stream")
    assert lake.land(by="stream", checkpoint=str(lake.folder / "checkpoint")).rows == 30
    lake.store.append(20)
    assert lake.land(by="local").rows == 20
    lake.store.append(10)
    assert lake.land(by="tasks").rows == 10
    assert lake.offsets() == lake.store.offsets
    assert lake.table().location().startswith("s3://")


def test_damage_that_is_skipped_is_counted(lake: Lake) -> None:
    lake.store.append(300)
    with (lake.store.root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(lake.store.offsets[100] + 4)
        file.write(b"\xaa" * 4)
    source = Stores(
        [str(lake.store.root)], {"mode": "skip-and-report", "damagePath": str(lake.folder / "damages")}
    )
    assert land(source, str(NAME), spark=lake.spark).damages == 1
    assert lake.offsets() == lake.store.offsets[:100] + lake.store.offsets[101:]


def test_fenced_is_what_a_run_is_told(lake: Lake) -> None:
    """By a batch of its own, too, without Spark's words around it."""
    lake.store.append(20)
    held: list[object] = []

    def transform(rows: DataFrame) -> DataFrame:
        held.append(claim(lake.table(), str(NAME), ["broker-a"]) if held else None)
        return rows

    with pytest.raises(PipelineError) as told:
        lake.land(transform=transform)
    assert "\n" not in str(told.value) and "took over" in str(told.value), Fenced

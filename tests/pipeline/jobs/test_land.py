"""Landing within one process: once, again, replayed, with another checkpoint, store, schema; stopped."""

from __future__ import annotations

import json
import re
import shutil
import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.delta.errors import LAND_AGAIN, WrongTable
from hatwisted.pipeline.delta.landedrows import landed_schema
from hatwisted.pipeline.errors import PipelineError, WrongSchema
from hatwisted.pipeline.jobs.land.landing import LandOptions, LandResult, land
from hatwisted.pipeline.jobs.land.landingsources import Stores, WrongStore
from hatwisted.pipeline.jobs.land.landingstate import LandingBusy, WrongCheckpoint, landing_state
from tests.pipeline.jobs import landing
from tests.support.golden import GOLDEN
from tests.support.growing import TOPICS, GrowingStore

STATE = "_landing"


@dataclass
class Lake:
    """A store, the table it is landed into, and the verbs of the tests."""

    spark: SparkSession
    folder: Path

    def __post_init__(self) -> None:
        self.store = GrowingStore(self.folder / "broker-a")
        self.table = self.folder / "table"

    def land(self, *stores: Path, **arguments: Any) -> LandResult:
        sources = [str(store) for store in stores or (self.store.root,)]
        running = {name: arguments.pop(name) for name in ("stop", "progress") if name in arguments}
        options = LandOptions(**{"compact_below": None, **arguments})
        return land(sources, str(self.table), options, spark=self.spark, **running)

    def stream(self, **arguments: Any) -> LandResult:
        """Land by a stream."""
        source = landing.source("stream", str(self.store.root))
        progress = arguments.pop("progress", None)
        options = LandOptions(**{"compact_below": None, **arguments})
        return land(source, str(self.table), options, spark=self.spark, progress=progress)

    def offsets(self) -> list[int]:
        found: list[int] = self.rows("physical_offset").column(0).to_pylist()
        return sorted(found)

    def rows(self, *columns: str) -> pa.Table:
        return DeltaTable(str(self.table)).to_pyarrow_table(columns=list(columns) or None)

    def state(self) -> Path:
        (found,) = (self.table / STATE).iterdir()
        return found

    def files(self) -> set[Path]:
        return set(self.table.glob("topic=*/*/*.parquet"))


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path)


def test_everything_of_a_real_store_lands(lake: Lake) -> None:
    master = GOLDEN / "master"
    found = lake.land(master)
    there = read_arrow([str(master)]).read_all().sort_by("physical_offset")
    landed = lake.rows().sort_by("physical_offset")
    assert found.rows == there.num_rows > 0
    assert found.log_bytes == sum(there["size"].to_pylist())
    for name in there.column_names:
        assert landed[name].to_pylist() == there[name].to_pylist(), name
    days = [time.date() for time in there["store_timestamp"].to_pylist()]
    assert landed["store_date"].to_pylist() == days


def test_a_second_landing_brings_what_is_new(lake: Lake) -> None:
    lake.store.append(500)
    first = lake.land()
    lake.store.append(700)
    second = lake.land()
    assert (first.rows, second.rows, lake.land().rows) == (500, 700, 0)
    assert lake.offsets() == lake.store.offsets
    assert second.versions > first.versions


def test_topics_come_back_exactly_and_pandas_reads_them(lake: Lake) -> None:
    lake.store.append(100)
    lake.land()
    frame = DeltaTable(str(lake.table)).to_pandas()
    assert set(frame["topic"]) == set(TOPICS)
    retried = DeltaTable(str(lake.table)).to_pandas(filters=[("topic", "=", "%RETRY%billing")])
    assert len(retried) == 25


def test_many_triggers_are_as_many_commits(lake: Lake) -> None:
    lake.store.append(2000)
    found = lake.land(max_bytes_per_trigger=64 << 10)
    assert len(found.versions) >= 5
    assert lake.offsets() == lake.store.offsets


def test_a_committed_batch_that_spark_repeats_changes_nothing(lake: Lake) -> None:
    lake.store.append(500)
    lake.stream()
    before = lake.files()
    last = max((lake.state() / "spark" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()  # as if it was killed between Delta's commit and Spark's
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    lake.store.append(300)
    assert lake.stream().rows == 300
    assert lake.offsets() == lake.store.offsets
    assert len(lake.files() - before) == len(DeltaTable(str(lake.table)).file_uris()) - len(before)


def test_a_lost_checkpoint_repeats_nothing(lake: Lake) -> None:
    lake.store.append(500)
    lake.land()
    shutil.rmtree(lake.table / STATE)
    lake.store.append(300)
    assert lake.land().rows == 300
    assert lake.offsets() == lake.store.offsets


def test_what_a_restored_version_lacks_is_landed_again(lake: Lake) -> None:
    """The checkpoint says of rows that they have landed, which are in no version any more that counts."""
    lake.store.append(50)
    lake.land()
    restored = DeltaTable(str(lake.table)).version()
    lake.store.append(30)
    lake.land()
    DeltaTable(str(lake.table)).restore(restored)
    lake.store.append(7)
    assert lake.land().rows == 37
    assert lake.offsets() == lake.store.offsets
    assert lake.land().rows == 0


def test_a_restore_beneath_a_stream_ends_it_with_what_to_do_next(lake: Lake) -> None:
    lake.store.append(50)
    lake.land()
    restored = DeltaTable(str(lake.table)).version()
    lake.store.append(30)

    def restore(done: int, total: int) -> None:
        if done and lake.offsets() == lake.store.offsets:
            DeltaTable(str(lake.table)).restore(restored)
            lake.store.append(7)

    into = re.escape(str(lake.table))
    told = (
        rf"^{into}: was restored to an earlier version while rows were written \(its version \d+ did that\): "
    )
    with pytest.raises(PipelineError, match=f"{told}{LAND_AGAIN}$"):
        lake.stream(mode="continuous", every=0.1, progress=restore)
    assert lake.offsets() == lake.store.offsets[:50]
    assert lake.stream().rows == 37
    assert lake.offsets() == lake.store.offsets


def test_a_slave_goes_on_where_its_master_was_landed(lake: Lake) -> None:
    lake.store.append(500)
    lake.land()
    slave = lake.folder / "slave" / "broker-a"
    lake.store.append(100)
    shutil.copytree(lake.store.root, slave)
    assert lake.land(slave).rows == 100
    assert lake.offsets() == lake.store.offsets


def test_another_log_of_the_same_broker_name_is_refused(lake: Lake) -> None:
    lake.store.append(500)
    lake.land()
    other = GrowingStore(lake.folder / "other" / "broker-a", seed=1)
    other.append(100)
    with pytest.raises(WrongStore, match="broker broker-a, offset .* the log ends at"):
        lake.land(other.root)
    other.append(500)
    with pytest.raises(WrongStore, match="another record there"):
        lake.land(other.root)
    assert lake.offsets() == lake.store.offsets


def test_two_brokers_share_a_table(lake: Lake) -> None:
    other = GrowingStore(lake.folder / "broker-b", seed=1)
    lake.store.append(300)
    other.append(200)
    assert lake.land(lake.store.root, other.root).rows == 500
    other.append(50)
    assert lake.land(other.root).rows == 50  # by itself: another checkpoint, the same place
    counts = lake.rows("broker").group_by("broker").aggregate([([], "count_all")]).to_pylist()
    assert {row["broker"]: row["count_all"] for row in counts} == {"broker-a": 300, "broker-b": 250}


def test_overlapping_landings_repeat_nothing(lake: Lake) -> None:
    """Each choice of brokers has a checkpoint of its own; which one is used next is the user's choice."""
    other = GrowingStore(lake.folder / "broker-b", seed=1)
    for store in (lake.store, other):
        store.append(40)
    lake.land()
    lake.land(lake.store.root, other.root)
    for store in (lake.store, other):
        store.append(30)
    lake.land(lake.store.root, other.root)
    wanted = sorted(lake.store.offsets + other.offsets)
    for stores in ((), (other.root,), (lake.store.root, other.root)):
        assert lake.land(*stores).rows == 0
        assert lake.offsets() == wanted
    lake.store.append(10)
    assert lake.land().rows == 10
    assert lake.land(lake.store.root, other.root).rows == 0
    assert lake.offsets() == sorted(lake.store.offsets + other.offsets)


def test_what_was_deleted_before_it_was_landed_is_told_without_a_checkpoint_too(lake: Lake) -> None:
    lake.store.append(40)
    lake.land()
    shutil.rmtree(lake.state())
    lake.store.append(12_000)
    first, *_ = sorted((lake.store.root / "commitlog").iterdir())
    first.unlink()
    with pytest.raises(PipelineError, match="were deleted before they were read.*failOnDataLoss"):
        lake.land()
    assert len(lake.offsets()) == 40


def test_any_time_that_a_producer_gives_lands(lake: Lake) -> None:
    for time in (253_402_300_800_000, 10**15, -62_135_596_800_001, 1 << 62):
        lake.store.append(1, born_timestamp=time)
        lake.store.append(1)
    assert lake.land().rows == 8
    assert lake.offsets() == lake.store.offsets
    assert lake.land().rows == 0


def test_a_table_that_delta_rs_has_rewritten_goes_on(lake: Lake) -> None:
    lake.store.append(30)
    lake.land()
    DeltaTable(str(lake.table)).delete(f"physical_offset = {lake.store.offsets[3]}")
    DeltaTable(str(lake.table)).optimize.z_order(["physical_offset"])
    lake.store.append(30)
    assert lake.land().rows == 30
    assert lake.offsets() == lake.store.offsets[:3] + lake.store.offsets[4:]


def test_the_engines_take_turns_and_make_the_same_table(lake: Lake) -> None:
    for count, engine in ((40, "local"), (30, "spark"), (20, "local"), (10, "local"), (50, "spark")):
        lake.store.append(count)
        if engine == "spark":
            found = lake.land()
        else:
            found = land([str(lake.store.root)], str(lake.table), LandOptions(engine="local"))
        assert found.rows == count
    assert lake.offsets() == lake.store.offsets
    alone = {}
    for engine in ("local", "spark"):
        lake.table = lake.folder / engine
        if engine == "spark":
            lake.land(GOLDEN / "master")
        else:
            land([str(GOLDEN / "master")], str(lake.table), LandOptions(engine="local"))
        table = DeltaTable(str(lake.table))
        alone[engine] = (
            table.to_pyarrow_table().sort_by("physical_offset"),
            table.schema(),
            table.metadata().partition_columns,
        )
    assert alone["local"] == alone["spark"]


def test_two_stores_of_one_broker_are_refused(lake: Lake) -> None:
    lake.store.append(10)
    copy = lake.folder / "copy" / "broker-a"
    shutil.copytree(lake.store.root, copy)
    with pytest.raises(PipelineError, match="would both be broker"):
        lake.land(lake.store.root, copy)


def test_an_older_table_is_widened(lake: Lake) -> None:
    lake.store.append(300)
    old = landed_schema(["topic", "body"]).append(pa.field("mine", pa.string()))
    DeltaTable.create(str(lake.table), Schema.from_arrow(old), partition_by=["topic", "store_date"])
    assert lake.land().rows == 300
    table = lake.rows()
    assert set(landed_schema().names) | {"mine"} == set(table.column_names)
    assert sorted(table["unique_key"].to_pylist())[0] == "U000000000000000"


def test_a_column_of_another_type_is_refused_before_anything_is_written(lake: Lake) -> None:
    lake.store.append(10)
    old = pa.schema(
        [item.with_type(pa.string()) if item.name == "size" else item for item in landed_schema()]
    )
    DeltaTable.create(str(lake.table), Schema.from_arrow(old), partition_by=["topic", "store_date"])
    with pytest.raises(WrongSchema, match="column size is string in the table"):
        lake.land()
    assert DeltaTable(str(lake.table)).version() == 0


def test_a_folder_of_something_else_is_refused(lake: Lake) -> None:
    lake.store.append(10)
    with pytest.raises(WrongTable, match="a Delta table"):
        land([str(lake.store.root)], str(lake.folder), spark=lake.spark)


def test_a_transformation_lands_what_it_makes_of_the_rows(lake: Lake) -> None:
    lake.store.append(400)

    def transform(rows: DataFrame) -> DataFrame:
        return rows.where(F.col("topic") == "orders").drop("body").withColumn("mine", F.col("size") * 2)

    assert lake.land(transform=transform).rows == 100
    table = lake.rows()
    assert "body" not in table.column_names
    assert table["mine"].to_pylist() == [2 * size for size in table["size"].to_pylist()]
    with pytest.raises(WrongSchema, match="must keep column broker"):
        lake.land(transform=lambda rows: rows.drop("broker"))


def test_fewer_columns_may_be_landed(lake: Lake) -> None:
    lake.store.append(50)
    lake.land(columns=["tags"])
    found = lake.rows().column_names
    assert "tags" in found and "body" not in found and "physical_offset" in found


def test_small_files_are_compacted_and_landing_goes_on(lake: Lake) -> None:
    for _ in range(2):
        lake.store.append(1500)
        found = lake.land(max_bytes_per_trigger=64 << 10, compact_below=16 << 20)
        assert found.compacted >= 8 and found.put_off == ()
    assert lake.offsets() == lake.store.offsets
    assert len(DeltaTable(str(lake.table)).file_uris()) <= len(TOPICS) * 2


def test_what_a_compaction_replaced_is_removed_when_asked_to(lake: Lake) -> None:
    for _ in range(8):
        lake.store.append(40)
        land([str(lake.store.root)], str(lake.table), LandOptions(engine="local", compact_below=None))
    properties = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
    DeltaTable(str(lake.table)).alter.set_table_properties(properties)
    replaced = lake.files()
    lake.store.append(40)
    assert lake.land(compact_below=1 << 20).compacted >= len(replaced)
    assert replaced < lake.files()
    lake.store.append(40)
    assert lake.land(vacuum=timedelta(0)).vacuumed >= len(replaced)
    assert replaced.isdisjoint(lake.files())
    lake.store.append(40)
    assert lake.stream(vacuum=timedelta(days=8)).vacuumed == 0
    assert lake.offsets() == lake.store.offsets


def test_a_landing_that_follows_ends_when_asked_to(lake: Lake) -> None:
    stop = threading.Event()
    lake.store.append(100)

    def told(done: int, total: int) -> None:
        if len(lake.store.offsets) < 300:
            lake.store.append(100)
        else:
            stop.set()

    found = lake.land(mode="continuous", every=0.1, stop=stop, progress=told)
    assert found.stopped
    assert lake.offsets() == lake.store.offsets[: found.rows]
    lake.land()
    assert lake.offsets() == lake.store.offsets


def test_a_stream_and_tasks_take_turns(lake: Lake) -> None:
    """The stream's checkpoint lies behind what tasks have landed, and their batches have numbers of their own."""
    for count, verb in enumerate((lake.stream, lake.land, lake.stream, lake.land, lake.land, lake.stream)):
        lake.store.append(10 * count)
        assert verb().rows == 10 * count
    assert lake.offsets() == lake.store.offsets


@pytest.mark.parametrize("other", ["table", "sources"])
def test_a_checkpoint_of_something_else_is_refused(lake: Lake, other: str) -> None:
    lake.store.append(10)
    checkpoint = str(lake.folder / "checkpoint")
    lake.land(checkpoint=checkpoint)
    second = GrowingStore(lake.folder / "broker-b")
    second.append(10)
    if other == "table":
        shutil.rmtree(lake.table)
    with pytest.raises(WrongCheckpoint, match=f"belongs to {other}"):
        lake.land(second.root if other == "sources" else lake.store.root, checkpoint=checkpoint)


def test_one_landing_at_a_time(lake: Lake) -> None:
    lake.store.append(10)
    lake.land()
    identity = json.loads((lake.state() / "landing.json").read_text())
    from hatwisted.pipeline.delta.names import Writer

    with (
        landing_state(
            lake.state(),
            table_id=identity["table"],
            kind="local",
            identity=Writer.of(identity["sources"]),
        ),
        pytest.raises(LandingBusy, match="lands with this checkpoint"),
    ):
        lake.land()


def test_user_s_rows_next_to_ours_stay(lake: Lake) -> None:
    lake.store.append(10)
    lake.land()
    mine = lake.rows().slice(0, 1).set_column(0, "topic", pa.array(["mine"]))
    write_deltalake(str(lake.table), mine.select(landed_schema().names), mode="append")
    lake.store.append(10)
    lake.land()
    assert lake.rows("topic").num_rows == 21


def test_damage_is_counted_once(lake: Lake) -> None:
    """What a run met; a run that meets none tells none, though the table of damages still has the earlier ones."""
    lake.store.append(300)
    with (lake.store.root / "commitlog" / f"{0:020d}").open("r+b") as file:
        for number in (100, 200):
            file.seek(lake.store.offsets[number] + 4)
            file.write(b"\xaa" * 4)
    options = {"mode": "skip-and-report", "damagePath": str(lake.folder / "damages")}
    source = Stores([str(lake.store.root)], options)
    with pytest.raises(PipelineError, match=f"no valid record at offset {lake.store.offsets[100]}"):
        lake.land()
    assert (
        land(
            source, str(lake.table), LandOptions(checkpoint=str(lake.folder / "c")), spark=lake.spark
        ).damages
        == 2
    )
    assert lake.offsets() == [at for at in lake.store.offsets if at not in lake.store.offsets[100:201:100]]
    lake.store.append(100)
    again = land(source, str(lake.table), LandOptions(checkpoint=str(lake.folder / "c")), spark=lake.spark)
    assert (again.rows, again.damages) == (100, 0)

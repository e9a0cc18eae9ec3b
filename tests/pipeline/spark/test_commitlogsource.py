"""The source `commitlog` read as a batch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hatwisted.pipeline import register
from hatwisted.pipeline.decode.arrowschema import COLUMNS
from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.spark.damagetable import read_damages
from hatwisted.pipeline.spark.failures import reason_of
from tests.support.golden import GOLDEN
from tests.support.growing import TOPICS, GrowingStore

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> GrowingStore:
    """4,000 records in two preallocated files."""
    log = GrowingStore(tmp_path_factory.mktemp("stores") / "broker-a")
    log.append(4000)
    return log


@pytest.fixture
def copy(log: GrowingStore, tmp_path: Path) -> Path:
    """A copy of the log, to be damaged."""
    return Path(shutil.copytree(log.root, tmp_path / "broker-a"))


def read(spark: SparkSession, *stores: Path, **options: str) -> DataFrame:
    paths = json.dumps([str(store) for store in stores])
    return spark.read.format("commitlog").options(paths=paths, **options).load()


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.select("physical_offset").collect())


def refusal(frame: DataFrame) -> str:
    """The one line that a failing read tells."""
    with pytest.raises(PySparkException) as failed:
        frame.collect()
    told = reason_of(failed.value)
    assert told is not None, failed.value
    return told


def damage(store: Path, at: int, length: int) -> None:
    with (store / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(at)
        file.write(b"\xaa" * length)


def test_golden_rows_are_those_of_the_decoder(spark: SparkSession) -> None:
    store = GOLDEN / "master"
    found = spark.read.format("commitlog").load(str(store)).orderBy("physical_offset").toArrow()
    assert found.column_names == list(COLUMNS)
    assert found.to_pylist() == read_arrow(str(store)).read_all().to_pylist()
    assert found.num_rows == 246


def test_the_commitlog_folder_itself_may_be_named(spark: SparkSession) -> None:
    assert spark.read.format("commitlog").load(str(GOLDEN / "slave" / "commitlog")).count() == 246


def test_a_store_at_a_url(spark: SparkSession, log: GrowingStore, copy: Path, tmp_path: Path) -> None:
    """Paths that fsspec opens, in Spark's tasks too: rows, patterns, the table of damages."""
    here = [str(each) for each in read(spark, log.root).orderBy("physical_offset").collect()]
    frame = spark.read.format("commitlog").option("splitBytes", "100k").load(f"file://{log.root}")
    assert [str(each) for each in frame.orderBy("physical_offset").collect()] == here
    assert spark.read.format("commitlog").load(f"file://{log.root.parent}/broker-*").count() == len(here)
    assert "no such folder" in refusal(spark.read.format("commitlog").load(f"file://{tmp_path}/none"))
    damages = f"file://{tmp_path}/damages"
    assert read_damages(spark, damages).count() == 0
    damage(copy, log.offsets[10] + 4, 8)
    skipping = spark.read.format("commitlog").options(mode="skip-and-report", damagePath=damages)
    for _ in range(2):
        assert skipping.load(f"file://{copy}").count() == len(here) - 1
        (found,) = read_damages(spark, damages).collect()
        assert (found["broker"], found["begin"], found["end"]) == ("broker-a", *log.offsets[10:12])


def test_formats_are_registered_whoever_has_done_so_before(spark: SparkSession, log: GrowingStore) -> None:
    assert register(register(spark)) is spark
    with pytest.raises((Py4JJavaError, PySparkException)) as refused:  # it can't be read from
        spark.read.format("hatwisted-delta").load()
    assert "DATA_SOURCE_NOT_FOUND" not in str(refused.value)
    assert spark.read.format("commitlog").load(str(log.root)).count() == len(log.offsets)


def test_several_brokers_by_list_and_pattern(spark: SparkSession, tmp_path: Path) -> None:
    for name, records in {"broker-a": 30, "broker-b": 20}.items():
        GrowingStore(tmp_path / name).append(records)
    both = {"broker-a": 30, "broker-b": 20}

    def counted(frame: DataFrame) -> dict[str, int]:
        return {row["broker"]: row["count"] for row in frame.groupBy("broker").count().collect()}

    assert counted(read(spark, tmp_path / "broker-a", tmp_path / "broker-b", columns="broker")) == both
    assert counted(read(spark, tmp_path / "broker-*", columns="broker")) == both
    renamed = read(spark, tmp_path / "broker-*", columns="broker", broker="x,y")
    assert counted(renamed) == {"x": 30, "y": 20}
    assert "would both be broker 'broker-a'" in refusal(
        read(spark, tmp_path / "broker-a", tmp_path / "broker-a")
    )
    assert "names 1 brokers, but there are 2" in refusal(read(spark, tmp_path / "broker-*", broker="x"))


def test_columns_by_option_and_by_schema(spark: SparkSession, log: GrowingStore) -> None:
    assert read(spark, log.root, columns="queue_offset, topic").columns == ["queue_offset", "topic"]
    reader = spark.read.format("commitlog").option("path", str(log.root))
    asked = reader.schema(
        "topic string not null, body binary, keys array<string>, properties map<string,string>"
    )
    rows = asked.load().where("keys[0] = 'k7'").collect()
    assert [(row["topic"], bytes(row["body"][:4]), row["properties"]["TAGS"]) for row in rows] == [
        (TOPICS[3], b"0:7:", "t1")
    ]


def test_columns_that_are_not(spark: SparkSession, log: GrowingStore) -> None:
    with pytest.raises(PySparkException, match="no column 'topics'; did you mean topic"):
        read(spark, log.root, columns="topics")
    reader = spark.read.format("commitlog").option("path", str(log.root))
    assert "column queue_id is int, not string" in refusal(reader.schema("queue_id string").load())
    assert "no column 'payload'" in refusal(reader.schema("payload binary").load())


def test_counting_needs_no_column(spark: SparkSession, log: GrowingStore) -> None:
    frame = read(spark, log.root)
    assert frame.count() == frame.select().count() == len(log.offsets)
    assert read(spark, log.root, columns="queue_id").agg(F.count("*")).first() == (len(log.offsets),)


@pytest.mark.parametrize("split", ["1", "100k"])
def test_split_anywhere_has_the_same_rows(spark: SparkSession, tmp_path: Path, split: str) -> None:
    log = GrowingStore(tmp_path / "broker-a")
    log.append(6 if split == "1" else 1000)
    assert offsets(read(spark, log.root, splitBytes="64" if split == "1" else split)) == log.offsets


CONDITIONS = [
    "topic = 'orders'",
    "topic <=> 'orders'",
    "topic in ('orders', 'logs', null)",
    "queue_id = 1 and topic = 'logs'",
    "queue_offset >= 100 and queue_offset < 200",
    "queue_id > 3000000000",
    "physical_offset > 300000 and physical_offset <= 600000",
    "physical_offset in (0, 1048576)",
    "store_timestamp >= timestamp'2025-11-20 01:00:00' and store_timestamp < timestamp'2025-11-20 02:00:00'",
    "born_timestamp < timestamp'2025-11-20 02:00:00+01:00'",
    "store_timestamp > date'2025-11-20'",
    "tags = 't1' and body_crc_ok",
    "unique_key like 'U%7'",
    "topic = 'orders' or queue_id = 1",
    "topic <> 'orders'",
    "broker = 'broker-a' and file = '00000000000001048576'",
    "size > 300 and reconsume_times = 0",
    "topic is null",
    "body = X'30'",
]


def test_pushed_filters_have_the_rows_of_unpushed_ones(spark: SparkSession, log: GrowingStore) -> None:
    answers = [F.expr(condition) for condition in CONDITIONS]  # in a select there is nothing to push
    unpushed = read(spark, log.root).select("physical_offset", F.array(*answers)).collect()
    for index, condition in enumerate(CONDITIONS):
        expected = sorted(offset for offset, fulfilled in unpushed if fulfilled[index])
        assert offsets(read(spark, log.root).where(condition)) == expected, condition


def test_filters_are_pushed(
    spark: SparkSession, log: GrowingStore, capfd: pytest.CaptureFixture[str]
) -> None:
    where = "topic = 'orders' and physical_offset < 1000 and store_timestamp > timestamp'2020-01-01 00:00:00'"
    read(spark, log.root).where(where).explain()
    told = capfd.readouterr().out
    assert "isnotnull(topic" in told and "= orders" not in told and "1000" not in told and "2020" not in told


OPTIONS = [
    ({"topic": "orders, logs"}, "topic in ('orders', 'logs')"),
    ({"queueId": "1"}, "queue_id = 1"),
    ({"queueOffsetFrom": "100", "queueOffsetTo": "200"}, "queue_offset >= 100 and queue_offset < 200"),
    ({"physicalOffsetFrom": "300000"}, "physical_offset >= 300000"),
    (
        {"storeTimestampFrom": "2025-11-20T01:00:00Z", "bornTimestampTo": "2025-11-20T03:00:00+01:00"},
        "store_timestamp >= timestamp'2025-11-20 01:00:00' and born_timestamp < timestamp'2025-11-20 02:00:00'",
    ),
]


def test_options_have_the_rows_of_filters(spark: SparkSession, log: GrowingStore) -> None:
    spark.conf.set(PUSHDOWN, "false")
    try:
        for options, condition in OPTIONS:
            found = offsets(read(spark, log.root, **options))
            assert found == offsets(read(spark, log.root).where(condition)) != [], condition
    finally:
        spark.conf.set(PUSHDOWN, "true")


class TestDamage:
    def test_failfast_names_file_and_offset(self, spark: SparkSession, log: GrowingStore, copy: Path) -> None:
        damage(copy, log.offsets[10] + 4, 300)
        told = refusal(read(spark, copy))
        assert f"{copy}/commitlog/{0:020d}: no valid record at offset {log.offsets[10]}" in told
        assert "mode=skip-and-report" in told

    def test_skip_and_report(
        self, spark: SparkSession, log: GrowingStore, copy: Path, tmp_path: Path
    ) -> None:
        table = str(tmp_path / "damages")
        damage(copy, log.offsets[10] + 4, 8)
        damage(copy, log.offsets[600] + 4, log.offsets[700] - log.offsets[600])
        left = log.offsets[:10] + log.offsets[11:600] + log.offsets[701:]
        frame = read(spark, copy, mode="skip-and-report", damagePath=table, splitBytes="50k")
        for _ in range(2):  # reading again tells nothing twice
            assert offsets(frame) == left
            ranges = read_damages(spark, table).orderBy("begin").collect()
            assert [(row["broker"], row["begin"], row["end"]) for row in ranges] == [
                ("broker-a", log.offsets[10], log.offsets[11]),
                ("broker-a", log.offsets[600], log.offsets[701]),
            ]
            assert {row["file"] for row in ranges} == {f"{0:020d}"} and all(row["reason"] for row in ranges)

    def test_skipping_needs_a_place_to_tell_it(self, spark: SparkSession, log: GrowingStore) -> None:
        assert "needs damagePath" in refusal(read(spark, log.root, mode="skip-and-report"))
        assert "must be failfast or skip" in refusal(read(spark, log.root, mode="dropmalformed"))

    def test_a_sound_log_has_no_damage(self, spark: SparkSession, log: GrowingStore, tmp_path: Path) -> None:
        table = str(tmp_path / "damages")
        assert read(spark, log.root, mode="skip-and-report", damagePath=table).count() == len(log.offsets)
        assert read_damages(spark, table).count() == 0

    def test_permissive_has_a_row_for_it(self, spark: SparkSession, log: GrowingStore, copy: Path) -> None:
        damage(copy, log.offsets[10] + 4, 8)
        damaged = (copy / "commitlog" / f"{0:020d}").read_bytes()[log.offsets[10] : log.offsets[11]]
        frame = read(spark, copy, mode="permissive")
        assert offsets(frame) == log.offsets
        (row,) = frame.where("topic is null").collect()
        assert (row["physical_offset"], row["size"], bytes(row["body"])) == (
            log.offsets[10],
            len(damaged),
            damaged,
        )
        assert (
            frame.where(F.col("topic") == TOPICS[10 % len(TOPICS)]).count()
            == len(log.offsets) // len(TOPICS) - 1
        )


def test_a_torn_last_record_ends_the_read_quietly(spark: SparkSession, tmp_path: Path) -> None:
    log = GrowingStore(tmp_path / "broker-a")
    log.append(50)
    path = log.root / "commitlog" / f"{0:020d}"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: log.offsets[-1] + 60].ljust(size, b"\0"))
    assert offsets(read(spark, log.root)) == log.offsets[:-1]


def test_an_empty_store_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    assert read(spark, GrowingStore(tmp_path / "broker-a").root).count() == 0


def test_bad_input_is_one_line(spark: SparkSession, copy: Path, tmp_path: Path) -> None:
    assert refusal(read(spark, tmp_path / "none")).endswith("none: no such folder")
    assert "no folder has that name" in refusal(read(spark, tmp_path / "x*"))
    (tmp_path / "empty").mkdir()
    assert "not a store" in refusal(read(spark, tmp_path / "empty"))
    with pytest.raises(PySparkException, match="did you mean splitBytes"):
        read(spark, copy, splitByte="1")
    with pytest.raises(PySparkException, match="no store is given"):
        spark.read.format("commitlog").load().collect()
    with (copy / "commitlog" / f"{1 << 20:020d}").open("r+b") as file:
        file.truncate(1000)
    assert "1048576.*has 1000 bytes".replace(".*", ": ") in refusal(read(spark, copy))


def test_the_schema_holds_in_pandas_and_arrow(spark: SparkSession, log: GrowingStore) -> None:
    times = read(spark, log.root, columns="store_timestamp,body", physicalOffsetTo="1").toArrow()
    assert times.schema.field("store_timestamp").type == pa.timestamp("us", tz="UTC")
    assert times.schema.field("body").type == pa.binary()

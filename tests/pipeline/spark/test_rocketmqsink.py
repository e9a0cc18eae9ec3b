"""The sink `rocketmq` under Spark, on brokers of ours: batches, and streams that are repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from hatwisted.pipeline.spark.failures import reason_of
from hatwisted.pipeline.spark.repeats import without_repeats
from hatwisted.pipeline.spark.rocketmqsource import RocketMQSource
from testbed.brokergroup import OURS, BrokerGroup
from testbed.processes import wait_until
from tests.support.clustermessages import PATIENCE, fill

IN_THE_TOPIC = 800


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    with BrokerGroup(tmp_path_factory.mktemp("cluster"), namesrv_kind=OURS) as running:
        running.start()
        fill(running, "In", IN_THE_TOPIC // 2, queues=2)
        yield running


@pytest.fixture
def cluster(spark: SparkSession, group: BrokerGroup) -> dict[str, str]:
    """The options of every read and write."""
    spark.dataSource.register(RocketMQSource)
    # Time for a busy machine's broker to answer: what is sent again is stored twice, and counted here.
    return {
        "namesrvAddr": f"127.0.0.1:{group.namesrv_port}",
        "retries": "2",
        "answerTimeoutMs": "60000",
    }


def read(spark: SparkSession, cluster: dict[str, str], topic: str) -> DataFrame:
    return spark.read.format("rocketmq").options(**cluster, topics=topic).load()


def write(rows: DataFrame, cluster: dict[str, str], **options: str) -> None:
    rows.write.format("rocketmq").options(**cluster, **options).mode("append").save()


def test_a_batch(spark: SparkSession, cluster: dict[str, str]) -> None:
    """Every part of a message arrives; a write that is repeated under its id gives each row its key again."""
    rows = spark.range(300).selectExpr(
        "'Out' as topic",
        "cast(id as string) as value",
        "concat('tag', id % 2) as tags",
        "array(concat('k', id), 'all') as keys",
        "map('number', cast(id as string)) as properties",
        "id % 10 as customer",
    )
    for _ in range(2):
        write(rows, cluster, hashBy="customer", writeId="first")
    found = read(spark, cluster, "Out")
    assert found.count() == 600
    once = without_repeats(found).collect()
    assert sorted(int(row.body) for row in once) == list(range(300))
    queues: dict[int, set[int]] = {}
    for row in once:
        number = int(row.body)
        assert (row.tags, row["keys"]) == (f"tag{number % 2}", [f"k{number}", "all"])
        assert row.properties["number"] == str(number)
        queues.setdefault(number % 10, set()).add(row.queue_id)
    assert all(len(each) == 1 for each in queues.values())


def test_what_is_read_is_copied(spark: SparkSession, cluster: dict[str, str]) -> None:
    """With all columns of the source, to the same queues, under the same keys where messages had some."""
    write(read(spark, cluster, "In"), cluster, topic="Copy")
    columns = ("queue_id", "queue_offset", "body", "keys")
    wanted = read(spark, cluster, "In").select(*columns)
    assert read(spark, cluster, "Copy").select(*columns).exceptAll(wanted).isEmpty()
    assert read(spark, cluster, "Copy").count() == IN_THE_TOPIC


def test_kafkas_columns_there_and_back(spark: SparkSession, cluster: dict[str, str]) -> None:
    rows = spark.range(40).selectExpr(
        "concat('k', id) as key",
        "cast(id as string) as value",
        "array(struct('h' as key, cast('v' as binary) as value)) as headers",
    )
    write(rows, cluster, topic="Kafka")
    options = {**cluster, "schema": "kafka", "includeHeaders": "true"}
    first = spark.read.format("rocketmq").options(**options).option("subscribe", "Kafka").load()
    write(first, cluster, topic="KafkaAgain")
    again = spark.read.format("rocketmq").options(**options).option("subscribePattern", "KafkaA.*").load()
    columns = ["key", "value", "headers", "partition", "offset", "timestampType", "broker"]
    assert again.select(*columns).exceptAll(first.select(*columns)).isEmpty()
    assert (
        again.where("topic = 'KafkaAgain' and timestamp > current_timestamp() - interval 1 day").count() == 40
    )
    stream = spark.readStream.format("rocketmq").options(**options, subscribe="Kafka").load()
    query = stream.selectExpr("cast(key as string)").writeStream.format("memory").queryName("kafka")
    assert query.trigger(availableNow=True).start().awaitTermination(300)
    assert {row.key for row in spark.table("kafka").collect()} == {f"k{number}" for number in range(40)}


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        (["'x' as body"], {}, "rows have no column topic: give the option topic"),
        (["'x' as body", "1 as tag"], {"topic": "T"}, r"tag is no part of a message \(did you mean tags\?\)"),
        (["'x' as body"], {"topic": "T", "queue": "3"}, "no option 'queue'; did you mean queues"),
        (
            ["'x' as body", "77 as queue_id"],
            {"topic": "In"},
            "topic In has 4 queues on broker-a, and message 0",
        ),
        (
            ["repeat('x', 5000000) as body"],
            {"topic": "In"},
            "message 0 is refused by .*maxMessageSize",
        ),
    ],
)
def test_mistakes(
    spark: SparkSession, cluster: dict[str, str], columns: list[str], options: dict[str, str], told: str
) -> None:
    with pytest.raises(PySparkException, match=told) as failure:
        write(spark.range(1).selectExpr(*columns), cluster, **options)
    assert reason_of(failure.value) is not None


def start(
    spark: SparkSession, cluster: dict[str, str], folder: Path, topic: str, **limits: str
) -> StreamingQuery:
    """Copies In to `topic`, shuffled: the order of a repeated batch isn't that of the first time."""
    rows = spark.readStream.format("rocketmq").options(**cluster, topics="In", **limits).load()
    shuffled = rows.select("body", "queue_offset").repartition(3).select("body")
    written = shuffled.writeStream.format("rocketmq").options(**cluster, topic=topic)
    return written.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()


def test_a_stream_that_is_repeated_is_read_once(
    spark: SparkSession, cluster: dict[str, str], tmp_path: Path
) -> None:
    """As after a crash between a batch's last task and Spark's own note of it, and after one amidst of tasks."""
    limits = {"maxRecordsPerTrigger": "500"}
    assert start(spark, cluster, tmp_path / "copy", "Again", **limits).awaitTermination(300)
    last = max((tmp_path / "copy" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    assert start(spark, cluster, tmp_path / "copy", "Again", **limits).awaitTermination(300)
    again = read(spark, cluster, "Again")
    assert again.count() > IN_THE_TOPIC
    bodies = Counter(bytes(row.body) for row in read(spark, cluster, "In").select("body").collect())
    assert Counter(bytes(row.body) for row in without_repeats(again).select("body").collect()) == bodies
    streamed = without_repeats(spark.readStream.format("rocketmq").options(**cluster, topics="Again").load())
    query = streamed.writeStream.format("memory").queryName("streamed").trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    assert Counter(bytes(row.body) for row in spark.table("streamed").select("body").collect()) == bodies


def test_a_stream_that_is_stopped_in_its_first_batch(
    spark: SparkSession, cluster: dict[str, str], tmp_path: Path
) -> None:
    query = start(spark, cluster, tmp_path, "Stopped")
    wait_until(lambda: (tmp_path / "offsets" / "0").exists(), PATIENCE, "the first batch is planned")
    query.stop()
    assert start(spark, cluster, tmp_path, "Stopped").awaitTermination(300)
    assert without_repeats(read(spark, cluster, "Stopped")).count() == IN_THE_TOPIC

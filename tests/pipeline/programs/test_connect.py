"""Spark Connect: a program without a JVM of its own, and Spark's server, which finds sources and sinks by itself
or is told of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')
pytest.importorskip("grpc", reason="Spark Connect's client isn't installed: pip install 'pyspark[connect]'")

from deltalake import DeltaTable

from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.spark.javahome import find_java_home
from testbed.brokergroup import OURS, BrokerGroup
from tests.support import quickspark
from tests.support.clustermessages import fill
from tests.support.goldenlog import MASTER
from tests.support.pages import DOCS
from tests.support.soak import only_in_soak

pytestmark = [
    pytest.mark.timeout(1_800),
    only_in_soak("a server of Spark's of its own"),
]
QUEUES, COUNT = 3, 20
PAGES_PROGRAM = re.compile(
    r"<!-- run by tests/pipeline/programs/test_connect.py -->\n\n```python\n(.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
PROGRAM = """
import json, sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hatwisted.pipeline import register, union_read
from hatwisted.pipeline.spark.failures import reason_of
from hatwisted.pipeline.spark.repeats import without_repeats

store, names, table, folder = sys.argv[1:]
spark = SparkSession.builder.remote("local[1]").getOrCreate()
assert "connect" in type(spark).__module__, type(spark)
cluster = {"namesrvAddr": names, "retries": "2", "answerTimeoutMs": "60000"}
said = {}


def bodies(rows):
    return sorted(bytes(row.body).hex() for row in rows.select("body").collect())


def pulled(topic):
    return spark.read.format("rocketmq").options(**cluster, topics=topic).load()


def run(writer, name):
    query = writer.option("checkpointLocation", f"{folder}/{name}-at").trigger(availableNow=True).start()
    query.awaitTermination()
    return query.recentProgress[0]


def into_files(rows, name):
    progress = run(rows.writeStream.format("parquet").option("path", f"{folder}/{name}"), name)
    return spark.read.parquet(f"{folder}/{name}"), progress


log = spark.read.format("commitlog").option("columns", "topic,queue_id").load(store)
said["counted"] = {row["topic"]: row["count"] for row in log.groupBy("topic").count().collect()}
rows = spark.readStream.format("commitlog").option("columns", "physical_offset,body").load(store)
said["streamed"] = into_files(rows, "rows")[0].count()

said["pulled"] = bodies(pulled("Orders"))
stream = spark.readStream.format("rocketmq").options(**cluster, topics="Orders").load()
files, progress = into_files(stream.select("body"), "pulled")
said["pulled in a stream"] = bodies(files)
said["behind"] = json.loads(progress.sources[0].latestOffset)[":lag"]["maxOffsetsBehindLatest"]
said["copied by the page's program"] = bodies(without_repeats(pulled("Copies")))

for _ in range(2):
    out = pulled("Orders").select("body").coalesce(1).sortWithinPartitions("body").write.format("rocketmq")
    out.options(**cluster, topic="Out", writeId="first").mode("append").save()
said["written twice"] = pulled("Out").count()
said["of these once"] = bodies(without_repeats(pulled("Out")))
try:
    spark.read.format("rocketmq").options(namesrvAddr=names).load().count()
except PySparkException as error:
    said["refused"] = reason_of(error)

for _ in range(2):
    assert register(spark) is spark
said["registered"] = pulled("Orders").count()
rows = spark.readStream.format("commitlog").load(store)
sink = rows.writeStream.format("hatwisted-delta").option("path", f"{folder}/landed").option("txnAppId", "a")
run(sink.option("partitionBy", "topic"), "landed")
said["union"] = sorted(at for (at,) in union_read(spark, table, store).select("physical_offset").collect())
print(json.dumps(said))
spark.stop()
"""


def pages_program(replaced: Mapping[str, str]) -> str:
    """That of the page on clusters, with a test's addresses and folders in place of its own."""
    (code,) = PAGES_PROGRAM.findall((DOCS / "pipeline" / "spark.md").read_text())
    for shown, ours in replaced.items():
        assert shown in code
        code = code.replace(shown, ours)
    return str(code)


def test_sources_and_sinks(java: None, tmp_path: Path) -> None:
    """In batches and streams; also what `register` makes known, and a table with the log's rest."""
    log = read_arrow(str(MASTER), ["topic", "physical_offset"]).read_all()
    offsets = sorted(log.column("physical_offset").to_pylist())
    table = str(tmp_path / "table")
    land([str(MASTER)], table, LandOptions(engine="local", max_bytes_per_trigger=20_000))
    landed = DeltaTable(table)
    landed.restore(landed.version() - 1)  # its last rows are in the log alone
    assert 0 < landed.to_pyarrow_table().num_rows < len(offsets)
    plain = {name: value for name, value in os.environ.items() if name not in quickspark.SETTINGS}
    own = {
        "JAVA_HOME": find_java_home(os.environ),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with BrokerGroup(tmp_path / "cluster", namesrv_kind=OURS) as group:
        group.start()
        sent = fill(group, "Orders", COUNT, queues=QUEUES)
        names = f"127.0.0.1:{group.namesrv_port}"
        shown = pages_program(
            {"sc://10.0.0.9:15002": "local[1]", "10.0.0.1:9876": names, "/lake": str(tmp_path)}
        )
        given = [str(MASTER), names, table, str(tmp_path)]
        done = subprocess.run(
            [sys.executable, "-c", shown + PROGRAM, *given],
            env=plain | own,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    bodies = sorted(body.hex() for each in sent for body in each.bodies)
    count, last = done.stdout.splitlines()
    assert int(count) == len(bodies)
    said = json.loads(last)
    assert "topics" in said.pop("refused")
    assert float(said.pop("behind")) == 0
    assert said == {
        "counted": dict(Counter(log.column("topic").to_pylist())),
        "streamed": len(log),
        "pulled": bodies,
        "pulled in a stream": bodies,
        "written twice": 2 * len(bodies),
        "of these once": bodies,
        "copied by the page's program": bodies,
        "registered": len(bodies),
        "union": offsets,
    }
    landed = DeltaTable(str(tmp_path / "landed")).to_pyarrow_table(columns=["physical_offset"])
    assert sorted(landed.column("physical_offset").to_pylist()) == offsets

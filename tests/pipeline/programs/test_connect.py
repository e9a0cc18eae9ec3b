"""Spark Connect: a program without a JVM of its own, and Spark's server, which finds the sources by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')
pytest.importorskip("grpc", reason="Spark Connect's client isn't installed: pip install 'pyspark[connect]'")

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.spark.javahome import find_java_home
from testbed.brokergroup import OURS, BrokerGroup
from tests.support import quickspark
from tests.support.clustermessages import fill, read_all, settings_of, wait_for_route
from tests.support.goldenlog import MASTER
from tests.support.soak import times

pytestmark = [
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(times(1) == 1, reason="a server of Spark's of its own: `make soak` does"),
]
QUEUES, COUNT = 3, 20
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession

from hatwisted.pipeline import register, union_read

store, names, table, folder = sys.argv[1:]
spark = SparkSession.builder.remote("local[1]").getOrCreate()
assert "connect" in type(spark).__module__, type(spark)
said = {}


def streamed(rows, name):
    into = rows.writeStream.format("parquet").option("path", f"{folder}/{name}")
    into = into.option("checkpointLocation", f"{folder}/{name}-at")
    into.trigger(availableNow=True).start().awaitTermination()
    return spark.read.parquet(f"{folder}/{name}")


log = spark.read.format("commitlog").option("columns", "topic,queue_id").load(store)
said["counted"] = {row["topic"]: row["count"] for row in log.groupBy("topic").count().collect()}
rows = spark.readStream.format("commitlog").option("columns", "physical_offset,body").load(store)
said["streamed"] = streamed(rows, "rows").count()

cluster = {"namesrvAddr": names, "readFrom": "master"}
pulled = spark.read.format("rocketmq").options(**cluster, topics="In").load()
said["pulled"] = sorted(bytes(row.body).hex() for row in pulled.select("body").collect())
rows = spark.readStream.format("rocketmq").options(**cluster, topics="In").load().select("body")
said["pulled in a stream"] = sorted(bytes(row.body).hex() for row in streamed(rows, "pulled").collect())
pulled.select("body").write.format("rocketmq").options(**cluster, topic="Out").mode("append").save()

assert register(spark) is spark
rows = spark.readStream.format("commitlog").load(store).select("physical_offset", "topic")
into = rows.writeStream.format("hatwisted-delta").option("path", f"{folder}/registered").option("txnAppId", "a")
into = into.option("checkpointLocation", f"{folder}/registered-at").option("partitionBy", "topic")
into.trigger(availableNow=True).start().awaitTermination()
said["union"] = sorted(at for (at,) in union_read(spark, table, store).select("physical_offset").collect())
print(json.dumps(said))
spark.stop()
"""


def test_sources_and_sinks_are_read_streamed_and_written(java: None, tmp_path: Path) -> None:
    table, log = str(tmp_path / "table"), read_arrow(str(MASTER), ["topic", "physical_offset"]).read_all()
    land([str(MASTER)], table, LandOptions(engine="local"))
    offsets = sorted(log.column("physical_offset").to_pylist())
    DeltaTable(table).delete(f"physical_offset >= {offsets[len(offsets) // 2]}")
    plain = {name: value for name, value in os.environ.items() if name not in quickspark.SETTINGS}
    own = {
        "JAVA_HOME": find_java_home(os.environ),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with BrokerGroup(tmp_path, namesrv_kind=OURS) as group:
        group.start()
        sent = fill(group, "In", COUNT, queues=QUEUES)
        bodies = sorted(body.hex() for each in sent for body in each.bodies)
        names = f"127.0.0.1:{group.namesrv_port}"
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(MASTER), names, table, str(tmp_path)],
            env=plain | own,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        wait_for_route(group, "Out")
        written = read_all(settings_of(group, read_from="master"), "Out", columns=["body"])
    assert sorted(body.hex() for body in written.column("body").to_pylist()) == bodies
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "counted": dict(Counter(log.column("topic").to_pylist())),
        "streamed": len(log),
        "pulled": bodies,
        "pulled in a stream": bodies,
        "union": offsets,
    }
    registered = pa.table(
        QueryBuilder().register("t", DeltaTable(str(tmp_path / "registered"))).execute("SELECT * FROM t")
    )
    assert sorted(registered.column("physical_offset").to_pylist()) == offsets

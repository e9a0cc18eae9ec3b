"""Spark at object stores: both engines into one table there, logs read from there, and its own file systems: that
of hdfs as it comes, s3a by Maven.

With the AWS kit's modules that s3a uses; its whole bundle, which hadoop-aws names, has 640 MB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from testbed.mavenjars import MavenJars
from tests.support.lakes import Lake, lake_of
from tests.support.soak import only_in_soak

HADOOP = "3.5.0"  # PySpark's
KIT = "2.35.4"
JARS = MavenJars(
    "hadoop-aws",
    "org.apache.hadoop",
    ("hadoop-aws",),
    HADOOP,
    without="software.amazon.awssdk:bundle",
    others=[
        *(f"software.amazon.awssdk:{each}:{KIT}" for each in ("s3", "s3-transfer-manager", "sts")),
        f"software.amazon.awssdk:apache-client:{KIT}",
    ],
)
PROGRAM = """
import json, sys
from pathlib import Path
from pyarrow import fs
from hatwisted.pipeline import union_arrow, union_read
from hatwisted.pipeline.decode.storebytes import arrow_filesystem
from hatwisted.pipeline.jobs.audit.auditing import audit
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.spark.sparksession import spark_session
from tests.support.growing import GrowingStore

folder, lake, odd, more = sys.argv[1:]
spark = spark_session(**json.loads(more))
local = LandOptions(engine="local")
store = GrowingStore(Path(folder, "broker-a"))
log, there = str(store.root), f"{lake}/stores/broker-a"
for table in (f"{lake}/table", f"{lake}/{odd}"):
    landed = 0
    for engine in (local, LandOptions(engine="spark", checkpoint=f"{folder}/of-{table[-3:]}"), local):
        store.append(40)
        landed += land([log], table, engine, spark=spark if engine is not local else None).rows
        assert landed == len(store.offsets), (table, engine)
    store.append(30)
    found = union_read(spark, table, log).select("physical_offset").collect()
    assert sorted(at for (at,) in found) == store.offsets, table
    assert union_arrow(table, log, ["physical_offset"]).read_all().num_rows == len(found)
    assert land([log], table, local).rows == 30
    assert audit(spark, [log], [table]).identical

files, place = arrow_filesystem(there)
fs.copy_files(log, place, destination_filesystem=files)
assert spark.read.format("commitlog").load(there).count() == len(store.offsets)
rows = spark.readStream.format("commitlog").load(there).select("physical_offset")
rows.writeStream.format("memory").queryName("seen").trigger(availableNow=True).start().awaitTermination()
assert sorted(at for (at,) in spark.table("seen").collect()) == store.offsets
print("all of it")
"""


@pytest.fixture
def jars(java: None) -> str:
    reason = JARS.missing()
    if reason is not None:
        pytest.skip(reason)
    return ",".join(map(str, JARS.install().glob("*.jar")))


def check(folder: Path, lake: Lake, odd: str, more: dict[str, str]) -> None:
    """Everything there. odd: a table's name; more: of the session"""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), lake.address, odd, json.dumps(more)],
        env=os.environ | lake.environment,
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "all of it"


@only_in_soak("a Spark of its own, with jars for object stores")
def test_a_session_that_knows_s3a(jars: str, tmp_path: Path) -> None:
    with lake_of("s3", tmp_path) as lake:
        before = "spark.hadoop.fs.s3a"
        more = {f"{before}.endpoint": lake.environment["AWS_ENDPOINT_URL"], "spark.jars": jars}
        more |= {f"{before}.endpoint.region": lake.environment["AWS_REGION"]}
        check(tmp_path, lake, "a%20b", more | {f"{before}.path.style.access": "true"})


@only_in_soak("a Spark of its own, and Hadoop's servers")
def test_a_session_at_hdfs(java: None, tmp_path: Path) -> None:
    with lake_of("hdfs", tmp_path) as lake:
        check(tmp_path, lake, "50%", {})

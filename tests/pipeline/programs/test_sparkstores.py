"""Spark at object stores: both engines into one table there, logs read from there, and its own file systems: that
of hdfs as it comes, s3a and Google's by Maven.

With the AWS kit's modules that s3a uses; its whole bundle, which hadoop-aws names, has 640 MB. Hadoop's own file
system for Google's store knows no other address than Google's, so to its JVM the test's server is Google."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from testbed.mavenjars import MavenJars
from tests.support.gcsserver import ENDPOINT, java_options
from tests.support.lakes import Lake, lake_of
from tests.support.soak import only_in_soak

HADOOP = "3.5.0"  # PySpark's
KIT = "2.35.4"
S3A = MavenJars(
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
HADOOPS = MavenJars("hadoop-gcp", "org.apache.hadoop", ("hadoop-gcp",), HADOOP)
CONNECTOR = "4.0.0"
GOOGLES = MavenJars(
    "gcs-connector",
    "com.google.cloud.bigdataoss",
    (),
    CONNECTOR,
    others=[f"com.google.cloud.bigdataoss:gcs-connector:{CONNECTOR}:shaded"],
)
SIZES = {
    "block.size": 64 << 20,
    "rewrite.max.chunk.size": 512 << 20,
    "inputstream.inplace.seek.limit": 8 << 20,
    "inputstream.min.range.request.size": 2 << 20,
    "outputstream.buffer.size": 8 << 20,
}
"""Those that Hadoop 3.5 has for its own file system, with units, which Google's doesn't read."""
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
assert union_read(spark, f"{lake}/table", there).count() == len(store.offsets)
rows = spark.readStream.format("commitlog").load(there).select("physical_offset")
rows.writeStream.format("memory").queryName("seen").trigger(availableNow=True).start().awaitTermination()
assert sorted(at for (at,) in spark.table("seen").collect()) == store.offsets
print("all of it")
"""

REFUSED = """
import json, sys
from pathlib import Path
from hatwisted.pipeline import union_read
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.spark.sparksession import spark_session
from tests.support.growing import GrowingStore

folder, lake, more = sys.argv[1:]
store = GrowingStore(Path(folder, "broker-a"))
store.append(40)
assert land([str(store.root)], f"{lake}/table", LandOptions(engine="local")).rows
try:
    union_read(spark_session(**json.loads(more)), f"{lake}/table", str(store.root))
except PipelineError as error:
    print(json.dumps(str(error)))
"""


def s3a(lake: Lake) -> dict[str, str]:
    """What a session is told of S3."""
    return {
        "fs.s3a.endpoint": lake.environment["AWS_ENDPOINT_URL"],
        "fs.s3a.endpoint.region": lake.environment["AWS_REGION"],
        "fs.s3a.path.style.access": "true",
    }


def hadoops(lake: Lake) -> dict[str, str]:
    """Of Google's store, for Hadoop's own file system: how to find credentials, as all others find them."""
    return {"fs.gs.auth.type": "APPLICATION_DEFAULT"}


def googles(lake: Lake) -> dict[str, str]:
    """The same for Google's file system, without credentials, and where the store is."""
    return {
        "fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "fs.gs.storage.root.url": lake.environment[ENDPOINT],
        "fs.gs.auth.type": "UNAUTHENTICATED",
    } | {f"fs.gs.{name}": str(size) for name, size in SIZES.items()}


class Way(NamedTuple):
    """By which Spark reaches an object store.

    - scheme: of addresses there
    - jars: of its file system
    - told: what Hadoop is told of it
    - only_google: its library knows no other address than Google's
    """

    scheme: str
    jars: MavenJars
    told: Callable[[Lake], dict[str, str]]
    only_google: bool = False


HADOOPS_GOOGLE = Way("gs", HADOOPS, hadoops, only_google=True)
WAYS = (Way("s3", S3A, s3a), HADOOPS_GOOGLE, Way("gs", GOOGLES, googles))


def jars_of(way: Way) -> dict[str, str]:
    """The setting by which a session has them. Skips where they can't be had, and says why."""
    if (reason := way.jars.missing()) is not None:
        pytest.skip(reason)
    return {"spark.jars": ",".join(map(str, way.jars.install().glob("*.jar")))}


def session_of(way: Way, lake: Lake, folder: Path) -> dict[str, str]:
    """The settings of a session that knows the store, but for its jars. folder: the lake's"""
    more = {f"spark.hadoop.{name}": value for name, value in way.told(lake).items()}
    if way.only_google:
        more["spark.driver.extraJavaOptions"] = java_options(lake.environment, folder)
    return more


def ran(program: str, lake: Lake, *arguments: str) -> str:
    """What the program prints last."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | lake.environment,
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


def check(folder: Path, lake: Lake, odd: str, more: dict[str, str]) -> None:
    """Everything there. odd: a table's name; more: of the session"""
    assert ran(PROGRAM, lake, str(folder), lake.address, odd, json.dumps(more)) == "all of it"


@only_in_soak("a Spark of its own, with jars for object stores")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.jars.name)
def test_a_session_that_knows_the_store(way: Way, java: None, tmp_path: Path) -> None:
    jars = jars_of(way)
    with lake_of(way.scheme, tmp_path) as lake:
        check(tmp_path, lake, "a%20b", jars | session_of(way, lake, tmp_path))


@only_in_soak("a Spark of its own, with jars for object stores")
@pytest.mark.parametrize(
    ("known", "told"),
    [
        (False, ["give it org.apache.hadoop:hadoop-gcp of", "spark.hadoop.fs.gs.impl"]),
        (True, ["set spark.hadoop.fs.gs.auth.type to APPLICATION_DEFAULT"]),
    ],
    ids=["unknown", "without-credentials"],
)
def test_a_session_that_lacks_something_for_google_is_told_in_a_line(
    known: bool, told: list[str], java: None, tmp_path: Path
) -> None:
    more = jars_of(HADOOPS_GOOGLE) if known else {}
    with lake_of("gs", tmp_path) as lake:
        nowhere = lake._replace(environment=lake.environment | {"GCE_METADATA_HOST": "nowhere.invalid"})
        said = json.loads(ran(REFUSED, nowhere, str(tmp_path), lake.address, json.dumps(more)))
    assert all(each in said for each in told) and "\n" not in said, said


@only_in_soak("a Spark of its own, and Hadoop's servers")
def test_a_session_at_hdfs(java: None, tmp_path: Path) -> None:
    with lake_of("hdfs", tmp_path) as lake:
        check(tmp_path, lake, "50%", {})

"""Programs that know nothing but Spark: a plain session, in a Python that is started by its environment's path.

The environment's folder isn't on the PATH, nor does a variable name a Python: `python3` is another one, which has
neither hatwisted nor what it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from deltalake import DeltaTable

from hatwisted.pipeline.decode.logreader import read_arrow
from tests.support.goldenlog import MASTER, SLAVE
from tests.support.soak import only_in_soak

SESSION = """
import os, sys
from pyspark.sql import SparkSession

store, slave, folder = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.python.filterPushdown.enabled", "true").getOrCreate()
"""
FOUND = """
print(spark.read.format("commitlog").load(store).count())
assert not {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"} & os.environ.keys()
"""
REGISTERED = """
from hatwisted.pipeline import register

register(spark)
print(spark.read.format("commitlog").load(store).count())
rows = spark.readStream.format("commitlog").load(store).selectExpr("topic", "cast(body as string) as text")
into = rows.writeStream.format("hatwisted-delta").option("path", f"{folder}/table").option("txnAppId", "a")
into = into.option("checkpointLocation", f"{folder}/checkpoint").option("partitionBy", "topic")
into.trigger(availableNow=True).start().awaitTermination()
"""
JOBS = """
from hatwisted.pipeline.jobs.audit.auditing import audit
from hatwisted.pipeline.jobs.land.landing import LandOptions, land

print(land([store], f"{folder}/table", spark=spark).rows)
print(audit(spark, [store, slave], [f"{folder}/table"]).identical)
"""


@pytest.fixture
def environment(java: None) -> dict[str, str]:
    here = Path(sys.executable).parent
    given = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "PYTHONPATH"))
    }
    folders = [each for each in given["PATH"].split(os.pathsep) if Path(each) != here]
    return given | {"PATH": os.pathsep.join(folders), "SPARK_LOCAL_IP": "127.0.0.1"}


def said(environment: dict[str, str], program: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SESSION + program, MASTER, SLAVE, str(folder)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def rows() -> int:
    return read_arrow(MASTER, ["size"]).read_all().num_rows


def test_a_session_finds_the_formats_by_itself(environment: dict[str, str], tmp_path: Path) -> None:
    assert said(environment, FOUND, tmp_path) == [str(rows())]


@only_in_soak("a Spark of its own for most of a minute")
def test_one_that_they_are_registered_for_reads_and_writes(
    environment: dict[str, str], tmp_path: Path
) -> None:
    assert said(environment, REGISTERED, tmp_path) == [str(rows())]
    assert DeltaTable(str(tmp_path / "table")).count() == rows()


@only_in_soak("a Spark of its own")
def test_the_jobs_run_in_one(environment: dict[str, str], tmp_path: Path) -> None:
    assert said(environment, JOBS, tmp_path) == [str(rows()), "True"]

"""A job that is run from a packed environment, on a cluster whose machines have neither hatwisted nor its
libraries."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import venv
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')
pytest.importorskip("venv_pack", reason="venv-pack isn't installed")

import pyspark
import venv_pack
from deltalake import DeltaTable
from packaging.requirements import Requirement

from hatwisted.pipeline import union_arrow
from hatwisted.pipeline.decode.logreader import read_arrow
from testbed.processes import REPOSITORY
from tests.support.goldenlog import MASTER
from tests.support.soak import only_in_soak
from tests.support.standalonespark import standalone_cluster

pytestmark = [
    pytest.mark.timeout(1_800),
    only_in_soak("packs half a GB and starts a cluster"),
]
PATIENCE = 900.0
PYTHON = "./environment/bin/python"
EXTRAS = {"spark", "lake"}
PACKAGES = ("hatwisted", "pyspark_commitlog", "pyspark_rocketmq")
JOB = """
import json, sys
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.spark.sparksession import spark_session

def where(batches):
    import hatwisted, os
    for batch in batches:
        yield batch.from_pydict({"file": [hatwisted.__file__], "work": [os.getcwd()], "rows": [batch.num_rows]})

spark = spark_session()
log = spark.read.format("commitlog").option("columns", "topic").option("splitBytes", "32k").load(sys.argv[1])
found = log.mapInArrow(where, "file string, work string, rows long").collect()
landed = land([sys.argv[1]], sys.argv[2], LandOptions(engine="spark"), spark=spark)
print(json.dumps([landed.rows, [row.asDict() for row in found]]))
"""


def needed(name: str, extras: set[str], seen: set[str]) -> Iterator[str]:
    """What an installed package needs, itself included."""
    if f"{name}{sorted(extras)}" in seen:
        return
    seen.add(f"{name}{sorted(extras)}")
    yield name
    for text in distribution(name).requires or ():
        wanted = Requirement(text)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": each}) for each in {"", *extras}):
            try:
                yield from needed(wanted.name, set(wanted.extras), seen)
            except PackageNotFoundError:
                continue  # it's for another platform, or optional


def packed(folder: Path) -> Path:
    """An environment with this checkout and what it needs, and its archive. Files that are installed already are
    linked: the network may be away."""
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    (site,) = environment.glob("lib/python*/site-packages")
    for name in sorted({*needed("hatwisted", EXTRAS, set())} - {"hatwisted"}):
        for file in distribution(name).files or ():
            source = Path(str(distribution(name).locate_file(file)))
            if ".." in file.parts or "jars" in file.parts or not source.is_file():
                continue
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            if not (site / file).exists():
                shutil.copyfile(source, site / file)
    for package in PACKAGES:
        shutil.copytree(REPOSITORY / package, site / package, ignore=shutil.ignore_patterns("__pycache__"))
    archive = folder / "environment.tar.gz"
    venv_pack.pack(prefix=str(environment), output=str(archive), compress_level=0)
    return archive


def test_executors_take_it_from_the_archive_and_land(java: None, tmp_path: Path) -> None:
    archive, table = packed(tmp_path), str(tmp_path / "table")
    (tmp_path / "job.py").write_text(JOB)
    with standalone_cluster(tmp_path, without=("PYTHONPATH",)) as cluster:
        command = [
            *(Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master", cluster.master),
            *("--archives", f"{archive}#environment", "--executor-memory", "512m"),
            *("--conf", "spark.ui.enabled=false", tmp_path / "job.py", MASTER, table),
        ]
        done = subprocess.run(
            [*map(str, command)],
            env=cluster.environment | {"PYSPARK_PYTHON": PYTHON, "PYSPARK_DRIVER_PYTHON": PYTHON},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    landed, found = json.loads(done.stdout.splitlines()[-1])
    log = read_arrow(str(MASTER)).read_all().sort_by("physical_offset")
    assert sum(row["rows"] for row in found) == landed == len(log)
    rows = union_arrow(table, str(MASTER), log.column_names).read_all().sort_by("physical_offset")
    assert rows.cast(log.schema).equals(log)
    assert DeltaTable(table).count() == len(log)
    works = {Path(row["work"]) for row in found}
    assert {work.parents[1] for work in works} <= set(cluster.workers)
    for row in found:
        assert Path(row["file"]).is_relative_to(Path(row["work"]) / "environment"), row
        assert os.path.realpath(row["file"]) != os.path.realpath(REPOSITORY / "hatwisted" / "__init__.py")

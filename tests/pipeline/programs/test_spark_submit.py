"""The commands as spark-submit starts them: its master and settings, workers that are processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

import pyspark

import hatwisted.__main__
from hatwisted.pipeline.spark.javahome import find_java_home
from tests.support import quickspark
from tests.support.goldenlog import MASTER, SLAVE
from tests.support.soak import only_in_soak

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


@pytest.fixture
def environment(java: None) -> dict[str, str]:
    """As on a user's machine: here Spark starts without what makes it quick for tests."""
    own = {
        "JAVA_HOME": find_java_home(os.environ),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    plain = {name: value for name, value in os.environ.items() if name not in quickspark.SETTINGS}
    return plain | own


@only_in_soak("a Spark of its own for a minute")
def test_an_audit_by_spark_submit(environment: dict[str, str], tmp_path: Path) -> None:
    program = Path(hatwisted.__main__.__file__)
    command = [
        SUBMIT,
        "--master",
        "local[2]",
        "--conf",
        "spark.ui.enabled=false",
        program,
        "pipeline",
        "audit",
    ]
    done = subprocess.run(
        [*map(str, command), MASTER, SLAVE, "--json"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=360,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["identical"]

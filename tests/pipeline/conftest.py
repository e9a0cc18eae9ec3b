"""One Spark session for all of a worker's tests that need one: tests/conftest.py shares them out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WARM_WORKERS = Path(__file__).parents[1] / "support" / "warmworkers"
"""On the path of the shared session's Python workers. Those of programs start as anybody's do."""


@pytest.fixture(scope="session")
def java() -> Iterator[None]:
    """Skips where Spark can't start. All Sparks start quickly, those of programs that a test starts included."""
    pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')
    from hatwisted.pipeline.spark.javahome import NoJava, find_java_home

    try:
        home = find_java_home(os.environ)
    except NoJava as error:
        pytest.skip(str(error))
    from tests.support.quickspark import quick_start

    with pytest.MonkeyPatch.context() as patch:
        for name, value in quick_start(home).items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session as the jobs make it."""
    from hatwisted.pipeline.spark.sparksession import spark_session

    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(WARM_WORKERS), prepend=os.pathsep)
        session = spark_session(
            app="tests",
            **{
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
                "spark.local.dir": str(folder / "local"),
            },
        )
    yield session
    session.stop()

"""Python workers load PySpark from where it's installed, not from Spark's archive of its sources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from hatwisted.pipeline.spark.sparksession import WORKER_SITE

INSTALLED = Path(pyspark.__file__).parent
LIBRARIES = INSTALLED / "python" / "lib"


def test_tasks_have_the_installed_pyspark(spark: SparkSession) -> None:
    def told(_: int) -> tuple[str, bool]:
        import pyspark

        return pyspark.__file__, WORKER_SITE in os.environ.get("PYTHONPATH", "")

    assert spark.sparkContext.parallelize([0], 1).map(told).collect() == [(pyspark.__file__, False)]
    assert WORKER_SITE not in os.environ.get("PYTHONPATH", "")


def python(program: str, *path: Path) -> str:
    """What a program prints, with these folders in front of its path, as Spark's workers have them."""
    told = os.pathsep.join(map(str, (path[0], WORKER_SITE, *path[1:])))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": told},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.strip()


def test_another_spark_s_archive_stays(tmp_path: Path) -> None:
    mine, others = LIBRARIES / "pyspark.zip", tmp_path / "spark" / "python" / "lib" / "pyspark.zip"
    shown = python("import sys; print(*sys.path, sep='\\n')", mine, others).splitlines()
    assert str(mine) not in shown and str(others) in shown and WORKER_SITE not in shown


def test_the_user_s_own_module_of_that_name_is_run(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("ran = __name__")
    found = python("import sys; print(sys.modules['sitecustomize'].ran)", LIBRARIES / "pyspark.zip", tmp_path)
    assert found == "sitecustomize"

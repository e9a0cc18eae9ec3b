"""Tables that their users maintain with Spark's own Delta: landings go on, and every reader sees the same rows.

The newest Delta on Maven is made for Spark 4.2, and reads no table in Spark 4.3: its program has a PySpark of that
version before the environment's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from testbed.mavenjars import MavenJars
from testbed.pippackages import PipPackage
from testbed.processes import REPOSITORY
from tests.pipeline.programs import featured, maintained
from tests.support import quickspark
from tests.support.soak import only_in_soak

SPARK = PipPackage("pyspark", "4.2.0")
JARS = MavenJars("Delta", "io.delta", ("delta-spark_4.2_2.13",), "4.4.0")
OWN = ("delta-*.jar", "unitycatalog-*.jar")
"""What Spark doesn't bring itself."""

pytestmark = [
    pytest.mark.timeout(1_800),
    only_in_soak("a Spark of its own, in another version"),
]


def run(module: str, folder: Path, *arguments: str) -> str:
    """The last line of a program, which ends with 0."""
    for reason in (JARS.missing(), SPARK.missing()):
        if reason is not None:
            pytest.skip(reason)
    jars = ",".join(str(path) for pattern in OWN for path in sorted(JARS.install().glob(pattern)))
    plain = {name: value for name, value in os.environ.items() if name not in quickspark.SETTINGS}
    own = {
        "PYTHONPATH": os.pathsep.join((str(SPARK.folder), str(REPOSITORY))),
        quickspark.OPTIONS: quickspark.QUICK_JVM,
    }
    done = subprocess.run(
        [sys.executable, "-m", module, str(folder), jars, *arguments],
        env=plain | own,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    # Spark's JVM fills pages if its folder is gone before its end.
    told = [line for line in done.stderr.splitlines() if not line.startswith("\tat ")]
    assert done.returncode == 0, "\n".join(told)[-6000:]
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "properties", [{}, {"delta.enableDeletionVectors": "true"}], ids=["plain", "deletion-vectors"]
)
def test_deleted_updated_merged_optimized_and_vacuumed(
    java: None, tmp_path: Path, properties: dict[str, str]
) -> None:
    assert run(maintained.__name__, tmp_path, json.dumps(properties)) == "all of it"


def test_features_are_complied_with_or_refused_and_dropped(java: None, tmp_path: Path) -> None:
    assert run(featured.__name__, tmp_path) == "all of it"

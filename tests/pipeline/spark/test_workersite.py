"""Python workers load PySpark from where it's installed, not from Spark's archive of its sources, and don't look
for garbage among what they have loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pyspark
from pyspark.sql import SparkSession

from hatwisted.pipeline.spark.sparksession import WORKER_SITE

INSTALLED = Path(pyspark.__file__).parent
LIBRARIES = INSTALLED / "python" / "lib"
MANY = 10_000


class Seen(NamedTuple):
    """By one task: what its worker leaves out when it looks for garbage, and has the garbage of the task before
    gone?"""

    frozen: int
    rid: bool


def seen_by_tasks(spark: SparkSession) -> list[Seen]:
    """By three tasks of one worker, one after another. The first leaves a module behind, which holds many objects,
    the others many more in that module; each leaves garbage."""

    def told(_: int) -> tuple[int, int, bool]:
        import gc
        import os
        import sys
        import types
        import weakref

        class Ring:
            pass

        left = sys.modules.setdefault("left_by_tasks", types.ModuleType("left_by_tasks"))
        ring = vars(left).get("ring")
        seen = os.getpid(), gc.get_freeze_count(), ring is None or ring() is None
        vars(left).setdefault("kept", []).extend([] for _ in range(MANY))
        garbage = Ring()
        vars(garbage)["itself"] = garbage
        vars(left)["ring"] = weakref.ref(garbage)
        return seen

    found: defaultdict[int, list[Seen]] = defaultdict(list)
    for _ in range(60):
        ((worker, frozen, rid),) = spark.sparkContext.parallelize([0], 1).map(told).collect()
        found[worker].append(Seen(frozen, rid))
        if len(found[worker]) == 3:
            return found[worker]
    raise AssertionError(f"no worker has had three tasks: {dict(found)}")


def test_a_worker_looks_for_garbage_but_not_among_what_it_has_loaded(spark: SparkSession) -> None:
    """What later tasks leave is looked at: else a worker of many tasks would keep the garbage that it becomes."""
    first, second, third = seen_by_tasks(spark)
    assert first.frozen > 0, "what the daemon had loaded"
    assert second.frozen - first.frozen > MANY, "what the first task has loaded"
    assert abs(third.frozen - second.frozen) < MANY // 2
    assert second.rid and third.rid


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


def test_an_archive_that_a_link_leads_to_is_known(tmp_path: Path) -> None:
    """Spark resolves its own folder, where a path may go by a link: to the current one of several environments."""
    (tmp_path / "current").symlink_to(INSTALLED.parent)
    mine = tmp_path / "current" / "pyspark" / "python" / "lib" / "pyspark.zip"
    assert str(mine) not in python("import sys; print(*sys.path, sep='\\n')", mine).splitlines()


def test_the_user_s_own_module_of_that_name_is_run(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("ran = __name__")
    found = python("import sys; print(sys.modules['sitecustomize'].ran)", LIBRARIES / "pyspark.zip", tmp_path)
    assert found == "sitecustomize"


def test_whoever_looks_for_sources_needn_t_wait_for_pandas() -> None:
    """Each session does so once, whether it reads logs or not."""
    program = "import sys, pyspark_commitlog, pyspark_rocketmq; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

"""What Python workers begin with, of a JVM that `spark_session` has started: they load PySpark as it's installed.

Spark puts an archive of PySpark's sources in front of their path. Python compiles these anew in each process, for
half a second of a core, and a small landing by Spark has a dozen and a half of them. Where the archive lies
within an installed PySpark, that is the same version, compiled once. The folder of this module is on the workers'
path for nothing else, and a module of the same name that it hides is run as well.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from typing import Final

HERE: Final = os.path.dirname(os.path.abspath(__file__))
ARCHIVES: Final = ("pyspark.zip", "py4j-")
"""What the names of Spark's archives begin with."""


def is_needless(entry: str, path: list[str]) -> bool:
    """Is it one of Spark's archives, whose package is installed in a folder of the path?

    - entry: of the path
    - path: all of it
    """
    folder, name = os.path.split(entry)
    package, inner = os.path.split(os.path.dirname(folder))
    if not name.startswith(ARCHIVES) or inner != "python":
        return False
    installed = os.path.dirname(package)
    module = os.path.join(installed, name.partition(".")[0].partition("-")[0], "__init__.py")
    return installed in path and os.path.isfile(module)


def run() -> None:
    """See the module."""
    sys.path[:] = [each for each in sys.path if each != HERE and not is_needless(each, sys.path)]
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(each for each in given if each != HERE)
    own = sys.modules.pop(__name__)
    with suppress(ImportError):
        importlib.import_module(__name__)
    sys.modules.setdefault(__name__, own)


if __name__ == "sitecustomize":
    run()

"""What Python workers begin with, of a JVM that `spark_session` has started: they load PySpark as it's installed,
and don't look for garbage among what they have loaded.

Spark puts an archive of PySpark's sources in front of their path. Python compiles these anew in each process, for
half a second of a core, and a small landing by Spark has a dozen and a half of them. Where the archive lies
within an installed PySpark, that is the same version, compiled once.

A worker looks for garbage at each task's end, and takes no other task meanwhile. Nearly all that it looks at is
what it has loaded, PySpark, Arrow and the rest, which never goes. So these objects are left out of later looks:
those of the daemon, of which workers are forked, at once, those that a task has loaded at its end.

The folder of this module is on the workers' path for nothing else, and a module of the same name that it hides is
run as well.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from contextlib import suppress
from typing import Any, Final

HERE: Final = os.path.dirname(os.path.abspath(__file__))
ARCHIVES: Final = ("pyspark.zip", "py4j-")
"""What the names of Spark's archives begin with."""
DAEMON: Final = ["-m", "pyspark.daemon"]
"""The command that workers are forked of; it looks for garbage between their tasks, by the name `gc`."""


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
    # Spark has resolved its folder's links, which the path may go by.
    return os.path.realpath(installed) in map(os.path.realpath, path) and os.path.isfile(module)


class Settling:
    """The module `gc`, for the daemon's code in a worker: a look for garbage leaves out what an earlier one saw.

    Only where modules have come since: what else a task leaves, in a cache, may be garbage later on.
    """

    def __init__(self) -> None:
        self._modules = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(gc, name)

    def collect(self, *generation: int) -> int:
        """As gc.collect."""
        found = gc.collect(*generation)
        if self._modules != (modules := len(sys.modules)):
            self._modules = modules
            gc.freeze()
        return found


def settle() -> None:
    """In a process that the daemon has forked. Those that a task forks in turn are none of ours."""
    daemon = vars(sys.modules["__main__"])
    if daemon.get("gc") is gc:
        gc.freeze()
        daemon["gc"] = Settling()


def run() -> None:
    """See the module."""
    if sys.orig_argv[1:3] == DAEMON:
        os.register_at_fork(after_in_child=settle)
    sys.path[:] = [each for each in sys.path if each != HERE and not is_needless(each, sys.path)]
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(each for each in given if each != HERE)
    own = sys.modules.pop(__name__)
    with suppress(ImportError):
        importlib.import_module(__name__)
    sys.modules.setdefault(__name__, own)


if __name__ == "sitecustomize":
    run()

"""Which Python Spark's JVM looks for data sources with, where a program doesn't say: the program's own.

Spark finds `commitlog` and `rocketmq` with the Python that the environment of its JVM names, and with `python3` of
the PATH if none is named. Of a program that was started by the path of its environment's Python, that's another
one, which doesn't have them. So the JVM of a session on this machine is told, by PYSPARK_DRIVER_PYTHON; in the
program's own environment nothing is set.

Each Python of the environment calls `install` as it starts (hatwisted-spark.pth), brokers included. Therefore this
imports next to nothing, and only waits for `pyspark.java_gateway`, by which a program starts its JVM.

Rejected: PYSPARK_PYTHON in the program's environment. A `spark-submit` that the program starts would run its job
with this Python, and executors on other machines would look for this path.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

GATEWAY = "pyspark.java_gateway"
TOLD = "PYSPARK_DRIVER_PYTHON"
SAYS_OTHERWISE = (TOLD, "PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT")
"""Environment variables that name a Python, or tell that spark-submit has started the JVM."""


def install() -> None:
    """Wait for the module by which PySpark starts its JVM."""
    if _Finder not in sys.meta_path and GATEWAY not in sys.modules:
        sys.meta_path.insert(0, _Finder)


def python_for(conf: Any, environ: Mapping[str, str]) -> str | None:
    """The Python that a JVM is to be told; None: it takes its own.

    - conf: the session's settings; None: there are none yet
    - environ: the program's environment
    """
    from shutil import which

    master = conf.get("spark.master") if conf is not None else None
    if any(name in environ for name in SAYS_OTHERWISE) or not (master or "local").startswith("local"):
        return None
    found = which("python3", path=environ.get("PATH"))
    if found is not None and os.path.dirname(found) == os.path.dirname(sys.executable):
        return None
    return sys.executable or None


class _Finder:
    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != GATEWAY:
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(cls)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    """Loads the module as its own loader does, which it leaves in its place."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._own.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._own.exec_module(module)
        vars(module)["launch_gateway"] = telling(vars(module)["launch_gateway"])


def telling(launch: Callable[..., Any]) -> Callable[..., Any]:
    """PySpark's `launch_gateway`, with an environment that says which Python."""
    from functools import wraps

    @wraps(launch)
    def launch_gateway(conf: Any = None, *more: Any, **named: Any) -> Any:
        python = python_for(conf, os.environ)
        if python is None:
            return launch(conf, *more, **named)
        os.environ[TOLD] = python
        try:
            return launch(conf, *more, **named)
        finally:
            del os.environ[TOLD]

    return launch_gateway

"""The Spark session that the jobs run in; a user's own session reads the sources just as well.

The settings here speed up the sources, or make a command line quiet and quick. `conf` overrides all of them. Under
`spark-submit` the JVM already runs with the user's master and settings, and only what can still change at run time
is set.
"""

from __future__ import annotations

import os
import socketserver
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import SparkSession

from hatwisted.pipeline.spark.javahome import find_java_home

RUNTIME: Final = {
    # Without it Spark gives the sources no conditions, and refuses sources that would take some.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Times are shown, and dates determined, in one zone, wherever the job runs.
    "spark.sql.session.timeZone": "UTC",
}
"""Settings of a session, good on any cluster."""

STATIC: Final = {
    # Batches go from the Python workers to the JVM about 15 % faster than by loopback TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""Settings that have to be there when the JVM starts."""

LOCALHOST: Final = "127.0.0.1"
WORKER_SITE: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "workersite")
"""On the path of Python workers (workersite/sitecustomize.py)."""
PYTHON_PATH: Final = "PYTHONPATH"

LOCAL: Final = {
    # A machine whose own name doesn't resolve can run a local session, too.
    "spark.driver.host": LOCALHOST,
    "spark.driver.bindAddress": LOCALHOST,
    "spark.ui.enabled": "false",
    # Spark's 200 are for a cluster: in one process each costs milliseconds and holds a handful of rows.
    "spark.sql.shuffle.partitions": "8",
}
"""And with a master of `local...`."""


def spark_session(master: str = "local[2]", app: str = "hatwisted", **conf: str) -> SparkSession:
    """The running session, or a new one on `master` (any Spark master URL); `conf` overrides what is set here.

    Under `spark-submit` its master applies, not `master`. Raises NoJava if Spark can't start here.
    """
    builder = SparkSession.builder.appName(app)
    if not _submitted(os.environ):
        _prepare(os.environ, master)
        builder = builder.master(master)
        builder = _configured(builder, STATIC | (LOCAL if master.startswith("local") else {}))
    with _worker_site(os.environ):
        session = _configured(builder, RUNTIME | conf).getOrCreate()
    let_jvm_end(getattr(session.sparkContext, "_accumulatorServer", None))
    return session


def _configured(builder: SparkSession.Builder, conf: Mapping[str, str]) -> SparkSession.Builder:
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder


@contextmanager
def _worker_site(environ: MutableMapping[str, str]) -> Iterator[None]:
    """What a JVM that is started meanwhile hands to its Python workers."""
    before = environ.get(PYTHON_PATH)
    environ[PYTHON_PATH] = os.pathsep.join(filter(None, (WORKER_SITE, before)))
    try:
        yield
    finally:
        if before is None:
            del environ[PYTHON_PATH]
        else:
            environ[PYTHON_PATH] = before


def let_jvm_end(server: socketserver.BaseServer | None) -> None:
    """The JVM's end closes its connection to PySpark's server of accumulators. Where it ends before this process
    does, that isn't worth a traceback on standard error."""
    if server is None or "handle_error" in vars(server):
        return
    told = server.handle_error

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), (EOFError, ConnectionError)):
            told(request, client_address)

    server.handle_error = handle_error  # type: ignore[method-assign]


def _submitted(environ: Mapping[str, str]) -> bool:
    """Is spark-submit's JVM running already?"""
    return "PYSPARK_GATEWAY_PORT" in environ


def _prepare(environ: MutableMapping[str, str], master: str) -> None:
    """What Spark reads from the environment when it starts its JVM, and that JVM its Python workers."""
    if SparkSession.getActiveSession() is None:
        environ["JAVA_HOME"] = find_java_home(environ)
    environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        environ.setdefault("SPARK_LOCAL_IP", LOCALHOST)

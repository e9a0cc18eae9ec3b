"""Running one job on Spark: the options that all jobs share, the session, a bar, and errors as one line.

Nothing of the pipeline is imported before a command runs: `hatwisted --help` stays quick, and works where the
extra isn't installed.

Spark's JVM inherits our standard error and prints a dozen lines while it starts, and a stack for each failed
task. Here that goes to a file, which is removed unless Spark fails with something of its own: then the error
names it. Under `spark-submit` the JVM is already running and logs as it is configured to.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from types import TracebackType
from typing import Any, Final, ParamSpec, Self

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from hatwisted.cli.errors import EXIT_INTERRUPTED, EXIT_OK, CannotRun, of_system
from hatwisted.cli.optiongroup import option_group
from hatwisted.wire.printable import printable, printable_json

P = ParamSpec("P")

INSTALL: Final = "pip install 'hatwisted[pipeline]'"
EXTRA: Final = frozenset(("pyspark", "py4j", "pyarrow", "pandas", "deltalake", "matplotlib"))
"""Packages of the extra "pipeline"."""
STDERR: Final = 2
"""The descriptor that programs inherit."""
DEFAULT_MASTER: Final = "local[*]"
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Environment variable: spark-submit has started the JVM."""


class JobBar:
    """The progress of a job in bytes, with rate and time left, on a terminal; a spinner until there is any.

    - title: the job's name
    - before: what is shown after it until something is done
    - console: where; None: standard error
    """

    def __init__(
        self,
        title: str,
        before: str = ": starting Spark's JVM, which takes some seconds",
        console: Console | None = None,
    ) -> None:
        console = console or _terminal()
        begin = (SpinnerColumn(), TextColumn("{task.description}"))
        size = (BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn())
        self._columns = (*begin, *size, TimeElapsedColumn(), TimeRemainingColumn())
        # Before the first byte the others have nothing to say, and no room at 80 columns.
        self._bar = Progress(
            *begin, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal
        )
        self._title = title
        self._task = self._bar.add_task(title + before, total=None)

    def __call__(self, done: int, total: int) -> None:
        self._bar.columns = self._columns
        self._bar.update(self._task, description=self._title, completed=done, total=total or None)

    def waits_for(self, what: str) -> None:
        """Show what is waited for until something is done."""
        self._bar.update(self._task, description=f"{self._title}: {what}", refresh=True)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


def _terminal() -> Console:
    """Standard error; by a descriptor of its own, since it is elsewhere while the JVM starts."""
    if not sys.stderr.isatty():
        return Console(stderr=True)
    return Console(file=os.fdopen(os.dup(sys.stderr.fileno()), "w"))


def job(command: Callable[P, int | None]) -> Callable[P, None]:
    """Expected errors become one line and exit code 2; the result is the exit code."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with _one_line():
            code = command(*args, **kwargs)
        sys.exit(code or EXIT_OK)

    return run


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        raise CannotRun(f"this command needs {error.name}, which isn't installed: {INSTALL}") from error
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except click.ClickException:
        raise
    except OSError as error:
        raise of_system(error) from error
    except Exception as error:
        message = _user_message(error)
        if message is None:
            raise
        raise CannotRun(message) from error


def _user_message(error: Exception) -> str | None:
    """The error as a user can understand it; None if it's a bug, which is shown with its traceback."""
    from hatwisted.clientcore.errors import ClientError
    from hatwisted.pipeline.errors import PipelineError

    if isinstance(error, (PipelineError, ClientError)):
        return " ".join(str(error).split())
    if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
        return None
    from hatwisted.pipeline.spark.failures import reason_of

    reason = reason_of(error)
    return reason or f"Spark: {_first_line(error)}{_spark_log.kept()}"


def _first_line(error: Exception) -> str:
    """Of a Java exception, what it is and says; the rest is its stack."""
    java = getattr(error, "java_exception", None)
    text = str(java) if java is not None else str(error)
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


def key_values(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """As click's callback: KEY=VALUE, several times, as a dict."""
    settings = {}
    for value in values:
        key, mark, setting = value.partition("=")
        if not mark or not key:
            raise click.BadParameter(f"{value!r} isn't KEY=VALUE")
        settings[key.strip()] = setting.strip()
    return settings


master_option = option_group(
    click.option(
        "--master",
        default=DEFAULT_MASTER,
        show_default=True,
        metavar="URL",
        help="Spark master: local[N], spark://..., yarn, k8s://... Under spark-submit, that "
        "command's own counts.",
    ),
    click.option(
        "--conf",
        multiple=True,
        metavar="KEY=VALUE",
        callback=key_values,
        help="A setting of the Spark session; may be repeated.",
    ),
)
"""--master and --conf."""


class SparkLog:
    """The file that takes a JVM's standard error."""

    def __init__(self) -> None:
        self._path: str | None = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Programs started inside write to the file, for as long as they run."""
        if self._path is None:
            handle, self._path = tempfile.mkstemp(prefix="hatwisted-spark-", suffix=".log")
            atexit.register(self._remove)
        else:
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        sys.stderr.flush()
        ours = os.dup(STDERR)
        os.dup2(handle, STDERR)
        os.close(handle)
        try:
            yield
        finally:
            os.dup2(ours, STDERR)
            os.close(ours)

    def kept(self) -> str:
        """Where the details are, to end an error with; from now on the file stays."""
        if self._path is None:
            return ""
        atexit.unregister(self._remove)
        return f"; Spark's log: {self._path}"

    def _remove(self) -> None:
        if self._path is not None:
            with suppress(OSError):
                os.unlink(self._path)


_spark_log: Final = SparkLog()


def session(master: str, conf: dict[str, str]) -> Any:
    """The Spark session of this command."""
    from hatwisted.pipeline.spark.sparksession import spark_session

    with _spark_log.taken():
        return spark_session(master, "hatwisted", **conf)


def chose_spark(options: dict[str, Any]) -> bool:
    """Has the user said which Spark? Under spark-submit there's one already. options: those of `master_option`."""
    return bool(options["conf"]) or options["master"] != DEFAULT_MASTER or SUBMITTED in os.environ


def print_result(result: Any, as_json: bool, lines: Callable[[Any], Iterator[str]]) -> None:
    """Print the result of a job.

    - result: of the job
    - as_json: as one JSON object
    - lines: else: makes the lines
    """
    if as_json:
        found = result.as_json()
        text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=str)
        click.echo(printable_json(text.encode()))
        return
    for line in lines(result):
        click.echo(printable(line))

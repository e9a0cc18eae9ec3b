"""What the commands on store folders share: their argument, their errors, the lock of those that write, and
their results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import click
import msgspec

from hatwisted.cli.errors import EXIT_OK, CannotRun
from hatwisted.cli.log.storesizes import StoreFolder
from hatwisted.store.errors import StoreError
from hatwisted.store.lifecycle.storelock import StoreLock
from hatwisted.wire.printable import printable

P = ParamSpec("P")
Found = TypeVar("Found")


def reporting(command: Callable[P, int | None]) -> Callable[P, None]:
    """Expected errors become one line and exit code 2; the result is the exit code."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
        except StoreError as error:
            raise CannotRun(str(error)) from error
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CannotRun(f"{error.filename or 'input/output'}: {error.strerror or error}") from error
        sys.exit(code or EXIT_OK)

    return run


def directory_argument(name: str = "directory", metavar: str = "DIR") -> Callable[..., Callable[..., Any]]:
    """A store's folder."""
    return click.argument(name, metavar=metavar, type=click.Path(exists=True, file_okay=False))


@contextmanager
def locked(folder: StoreFolder) -> Iterator[None]:
    """Hold the store, so that no broker starts meanwhile; refuse if one is running."""
    lock = StoreLock(folder.fs, folder.required_root(), folder.log_folder)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def print_result(found: Found, as_json: bool, lines: Callable[[Found], Iterable[str]]) -> None:
    """Print the result of a command.

    - found: the result
    - as_json: as one JSON object
    - lines: else: makes the lines
    """
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    for line in lines(found):
        click.echo(printable(line))

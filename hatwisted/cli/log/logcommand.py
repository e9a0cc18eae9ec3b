"""What the commands on store folders share: their argument, their errors, the lock of those that write, and
their results."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import click

from hatwisted.cli.errors import EXIT_OK, CannotRun
from hatwisted.cli.log.storesizes import StoreFolder
from hatwisted.cli.output import echo_json
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
    root = folder.required_root()
    lock = StoreLock(folder.fs, root, folder.log_folder)
    with _as_its_owner(root):
        lock.acquire()
        try:
            yield
        finally:
            lock.release()


@contextmanager
def _as_its_owner(root: str) -> Iterator[None]:
    """What root makes in somebody's store is that user's, whose broker couldn't open it otherwise."""
    user, group = _owner(root)
    if os.geteuid() or not user:
        yield
        return
    own_group = os.getegid()
    os.setegid(group)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(own_group)


def _owner(path: str) -> tuple[int, int]:
    """Ids of its user and group."""
    found = os.stat(path)
    return found.st_uid, found.st_gid


def print_result(found: Found, as_json: bool, lines: Callable[[Found], Iterable[str]]) -> None:
    """Print the result of a command.

    - found: the result
    - as_json: as one JSON object
    - lines: else: makes the lines
    """
    if as_json:
        echo_json(found)
        return
    for line in lines(found):
        click.echo(printable(line))

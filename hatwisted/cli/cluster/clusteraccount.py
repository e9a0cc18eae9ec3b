"""Whose account a command's requests are signed with: `--credentials`, or where users and RocketMQ's tools have
it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from hatwisted.cli.optiongroup import ConnectionOption
from hatwisted.clientcore.credentialfile import (
    USERS_FILE,
    credentials_file,
    credentials_of_variables,
    legible,
    read_credentials,
)
from hatwisted.clientcore.credentials import Credentials
from hatwisted.wire.printable import printable

META: Final = "hatwisted.credentials"


def _noted(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    context.meta[META] = value


credentials_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--credentials",
    cls=ConnectionOption,
    metavar="FILE",
    type=click.Path(dir_okay=False),
    expose_value=False,
    callback=_noted,
    help=f"Account to sign with, like RocketMQ's tools.yml; HATWISTED_CREDENTIALS, ~/{USERS_FILE} if not given.",
)


def credentials_of(context: click.Context) -> Credentials | None:
    """The account of the command, if it has one. Raises BadSetting, without the secret."""
    named = context.meta.get(META)
    return _read(Path(named)) if named else users_account()


def users_account() -> Credentials | None:
    """The account of who calls, where no option names one. Raises BadSetting, without the secret."""
    path = credentials_file(os.environ, Path.home())
    return credentials_of_variables(os.environ) if path is None else _read(path)


def _read(path: Path) -> Credentials:
    """The account in a file, once its user knows who else may have it."""
    account = read_credentials(path)
    line = legible([str(path)])
    if line is not None:
        click.echo(printable(line), err=True)
    return account

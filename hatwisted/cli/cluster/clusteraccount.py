"""Whose account a command's requests are signed with: `--credentials`, or where users and RocketMQ's tools have
it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from hatwisted.cli.optiongroup import ConnectionOption
from hatwisted.clientcore.credentialfile import USERS_FILE, find_credentials, read_credentials
from hatwisted.clientcore.credentials import Credentials

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
    return read_credentials(Path(named)) if named else find_credentials(os.environ, Path.home())

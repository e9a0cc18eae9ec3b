"""`--credentials` of the commands that reach a cluster from Spark's processes as well as from this one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hatwisted.clientcore.credentialfile import (
    ACCESS_KEY_VARIABLE,
    FILE_VARIABLE,
    SECRET_KEY_VARIABLE,
    TOKEN_VARIABLE,
    USERS_FILE,
    read_credentials,
)
from hatwisted.clientcore.errors import BadSetting


def _use(_context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    """By the environment, which Spark's processes inherit: as options the keys would be in its plans and pages."""
    if value is None:
        return
    try:
        read_credentials(Path(value))
    except BadSetting as error:
        raise click.BadParameter(str(error)) from None
    for name in (ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE, TOKEN_VARIABLE):
        os.environ.pop(name, None)  # they would take precedence over a file
    os.environ[FILE_VARIABLE] = str(Path(value).absolute())


credentials_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--credentials",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    expose_value=False,
    callback=_use,
    help="Account to sign with at a cluster, like RocketMQ's tools.yml; "
    f"HATWISTED_CREDENTIALS, ~/{USERS_FILE} if not given.",
)

"""Encrypting a command's connections: `--tls`, and RocketMQ's own file of TLS properties."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from hatwisted.cli.optiongroup import ConnectionOption, option_group
from hatwisted.clientcore.tls import VERIFY, Tls
from hatwisted.clientcore.tlsfile import (
    FILE_VARIABLE,
    TLS_VARIABLE,
    USERS_FILE,
    VERIFY_VARIABLE,
    find_tls,
)
from hatwisted.wire.javaproperties import TLS_FILE

META: Final = "hatwisted.tls"


def _noted(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    context.meta.setdefault(META, {})[parameter.name] = value


tls_options: Callable[[Callable[..., Any]], Callable[..., Any]] = option_group(
    click.option(
        "--tls/--no-tls",
        cls=ConnectionOption,
        envvar=TLS_VARIABLE,
        expose_value=False,
        callback=_noted,
        help=f"Encrypt connections (also from {TLS_VARIABLE}).",
    ),
    click.option(
        "--tls-properties",
        cls=ConnectionOption,
        envvar=FILE_VARIABLE,
        type=click.Path(dir_okay=False),
        expose_value=False,
        callback=_noted,
        help=f"RocketMQ's TLS properties (tls.client.*); ~/{USERS_FILE}, then {TLS_FILE}, if not given.",
    ),
    click.option(
        "--tls-verify",
        cls=ConnectionOption,
        envvar=VERIFY_VARIABLE,
        type=click.Choice(VERIFY),
        expose_value=False,
        callback=_noted,
        help="What of a server's certificate is checked: chain and host name (full), chain, or nothing.",
    ),
)


def tls_of(context: click.Context) -> Tls | None:
    """How the command's connections are to be encrypted, if they are. Raises ValueError naming what's wrong."""
    given = context.meta.get(META, {})
    if not given.get("tls"):
        _check_nothing_meant(context)
        return None
    named = {FILE_VARIABLE: path} if (path := given.get("tls_properties")) else {}
    return find_tls(named, Path.home(), given.get("tls_verify"))


def _check_nothing_meant(context: click.Context) -> None:
    """ValueError if somebody has said how to encrypt, and not that it is to be done: it would be plain."""
    if context.get_parameter_source("tls") is not ParameterSource.DEFAULT:
        return
    for name, option in (("tls_properties", "--tls-properties"), ("tls_verify", "--tls-verify")):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise ValueError(f"{option} is given without --tls: nothing would be encrypted; add --tls")

"""Encrypting a command's connections: `--tls`, and RocketMQ's own file of TLS properties.

mqadmin takes `-Dtls.enable=true` and reads `/etc/rocketmq/tls.properties`, or the file that
`-Dtls.config.file` names; here `--tls` and `--tls-properties` do the same. Other than there, a server's
certificate is checked unless the file or `--tls-verify` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import click
from click.core import ParameterSource

from hatwisted.cli.optiongroup import ConnectionOption, option_group
from hatwisted.clientcore.tls import VERIFY, Tls, Verify
from hatwisted.config.errors import ConfigError
from hatwisted.config.javaproperties import parse_properties
from hatwisted.config.tlskeys import TLS_FILE

USERS_FILE: Final = ".hatwisted/tls.properties"
"""In a user's home folder; looked at before RocketMQ's."""
MAX_SIZE: Final = 64 << 10
"""Bytes of such a file."""
META: Final = "hatwisted.tls"


def _noted(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    context.meta.setdefault(META, {})[parameter.name] = value


tls_options: Callable[[Callable[..., Any]], Callable[..., Any]] = option_group(
    click.option(
        "--tls/--no-tls",
        cls=ConnectionOption,
        envvar="HATWISTED_TLS",
        expose_value=False,
        callback=_noted,
        help="Encrypt connections (also from HATWISTED_TLS).",
    ),
    click.option(
        "--tls-properties",
        cls=ConnectionOption,
        envvar="HATWISTED_TLS_PROPERTIES",
        type=click.Path(dir_okay=False),
        expose_value=False,
        callback=_noted,
        help=f"RocketMQ's TLS properties (tls.client.*); ~/{USERS_FILE}, then {TLS_FILE}, if not given.",
    ),
    click.option(
        "--tls-verify",
        cls=ConnectionOption,
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
    path = given.get("tls_properties")
    file = (
        Path(path) if path else next(filter(Path.is_file, (Path.home() / USERS_FILE, Path(TLS_FILE))), None)
    )
    return tls_of_properties({} if file is None else _properties(file), given.get("tls_verify"))


def _check_nothing_meant(context: click.Context) -> None:
    """ValueError if somebody has said how to encrypt, and not that it is to be done: it would be plain."""
    if context.get_parameter_source("tls") is not ParameterSource.DEFAULT:
        return
    for name, option in (("tls_properties", "--tls-properties"), ("tls_verify", "--tls-verify")):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise ValueError(f"{option} is given without --tls: nothing would be encrypted; add --tls")


def tls_of_properties(properties: dict[str, str], verify: str | None = None) -> Tls:
    """What a file of TLS properties says to clients. verify: counts more than `tls.client.authServer`."""
    if verify is None:
        # RocketMQ's check doesn't look at host names.
        said = properties.get("tls.client.authServer", "").strip().lower()
        verify = {"true": "chain", "false": "none"}.get(said, "full")

    def value(name: str) -> str | None:
        return properties.get(f"tls.client.{name}") or None

    return Tls(
        trust_file=value("trustCertPath"),
        certificate=value("certPath"),
        key=value("keyPath"),
        key_password=value("keyPassword"),
        verify=cast(Verify, verify),
    )


def _properties(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SIZE)
        return {entry.key: entry.value for entry in parse_properties(data, str(path))}
    except OSError as error:
        raise ValueError(f"{path}: can't be read: {error.strerror or error}") from None
    except ConfigError as error:
        raise ValueError(str(error)) from None

"""As whom, and how encrypted, commands reach a cluster from Spark's processes and from this one: `--credentials`,
`--tls`.

By the environment, which Spark's processes inherit: as options the keys would be in its plans and pages.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from hatwisted.cli.cluster.clusteraccount import users_account
from hatwisted.cli.optiongroup import ConnectionOption, option_group
from hatwisted.cli.pipeline.sparkrun import key_values
from hatwisted.clientcore import tlsfile
from hatwisted.clientcore.credentialfile import (
    ACCESS_KEY_VARIABLE,
    FILE_VARIABLE,
    SECRET_KEY_VARIABLE,
    TOKEN_VARIABLE,
    USERS_FILE,
    read_credentials,
)
from hatwisted.clientcore.errors import BadSetting
from hatwisted.clientcore.tls import VERIFY
from hatwisted.wire.javaproperties import TLS_FILE

HOW: Final = ("tls_properties", "tls_verify")
COMMAND_LINE: Final = ParameterSource.COMMANDLINE
SECRETS: Final = {
    "secretKey": f"the file that --credentials names, or {SECRET_KEY_VARIABLE} in the environment",
    "securityToken": f"the file that --credentials names, or {TOKEN_VARIABLE} in the environment",
    "tlsKeyPassword": "the file that --tls-properties names (tls.client.keyPassword)",
}
"""Options of a connection that others shouldn't see, and where else they can be."""


def _use(_context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
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
    cls=ConnectionOption,
    metavar="FILE",
    type=click.Path(dir_okay=False),
    expose_value=False,
    callback=_use,
    help="Account to sign with at a cluster, like RocketMQ's tools.yml; "
    f"HATWISTED_CREDENTIALS, ~/{USERS_FILE} if not given.",
)


def _tls(_context: click.Context, _parameter: click.Parameter, value: bool | None) -> None:
    if value is not None:
        os.environ[tlsfile.TLS_VARIABLE] = str(value).lower()


def _properties(_context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    try:
        tlsfile.read_properties(Path(value))
    except BadSetting as error:
        raise click.BadParameter(str(error)) from None
    os.environ[tlsfile.FILE_VARIABLE] = str(Path(value).absolute())


def _verify(_context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        os.environ[tlsfile.VERIFY_VARIABLE] = value


def check_encrypted(given: Mapping[str, str]) -> None:
    """UsageError if a command's line says how to encrypt, and nobody that it is to be done: it would be plain.

    given: options of the connection
    """
    context = click.get_current_context(silent=True)
    if context is None:
        return
    said = next((name for name in HOW if context.get_parameter_source(name) is COMMAND_LINE), None)
    if (
        said is not None
        and tlsfile.TLS_VARIABLE not in os.environ
        and not any(name.lower() == "tls" for name in given)
    ):
        option = f"--{said.replace('_', '-')}"
        raise click.UsageError(f"{option} is given without --tls: nothing would be encrypted; add --tls")


def connection_values(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """As click's callback: `key_values` of a connection. Secrets among them are out once they stand there: the
    command goes on, and says so."""
    given = key_values(context, parameter, values)
    named = {name.lower() for name, value in given.items() if value}
    for name, instead in SECRETS.items():
        if name.lower() in named and not context.resilient_parsing:
            click.echo(
                f"warning: --option {name}: any user of this host may read it in the list of processes: "
                f"use {instead}",
                err=True,
            )
    return given


tls_options: Callable[[Callable[..., Any]], Callable[..., Any]] = option_group(
    click.option(
        "--tls/--no-tls",
        cls=ConnectionOption,
        default=None,
        expose_value=False,
        callback=_tls,
        help=f"Encrypt connections to a cluster (also from {tlsfile.TLS_VARIABLE}).",
    ),
    click.option(
        "--tls-properties",
        cls=ConnectionOption,
        metavar="FILE",
        type=click.Path(dir_okay=False),
        expose_value=False,
        callback=_properties,
        help="RocketMQ's TLS properties (tls.client.*); "
        f"{tlsfile.FILE_VARIABLE}, ~/{tlsfile.USERS_FILE}, then {TLS_FILE}, if not given.",
    ),
    click.option(
        "--tls-verify",
        cls=ConnectionOption,
        type=click.Choice(VERIFY),
        expose_value=False,
        callback=_verify,
        help="What of a server's certificate is checked: chain and host name (full), chain, or nothing.",
    ),
)


account_options: Callable[[Callable[..., Any]], Callable[..., Any]] = option_group(
    credentials_option, tls_options
)
"""--credentials, --tls..."""


def settings_of(namesrv: str, given: dict[str, str]) -> Any:
    """Where the cluster is. Only with options does this need the extra "pipeline".

    - namesrv: addresses of its name servers
    - given: options of the connection
    """
    from hatwisted.blocking.settings import ClusterSettings
    from hatwisted.clientcore.address import split_addresses

    check_encrypted(given)
    if not given:
        account = users_account()
        tls = tlsfile.find_tls(os.environ, Path.home()) if tlsfile.wants_tls(os.environ) else None
        return ClusterSettings(name_servers=split_addresses(namesrv), credentials=account, tls=tls)
    from hatwisted.pipeline.spark.rocketmqoptions import cluster_settings, rocketmq_options

    return cluster_settings(rocketmq_options({**given, "namesrvAddr": namesrv}))

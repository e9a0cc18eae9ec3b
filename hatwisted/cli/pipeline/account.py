"""The account by which commands reach a cluster from Spark's processes and from this one: `--credentials`."""

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
    find_credentials,
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


def settings_of(namesrv: str, given: dict[str, str]) -> Any:
    """Where the cluster is. Only with options does this need the extra "pipeline".

    - namesrv: addresses of its name servers
    - given: options of the connection
    """
    from hatwisted.blocking.settings import ClusterSettings
    from hatwisted.clientcore.address import split_addresses

    if not given:
        account = find_credentials(os.environ, Path.home())
        return ClusterSettings(name_servers=split_addresses(namesrv), credentials=account)
    from hatwisted.pipeline.spark.rocketmqoptions import cluster_settings, rocketmq_options

    return cluster_settings(rocketmq_options({**given, "namesrvAddr": namesrv}))

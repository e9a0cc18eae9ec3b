"""`--namesrv`: the name servers of a cluster. It imports no client, as commands of the pipeline have it, too,
which mostly need none."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import click

from hatwisted.cli.optiongroup import ConnectionOption

DEFAULT_NAMESRV: Final = "127.0.0.1:9876"
NAMESRV_PORT: Final = 9876


class NameServers(click.ParamType[str]):
    """Addresses of name servers; where a port is left out, it's theirs."""

    name = "addresses"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As click's."""
        named = [each.strip() for each in re.split("[;,]", value) if each.strip()]
        has_port = [("]:" if each.startswith("[") else ":") in each for each in named]
        pairs = zip(named, has_port, strict=True)
        return ";".join(each if whole else f"{each}:{NAMESRV_PORT}" for each, whole in pairs)


def namesrv_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """-n, as in mqadmin."""
    return click.option(
        "-n",
        "--namesrv",
        cls=ConnectionOption,
        envvar="NAMESRV_ADDR",
        default=DEFAULT_NAMESRV,
        show_default=True,
        type=NameServers(),
        metavar="HOST[:PORT][;...]",
        help="Name servers (also from NAMESRV_ADDR).",
    )(command)

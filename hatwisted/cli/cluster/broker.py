"""`hatwisted broker`: what one running broker is set to and says of itself."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Mapping

import click

from hatwisted.cli.cluster.clusterrun import Interrupt, cluster_options, run
from hatwisted.cli.cluster.mistakes import nearest
from hatwisted.cli.errors import CannotRun
from hatwisted.cli.optiongroup import Group
from hatwisted.cli.output import json_option, said, show
from hatwisted.client.cluster import Cluster
from hatwisted.config.errors import ConfigError
from hatwisted.config.javaproperties import parse_properties
from hatwisted.wire.registration import MASTER_ID


@click.group(cls=Group)
def broker() -> None:
    """Look at one broker and change its settings.

    BROKER is HOST:PORT, or NAME for the master of a group.

    Exit codes: 0 done; 2 usage error, no answer, or the broker refused.
    """


@broker.group("config", cls=Group)
def config_group() -> None:
    """Get and set keys of a broker's configuration."""


@config_group.command("get", short_help="Show the configuration in effect, or some keys of it.")
@click.argument("broker", metavar="BROKER")
@click.argument("keys", nargs=-1, metavar="[KEY...]")
@cluster_options
@json_option
def get_command(broker: str, keys: tuple[str, ...], namesrv: str, as_json: bool) -> None:
    """Show the configuration in effect: all of it, or these KEYs (with * for any letters).

    Exit codes: 0 done; 2 usage error, no answer, no such key, or the broker refused.
    """

    async def work(cluster: Cluster, _: Interrupt) -> None:
        address = await _address(cluster, broker)
        text = await cluster.admin().broker_config(address)
        try:
            every = {entry.key: entry.value for entry in parse_properties(text, address)}
        except ConfigError as error:
            raise CannotRun(f"{address}: its configuration can't be read: {error}") from error
        found = {key: every[key] for key in sorted(every) if not keys or _wanted(key, keys)}
        _check_known(keys, every, address)
        show(as_json, found, ["key", "value"], found.items())

    sys.exit(run(namesrv, work))


def _wanted(key: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(key, each) for each in patterns)


def _check_known(keys: tuple[str, ...], known: Mapping[str, str], address: str) -> None:
    """CannotRun for a key that the broker doesn't have.

    - keys: asked for; one with * may match nothing
    - known: those it has
    - address: its own
    """
    if missing := [key for key in keys if "*" not in key and key not in known]:
        near = nearest(missing[0], known)
        advice = f"did you mean {near}?" if near else "without a KEY all are shown"
        raise CannotRun(f"{address} has no key {', '.join(missing)}; {advice}")


@config_group.command("set")
@click.argument("broker", metavar="BROKER")
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE...")
@cluster_options
@json_option
def set_command(broker: str, changes: tuple[str, ...], namesrv: str, as_json: bool) -> None:
    """Change keys of a running broker. It writes them into its file; what can take effect at once does.

    Exit codes: 0 done; 2 usage error, no answer, no such key, or the broker refused.
    """
    pairs = [change.partition("=") for change in changes]
    if wrong := [key for key, mark, _ in pairs if not mark or not key.strip()]:
        raise click.BadParameter(f"{wrong[0]!r} isn't KEY=VALUE", param_hint="KEY=VALUE")
    wanted = {key.strip(): value.strip() for key, _, value in pairs}

    async def work(cluster: Cluster, _: Interrupt) -> None:
        address = await _address(cluster, broker)
        remark = await cluster.admin().set_broker_config(address, wanted)
        said(as_json, f"{address}: {remark or 'changed'}", broker=address, changed=wanted, remark=remark)

    sys.exit(run(namesrv, work))


@broker.command("stats", short_help="Show what a broker reports about itself.")
@click.argument("broker", metavar="BROKER")
@click.argument("keys", nargs=-1, metavar="[KEY...]")
@cluster_options
@json_option
def stats_command(broker: str, keys: tuple[str, ...], namesrv: str, as_json: bool) -> None:
    """Show what a broker reports about itself: all figures, or these KEYs (with * for any letters).

    Exit codes: 0 done; 2 usage error, no answer, or no such figure.
    """

    async def work(cluster: Cluster, _: Interrupt) -> None:
        address = await _address(cluster, broker)
        every = await cluster.admin().broker_info(address)
        found = {key: every[key] for key in sorted(every) if not keys or _wanted(key, keys)}
        _check_known(keys, every, address)
        show(as_json, found, ["figure", "value"], found.items())

    sys.exit(run(namesrv, work))


@broker.command("writable", short_help="Have producers send to a group, or leave it alone.")
@click.argument("name", metavar="NAME")
@click.argument("state", type=click.Choice(["on", "off"]))
@cluster_options
@json_option
def writable_command(name: str, state: str, namesrv: str, as_json: bool) -> None:
    """Have producers send to the group NAME, or leave it alone: they follow within 30 s.

    It holds until the broker is started again.

    Exit codes: 0 done; 2 usage error, no name server, or no such group.
    """

    async def work(cluster: Cluster, _: Interrupt) -> None:
        known = (await cluster.admin().cluster_info()).broker_addr_table
        if name not in known:
            raise CannotRun(
                f"the name servers know no group {name}; known: {', '.join(sorted(known)) or 'none'}"
            )
        await cluster.admin().set_writable(name, writable=state == "on")
        said(as_json, f"{name}: writable {state}", group=name, writable=state == "on")

    sys.exit(run(namesrv, work))


async def _address(cluster: Cluster, broker: str) -> str:
    """As it is, or that of a group's master."""
    if ":" in broker:
        return broker
    known = (await cluster.admin().cluster_info()).broker_addr_table
    if broker not in known:
        raise CannotRun(
            f"the name servers know no broker {broker}; known: {', '.join(sorted(known)) or 'none'}"
        )
    addresses = known[broker].broker_addrs
    if MASTER_ID not in addresses:
        # A slave's settings are another broker's: nobody means them who names the group.
        others = ", ".join(addresses[number] for number in sorted(addresses)) or "none"
        raise CannotRun(f"{broker} has no master now; of its slaves one is named by HOST:PORT: {others}")
    return addresses[MASTER_ID]

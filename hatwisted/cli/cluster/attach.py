"""`hatwisted attach`: from a running master, RocketMQ's or ours, to a copy of it on this host.

It asks the master how it is configured, writes the slave's configuration beside an empty store, checks what can be
checked before a byte is copied, starts the slave in the background, shows how far it is until it is level, and
asks the name servers whether they list it.
"""

from __future__ import annotations

import shlex
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from hatwisted.cli.cluster.clusteraccount import META as ACCOUNT_META
from hatwisted.cli.cluster.clusteraccount import credentials_option
from hatwisted.cli.cluster.clusterrun import Interrupt, run
from hatwisted.cli.cluster.clustertls import tls_of, tls_options
from hatwisted.cli.cluster.copyprogress import INTERRUPTED, follow
from hatwisted.cli.cluster.listing import Listing, Slave, ask_until_listed
from hatwisted.cli.cluster.namesrvoption import NameServers
from hatwisted.cli.cluster.newslave import (
    change_port,
    check_connects,
    check_new,
    is_served,
    place_of,
    port_lock,
    start,
    start_where_free,
    twistd,
    write_files,
)
from hatwisted.cli.cluster.slaveplan import (
    Master,
    Place,
    conf_text,
    daemon_command,
    objections,
    slave_settings,
    tls_settings,
    unit_text,
)
from hatwisted.cli.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_PROBLEMS, CannotRun
from hatwisted.cli.optiongroup import Command
from hatwisted.cli.output import echo_json, json_option
from hatwisted.client.cluster import Cluster
from hatwisted.client.driver import deferred
from hatwisted.clientcore.survey import Survey
from hatwisted.config.errors import ConfigError
from hatwisted.config.host import Host
from hatwisted.config.load import load_broker_config, read_source
from hatwisted.config.pairing import pairing
from hatwisted.config.roles import as_slave
from hatwisted.health import javatext
from hatwisted.metrics.looking import properties_in
from hatwisted.wire.printable import printable
from hatwisted.wire.quantities import size_text, time_text
from hatwisted.wire.registration import MASTER_ID

CONF: Final = "broker.conf"


@click.command(cls=Command)
@click.argument("namesrv", metavar="NAMESRV", type=NameServers())
@click.argument("name", metavar="BROKERNAME")
@click.option(
    "--dir", "folder", type=click.Path(file_okay=False), help="For conf, store and log. [BROKERNAME-slave]"
)
@click.option(
    "--port", type=click.IntRange(3, 65534), help="listenPort of the slave. [the first free from 10911]"
)
@click.option("--address", help="Of this host, as others reach it. [the one that reaches the master]")
@click.option(
    "--no-start", is_flag=True, help="Write the configuration, print how to start it, and a systemd unit."
)
@credentials_option
@tls_options
@json_option
def attach(
    namesrv: str,
    name: str,
    folder: str | None,
    port: int | None,
    address: str | None,
    no_start: bool,
    as_json: bool,
) -> None:
    """Make a copy of a running master on this host: a slave of it.

    The master may be RocketMQ's or ours. NAMESRV are its name servers (host:port;host:port), BROKERNAME its group.
    With a folder that it has made before it goes on there.

    Exit codes: 0 the slave is level with its master, and all name servers list it; 1 it runs, but something
    keeps it from that; 2 nothing was started, and why; 130 interrupted: the slave goes on.
    """
    context = click.get_current_context()
    named = context.meta.get(ACCOUNT_META)
    account = str(Path(named).absolute()) if named else None
    try:
        encryption = tls_settings(tls_of(context))
    except ValueError as error:
        raise CannotRun(str(error)) from None
    target = Path(folder or f"{name}-slave").absolute()

    async def work(cluster: Cluster, interrupt: Interrupt) -> int:
        master = await _master(cluster, namesrv, name)
        settings = _made_before(target, name)
        with port_lock(_warn) if port is None else nullcontext():
            if settings is not None and port is not None:
                settings |= _moved(settings, target / CONF, port)
            if settings is None:
                place = place_of(target, master.address, port, address)
                settings = slave_settings(master, place, account) | encryption
                _check(master, place, settings)
                check_new(settings["storePathRootDir"])
                check_connects(master.ha_address)
                write_files(target, {CONF: conf_text(master, settings)})
            _say(as_json, _found(master, settings))
            if no_start:
                _print_starts(as_json, target, name)
                return EXIT_OK
            if not is_served(settings["storePathRootDir"]):
                settings = _started(target, settings, port is not None)
        end = await _watch(cluster, interrupt, master, _slave(settings, target), as_json)
        _finish(as_json, end, settings, target)
        return EXIT_INTERRUPTED if interrupt.requested else EXIT_PROBLEMS if end.problems else EXIT_OK

    sys.exit(run(namesrv, work))


class _End(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps the slave from being a copy that consumers find, the seconds until it was level or it was given
    up, and what the name servers say."""

    problems: list[str]
    seconds: float
    listings: list[Listing] = []


def _warn(line: str) -> None:
    click.echo(line, err=True)


def _slave(settings: dict[str, str], folder: Path) -> Slave:
    return Slave(
        group=settings["brokerName"],
        id=int(settings["brokerId"]),
        address=f"{settings['brokerIP1']}:{settings['listenPort']}",
        conf=str(folder / CONF),
    )


async def _watch(cluster: Cluster, interrupt: Interrupt, master: Master, slave: Slave, as_json: bool) -> _End:
    begun = time.monotonic()
    problem = await follow(cluster, master.address, slave.address, interrupt, quiet=as_json)
    seconds = time.monotonic() - begun
    if problem is not None:
        return _End(problems=[problem], seconds=seconds)
    if not as_json:
        click.echo(f"level    it has all that its master has, after {time_text(seconds)}")
    found = await ask_until_listed(cluster, slave, interrupt, lambda line: None if as_json else _warn(line))
    problems = [INTERRUPTED] if interrupt.requested else [each.problem for each in found if each.problem]
    return _End(problems=problems, seconds=seconds, listings=found)


def _started(folder: Path, settings: dict[str, str], named: bool) -> dict[str, str]:
    """Its settings, with the port that it has come to. named: that port was asked for."""
    if named or Path(settings["storePathRootDir"]).exists():
        start(folder)
        return settings

    def move(port: int) -> None:
        _warn(f"another server has taken the slave's port: trying {port}")
        change_port(folder / CONF, port)

    port = start_where_free(int(settings["listenPort"]), lambda: start(folder), move)
    return settings | {"listenPort": str(port)}


def _made_before(folder: Path, name: str) -> dict[str, str] | None:
    """The settings of the slave that this folder has; None if it has none."""
    path = folder / CONF
    if not path.exists():
        return None
    try:
        settings = {key: entry.value for key, entry in read_source(str(path), ()).entries.items()}
    except ConfigError as error:
        raise CannotRun(str(error)) from None
    if settings.get("brokerName") != name or settings.get("brokerRole") != "SLAVE":
        raise CannotRun(f"{path}: is of another broker, no slave of {name}: choose another folder with --dir")
    if (
        missing := {"brokerIP1", "listenPort", "brokerId", "namesrvAddr", "storePathRootDir"}
        - settings.keys()
    ):
        raise CannotRun(f"{path}: lacks {', '.join(sorted(missing))}: choose another folder with --dir")
    return settings


def _moved(settings: dict[str, str], conf: Path, port: int) -> dict[str, str]:
    """The port that was asked for, in its configuration as well.

    - settings: of a slave that was made before
    - conf: its configuration
    - port: asked for
    """
    now = settings["listenPort"]
    if now != str(port):
        if is_served(settings["storePathRootDir"]):
            raise CannotRun(f"{conf}: the slave runs on port {now}: stop it first to give it port {port}")
        change_port(conf, port)
    return {"listenPort": str(port)}


async def _master(cluster: Cluster, servers: str, name: str) -> Master:
    info = await cluster.admin().cluster_info()
    group = info.broker_addr_table.get(name)
    if group is None:
        known = (
            ", ".join(sorted(info.broker_addr_table)) or "none; brokers register where their namesrvAddr says"
        )
        raise CannotRun(f"no broker {name} at {servers}; known there: {known}")
    if group.broker_name != name:
        raise CannotRun(f"the name server {servers} says that {name} is {group.broker_name}: don't trust it")
    if MASTER_ID not in group.broker_addrs:
        raise CannotRun(f"{name} has no master at {servers} now: start it, it registers within 30 s")
    address = group.broker_addrs[MASTER_ID]
    words = await deferred(Survey(cluster.session).broker(address))
    if words.error is not None:
        raise CannotRun(f"the master of {name} doesn't answer: {words.error}")
    config = None if words.config is None else properties_in(words.config)
    if config is None:
        raise CannotRun(
            f"the master of {name}, {address}, doesn't tell its configuration (code 26) to everybody: give "
            "--credentials of an administrator"
        )
    begin = javatext.whole(words.runtime.get("commitLogMinOffset")) or 0
    end = javatext.whole(words.runtime.get("commitLogMaxOffset")) or 0
    return Master(name_servers=servers, group=group, config=config, log_begin=max(0, begin), log_end=end)


def _check(master: Master, place: Place, settings: dict[str, str]) -> None:
    """CannotRun for the first thing that speaks against it."""
    here = Host(place.address, place.address, place.folder)
    try:
        loaded = as_slave(load_broker_config(None, [f"{key}={settings[key]}" for key in settings], host=here))
    except ConfigError as error:
        raise CannotRun(f"the master's settings can't be taken over: {error}") from None
    account = settings.get("credentialsFile")
    against = [*objections(master, place, account), *pairing(loaded.config, master.config).objections]
    if against:
        raise CannotRun(against[0])


def _found(master: Master, settings: dict[str, str]) -> dict[str, Any]:
    return {
        "event": "planned",
        "master": master.address,
        "haAddress": master.ha_address,
        "logBytes": master.log_end - master.log_begin,
        "brokerId": int(settings["brokerId"]),
        "listenPort": int(settings["listenPort"]),
        "folder": settings["storePathRootDir"].removesuffix("/store"),
    }


def _say(as_json: bool, plan: dict[str, Any]) -> None:
    if as_json:
        echo_json(plan)
        return
    source = f"{plan['master']}, {size_text(plan['logBytes'])} of log, copied from {plan['haAddress']}"
    click.echo(printable(f"master   {source}"))
    click.echo(f"slave    broker {plan['brokerId']} on port {plan['listenPort']}, in {plan['folder']}")


def _print_starts(as_json: bool, folder: Path, name: str) -> None:
    if as_json:
        starts = {
            "start": daemon_command(twistd(), str(folder)),
            "unit": unit_text(twistd(), str(folder), name),
        }
        echo_json({"event": "written", **starts})
        return
    click.echo(
        f"\nStart it:\n\n  {shlex.join(daemon_command(twistd(), str(folder)))}\n\nOr as a systemd unit:\n"
    )
    click.echo(unit_text(twistd(), str(folder), name))


def _finish(as_json: bool, end: _End, settings: dict[str, str], folder: Path) -> None:
    if as_json:
        document = {
            "event": "problem" if end.problems else "level",
            "problem": "; ".join(end.problems) or None,
            "seconds": round(end.seconds, 1),
            "nameServers": end.listings,
        }
        echo_json(document)
        return
    if listed := [each.address for each in end.listings if each.listed]:
        click.echo(f"listed   by {', '.join(listed)}: consumers find it")
    for problem in end.problems:
        _warn(f"! {printable(problem)}")
    click.echo(f"\nwatch    hatwisted status -n {shlex.quote(settings['namesrvAddr'])}")
    click.echo(f"log      {folder}/slave.log")
    click.echo(f"stop     kill $(cat {shlex.quote(str(folder))}/slave.pid)")
    click.echo("start    the same command again; with --no-start it prints a systemd unit")

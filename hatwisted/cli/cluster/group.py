"""`hatwisted group`: consumer groups and their progress; `groupmoves` moves it, `grouplag` watches it."""

from __future__ import annotations

import sys
from typing import Any

import click

from hatwisted.cli.cluster import completion
from hatwisted.cli.cluster.clusterrun import Interrupt, cluster_options, run
from hatwisted.cli.cluster.grouplag import lag_command
from hatwisted.cli.cluster.groupmoves import clone_command, reset_command, skip_command
from hatwisted.cli.optiongroup import Group
from hatwisted.cli.output import counted, json_option, show, yes_option
from hatwisted.client.cluster import Cluster
from hatwisted.clientcore.admin import GroupSettings
from hatwisted.wire.topics import RETRY_PREFIX


@click.group(cls=Group)
def group() -> None:
    """List, watch, move, create and delete consumer groups.

    Exit codes: 0 done; 1 not confirmed; 2 usage error, no cluster, or a broker refused.
    """


@group.command("list")
@cluster_options
@json_option
def list_command(namesrv: str, as_json: bool) -> None:
    """List all groups and their settings.

    Exit codes: 0 done; 2 usage error, or no cluster.
    """

    async def work(cluster: Cluster, _: Interrupt) -> None:
        found = await cluster.admin().groups()
        rows = [
            (
                name,
                config.get("consumeEnable", True),
                config.get("retryMaxTimes", 16),
                config.get("retryQueueNums", 1),
            )
            for name, config in found.items()
        ]
        show(as_json, list(found.values()), ["group", "enabled", "retries", "retry queues"], rows)

    sys.exit(run(namesrv, work))


@group.command("show")
@click.argument("name", shell_complete=completion.groups)
@cluster_options
@json_option
def show_command(name: str, namesrv: str, as_json: bool) -> None:
    """Show a group's progress in each queue, and its connected members.

    Exit codes: 0 done; 2 usage error, no cluster, or no such group.
    """

    async def work(cluster: Cluster, _: Interrupt) -> None:
        admin = cluster.admin()
        standings = await admin.progress(name)
        members = await admin.members(name)
        rows = [
            (each.queue.topic, each.queue.broker_name, each.queue.queue_id, each.consumed, each.end, each.lag)
            for each in standings
        ]
        names = ("topic", "broker", "queue", "consumed", "end", "lag")
        value = {"queues": [dict(zip(names, row, strict=True)) for row in rows], "members": members}
        show(as_json, value, names, rows)
        if not as_json:
            total = sum(each.lag for each in standings)
            click.echo(f"{counted(len(members), 'member')} connected, {counted(total, 'message')} to consume")

    sys.exit(run(namesrv, work))


@group.command("create")
@click.argument("name")
@cluster_options
@click.option(
    "--retries",
    type=click.IntRange(0),
    help="Retries before a message becomes a dead letter.  [16]",
)
@click.option("--disabled/--enabled", default=None, help="Forbid consuming, or allow it.  [enabled]")
@json_option
def create_command(
    name: str, namesrv: str, retries: int | None, disabled: bool | None, as_json: bool
) -> None:
    """Create or update a group on all masters. What isn't named stays as it is.

    Exit codes: 0 done; 2 usage error, no cluster, or a broker refused.
    """

    async def work(cluster: Cluster, _: Interrupt) -> None:
        admin = cluster.admin()
        known = (await admin.groups()).get(name, {}).items()
        settings: Any = {key: value for key, value in known if key in GroupSettings.__annotations__}
        if retries is not None:
            settings["retryMaxTimes"] = retries
        if disabled is not None:
            settings["consumeEnable"] = not disabled
        masters = await admin.create_group(name, **settings)
        show(as_json, masters, ["created on"], [[each] for each in masters])

    sys.exit(run(namesrv, work))


@group.command("delete")
@click.argument("name", shell_complete=completion.groups)
@cluster_options
@yes_option
@json_option
def delete_command(name: str, namesrv: str, yes: bool, as_json: bool) -> None:
    """Delete a group with its progress, retries and dead letters. Says what it reads, and asks.

    Exit codes: 0 done; 1 not confirmed; 2 usage error, no cluster, no such group, or a broker refused.
    """

    async def work(cluster: Cluster, _: Interrupt) -> None:
        admin = cluster.admin()
        if not yes:
            topics = {each.queue.topic for each in await admin.progress(name)}
            read = ", ".join(sorted(each for each in topics if not each.startswith(RETRY_PREFIX)))
            members = counted(len(await admin.members(name)), "member")
            ask = f"Group {name} ({members} connected) loses its progress in {read or 'no topic'}. Delete?"
            click.confirm(ask, abort=True, err=True)
        masters = await admin.delete_group(name)
        show(as_json, masters, ["deleted from"], [[each] for each in masters])

    sys.exit(run(namesrv, work))


for command in (reset_command, skip_command, clone_command, lag_command):
    group.add_command(command)

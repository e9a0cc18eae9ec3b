"""`hatwisted topic`: the topics of a cluster."""

from __future__ import annotations

import sys
from typing import Final

import click

from hatwisted.cli.cluster import completion
from hatwisted.cli.cluster.clusterrun import Interrupt, cluster_options, run
from hatwisted.cli.errors import CannotRun
from hatwisted.cli.optiongroup import Group
from hatwisted.cli.output import counted, json_option, show, yes_option
from hatwisted.client.admin import Admin
from hatwisted.client.cluster import Cluster
from hatwisted.clientcore.errors import NoRoute
from hatwisted.clientcore.message import checked_topic
from hatwisted.wire.registration import PERM_READ, PERM_WRITE, QueueData

NEW_QUEUES: Final = 8
"""Of a topic that isn't there yet."""
BOTH: Final = PERM_READ | PERM_WRITE
"""Permission of such a one."""


@click.group(cls=Group)
def topic() -> None:
    """List, create and delete topics.

    Exit codes: 0 done; 1 not confirmed; 2 usage error, no cluster, or a broker refused.
    """


@topic.command("list")
@cluster_options
@json_option
def list_command(namesrv: str, as_json: bool) -> None:
    """List all topics.

    Exit codes: 0 done; 2 usage error, or no cluster.
    """

    async def work(cluster: Cluster, _: Interrupt) -> None:
        names = await cluster.admin().topics()
        show(as_json, names, ["topic"], [[name] for name in names])

    sys.exit(run(namesrv, work))


@topic.command("show")
@click.argument("name", shell_complete=completion.topics)
@cluster_options
@json_option
def show_command(name: str, namesrv: str, as_json: bool) -> None:
    """Show the queues of a topic and their offsets.

    Exit codes: 0 done; 2 usage error, no cluster, or no such topic.
    """

    async def work(cluster: Cluster, _: Interrupt) -> None:
        offsets = await cluster.admin().topic_offsets(name)
        rows = [(queue.broker_name, queue.queue_id, low, high) for queue, (low, high) in offsets.items()]
        names = ("broker", "queue", "minOffset", "maxOffset")
        show(
            as_json,
            [dict(zip(names, row, strict=True)) for row in rows],
            ["broker", "queue", "min", "max"],
            rows,
        )

    sys.exit(run(namesrv, work))


@topic.command("route", short_help="Show which brokers have a topic.")
@click.argument("name", shell_complete=completion.topics)
@cluster_options
@json_option
def route_command(name: str, namesrv: str, as_json: bool) -> None:
    """Show which brokers have a topic: queues and permission, as clients are told.

    Exit codes: 0 done; 2 usage error, no cluster, or no such topic.
    """

    async def work(cluster: Cluster, _: Interrupt) -> None:
        route = await cluster.admin().route(name)
        groups = {each.broker_name: each for each in route.broker_datas}
        columns = ("broker", "read", "write", "perm", "cluster", "addresses")
        rows = []
        for queues in sorted(route.queue_datas, key=lambda each: each.broker_name):
            group = groups.get(queues.broker_name)
            numbers = queues.read_queue_nums, queues.write_queue_nums, queues.perm
            addresses = group.broker_addrs if group is not None else {}
            rows.append((queues.broker_name, *numbers, group.cluster if group is not None else "", addresses))
        shown = [
            (*row[:5], " ".join(f"{number}={address}" for number, address in sorted(row[5].items())))
            for row in rows
        ]
        show(as_json, [dict(zip(columns, row, strict=True)) for row in rows], columns, shown)

    sys.exit(run(namesrv, work))


@topic.command("create")
@click.argument("name")
@cluster_options
@click.option(
    "-q",
    "--queues",
    type=click.IntRange(1, 1024),
    help="Queues on each master.  [8; of a topic that is there: as many as it has]",
)
@click.option(
    "--perm",
    type=click.Choice(["6", "4", "2"]),
    help="4 read, 2 write, 6 both.  [6; to be named where it isn't that now]",
)
@click.option("-c", "--cluster", "cluster_name", help="Only the masters of this cluster.")
@json_option
def create_command(
    name: str, namesrv: str, queues: int | None, perm: str | None, cluster_name: str | None, as_json: bool
) -> None:
    """Create or update a topic on all masters.

    Exit codes: 0 done; 2 usage error, no cluster, or a broker refused.
    """

    async def work(cluster: Cluster, _: Interrupt) -> None:
        admin = cluster.admin()
        present = await _present(admin, checked_topic(name), cluster_name)
        if perm is None:
            _check_both(name, present)
        # With fewer queues nobody would read what the others hold.
        found = max((max(each.read_queue_nums, each.write_queue_nums) for each in present), default=0)
        masters = await admin.create_topic(
            name, queues=queues or found or NEW_QUEUES, perm=int(perm or BOTH), cluster=cluster_name
        )
        show(as_json, masters, ["created on"], [[each] for each in masters])

    sys.exit(run(namesrv, work))


async def _present(admin: Admin, name: str, cluster: str | None) -> list[QueueData]:
    """What the groups of the cluster (None: all) have of a topic: nothing, if there is none."""
    try:
        route = await admin.route(name)
    except NoRoute:
        return []
    meant = {each.broker_name for each in route.broker_datas if cluster in (None, each.cluster)}
    return [each for each in route.queue_datas if each.broker_name in meant]


def _check_both(name: str, present: list[QueueData]) -> None:
    """CannotRun if somebody has taken a permission away. A route doesn't tell whether it was the topic's or, for a
    while, the broker's, so nothing is guessed."""
    others = [f"{each.perm} on {each.broker_name}" for each in present if each.perm & BOTH != BOTH]
    if others:
        raise CannotRun(
            f"topic {name} is there, with permission {', '.join(others)}: say which it shall have, with --perm"
        )


@topic.command("delete")
@click.argument("name", shell_complete=completion.topics)
@cluster_options
@click.option("-c", "--cluster", "cluster_name", help="Only the masters of this cluster.")
@yes_option
@json_option
def delete_command(name: str, namesrv: str, cluster_name: str | None, yes: bool, as_json: bool) -> None:
    """Delete a topic from all masters and name servers. Says how many messages it has, and asks.

    Exit codes: 0 done; 1 not confirmed; 2 usage error, no cluster, no such topic, or a broker refused.
    """

    async def work(cluster: Cluster, _: Interrupt) -> None:
        admin = cluster.admin()
        if not yes:
            groups = (await admin.route(name)).broker_datas
            meant = {each.broker_name for each in groups if cluster_name in (None, each.cluster)}
            offsets = await admin.topic_offsets(name)
            queues = {queue: bounds for queue, bounds in offsets.items() if queue.broker_name in meant}
            there = counted(sum(end - begin for begin, end in queues.values()), "message")
            ask = (
                f"Topic {name} has {there} in {counted(len(queues), 'queue')}"
                f"{f' of cluster {cluster_name}' if cluster_name else ''}, all of them lost then. Delete?"
            )
            click.confirm(ask, abort=True, err=True)
        masters = await admin.delete_topic(name, cluster=cluster_name)
        show(as_json, masters, ["deleted from"], [[each] for each in masters])

    sys.exit(run(namesrv, work))

"""`hatwisted group reset|skip|clone`: moving groups. Each shows where the queues would go, and asks."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click

from hatwisted.cli.cluster import completion
from hatwisted.cli.cluster.clusterrun import Interrupt, cluster_options, run
from hatwisted.cli.errors import CannotRun
from hatwisted.cli.optiongroup import Command
from hatwisted.cli.optionvalues import milliseconds
from hatwisted.cli.output import counted, json_option, show, table_text, yes_option
from hatwisted.client.admin import Admin
from hatwisted.client.cluster import Cluster
from hatwisted.clientcore.admin import LATEST
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.topics import RETRY_PREFIX

Plan = Mapping[MessageQueue, tuple[int | None, int]]
"""By queue: where the group is, None if nowhere yet, and where it would go."""


def _show_plan(plan: Plan) -> None:
    names = ("topic", "broker", "queue", "from", "to", "change")
    rows = sorted(
        (
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            "none" if old is None else old,
            new,
            new - (old or 0),
        )
        for queue, (old, new) in plan.items()
    )
    click.echo(table_text(names, [(*row[:5], f"{row[5]:+d}") for row in rows]), err=True)


def _show_done(as_json: bool, moved: Mapping[MessageQueue, int]) -> None:
    columns = ("topic", "broker", "queue", "offset")
    rows = sorted((queue.topic, queue.broker_name, queue.queue_id, offset) for queue, offset in moved.items())
    show(as_json, [dict(zip(columns, row, strict=True)) for row in rows], columns, rows)


@click.command("reset", cls=Command, short_help="Set a group back, or forward, in a topic.")
@click.argument("name", shell_complete=completion.groups)
@click.argument("topic", shell_complete=completion.topics)
@click.argument("to", metavar="first|last|TIME")
@cluster_options
@yes_option
@json_option
def reset_command(name: str, topic: str, to: str, namesrv: str, yes: bool, as_json: bool) -> None:
    """Reset a group's offsets in one topic: to the first or last message, or to a time.

    TIME is in ISO 8601, in UTC unless it names a zone, or yesterday, or a span such as 2h (ago). Shows where
    each queue would go, and asks.

    Exit codes: 0 done; 1 not confirmed; 2 usage error, no cluster, or a broker refused.
    """
    timestamp = _timestamp(to)

    async def work(cluster: Cluster, _: Interrupt) -> None:
        admin = cluster.admin()
        if not yes:
            _show_plan(await admin.reset_plan(name, topic, timestamp))
            members = await admin.members(name)
            ask = f"Move group {name} ({counted(len(members), 'member')} connected) in topic {topic}?"
            click.confirm(ask, abort=True, err=True)
        _show_done(as_json, await admin.reset(name, topic, timestamp))

    sys.exit(run(namesrv, work))


def _timestamp(text: str) -> int:
    if text in ("first", "last"):
        return 0 if text == "first" else LATEST
    try:
        return milliseconds(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="TIME") from error


@click.command("skip", cls=Command, short_help="Skip what a group is behind.")
@click.argument("name", shell_complete=completion.groups)
@click.argument("topics", nargs=-1, metavar="[TOPIC...]", shell_complete=completion.topics)
@cluster_options
@yes_option
@json_option
def skip_command(name: str, topics: tuple[str, ...], namesrv: str, yes: bool, as_json: bool) -> None:
    """Skip what a group is behind in these topics, or in all that it reads: it goes on with what comes next.

    Its retries stay, unless their topic is named. Shows how many messages of each queue nobody of the group will
    read, and asks.

    Exit codes: 0 done; 1 not confirmed; 2 usage error, no cluster, or a broker refused.
    """

    async def work(cluster: Cluster, _: Interrupt) -> None:
        admin = cluster.admin()
        chosen = topics or await _read_topics(admin, name)
        plan: dict[MessageQueue, tuple[int | None, int]] = {}
        for topic in chosen:
            plan |= await admin.reset_plan(name, topic, LATEST)
        if not yes:
            _show_plan(plan)
            members = await admin.members(name)
            skipped = sum(max(0, new - (old or 0)) for old, new in plan.values())
            ask = (
                f"Skip {counted(skipped, 'message')} of group {name} "
                f"({counted(len(members), 'member')} connected) in {', '.join(chosen)}?"
            )
            click.confirm(ask, abort=True, err=True)
        moved: dict[MessageQueue, int] = {}
        for topic in chosen:
            moved |= await admin.reset(name, topic, LATEST)
        _show_done(as_json, moved)

    sys.exit(run(namesrv, work))


async def _read_topics(admin: Admin, group: str) -> list[str]:
    """Those that it has progress in, without its retries."""
    found = {each.queue.topic for each in await admin.progress(group)}
    chosen = sorted(topic for topic in found if not topic.startswith(RETRY_PREFIX))
    if not chosen:
        raise CannotRun(f"group {group} hasn't read any topic yet: there is nothing to move")
    return chosen


async def _check_alone(admin: Admin, group: str) -> None:
    if members := await admin.members(group):
        raise CannotRun(
            f"group {group} has {counted(len(members), 'member')} connected: stop them first, since they "
            "would commit their own offsets"
        )


@click.command("clone", cls=Command, short_help="Put a group where another one is.")
@click.argument("source", metavar="FROM", shell_complete=completion.groups)
@click.argument("target", metavar="TO", shell_complete=completion.groups)
@click.argument("topics", nargs=-1, metavar="[TOPIC...]", shell_complete=completion.topics)
@cluster_options
@yes_option
@json_option
def clone_command(
    source: str, target: str, topics: tuple[str, ...], namesrv: str, yes: bool, as_json: bool
) -> None:
    """Put group TO where group FROM is, in these topics or in all that FROM reads.

    TO is made with the settings of FROM if there is no such group. It's refused while members of TO are connected,
    who would go on, and commit, where they are. Shows where each queue would go, and asks.

    Exit codes: 0 done; 1 not confirmed; 2 usage error, no cluster, or a broker refused.
    """

    async def work(cluster: Cluster, _: Interrupt) -> None:
        admin = cluster.admin()
        if source == target:
            raise CannotRun("FROM and TO are the same group")
        plan: Plan = await admin.clone_plan(source, target, topics)
        read = {queue.topic for queue in plan}
        if not read or not read.issuperset(topics):
            missing = ", ".join(sorted(set(topics) - read)) or "any topic"
            raise CannotRun(f"group {source} hasn't read {missing} yet: there is nothing to clone")
        await _check_alone(admin, target)
        if not yes:
            _show_plan(plan)
            click.confirm(f"Put group {target} where {source} is?", abort=True, err=True)
            await _check_alone(admin, target)  # it may have taken somebody a while to answer
        await admin.clone(source, target, sorted(read))
        # As it is now: the source may have gone on since it was asked.
        now = {each.queue: each.consumed for each in await admin.progress(target) if each.queue.topic in read}
        _show_done(as_json, now or {queue: new for queue, (_, new) in plan.items()})

    sys.exit(run(namesrv, work))

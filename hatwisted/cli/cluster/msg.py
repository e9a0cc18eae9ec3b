"""`hatwisted msg`: single messages of a running cluster."""

from __future__ import annotations

import re
import sys
from typing import Final

import click

from hatwisted.cli.cluster import completion
from hatwisted.cli.cluster.clusterrun import Interrupt, cluster_options, run
from hatwisted.cli.cluster.consume import as_json as message_json
from hatwisted.cli.cluster.consume import shown_body
from hatwisted.cli.errors import EXIT_OK, EXIT_PROBLEMS, CannotRun
from hatwisted.cli.optiongroup import Group
from hatwisted.cli.optionvalues import iso_time
from hatwisted.client.cluster import Cluster
from hatwisted.clientcore.message import ReceivedMessage
from hatwisted.wire.messageid import BadMessageId, decode_message_id
from hatwisted.wire.printable import printable

_PLACE: Final = re.compile(r"(.+)/(\d+)/(\d+)")
MOST_NAME: Final = 24
"""Characters of a property's name beyond which its value isn't below the others'."""


@click.group(cls=Group)
def msg() -> None:
    """Find single messages."""


@msg.command("get")
@click.argument("what", metavar="ID|KEY|TOPIC/QUEUE/OFFSET")
@click.option(
    "-t",
    "--topic",
    shell_complete=completion.topics,
    help="The topic, for a key or for an id that the producer made.",
)
@cluster_options
@click.option("--json", "as_json", is_flag=True, help="Each message as a JSON object, as `consume --json`.")
def get_command(what: str, topic: str | None, namesrv: str, as_json: bool) -> None:
    """Show a message by its id, by a key, or by its place in a queue.

    An id without --topic is one that says where the message is stored (offsetMessageId). By key the newest 32 of
    each broker are shown.

    Exit codes: 0 found; 1 there is none; 2 usage error, no cluster, or a broker refused.
    """

    async def work(cluster: Cluster, _: Interrupt) -> int:
        found = await _found(cluster, what, topic)
        for message in found:
            click.echo(message_json(message) if as_json else _described(message))
        if not found:
            click.echo(f"no message {printable(what)}" + (f" in topic {topic}" if topic else ""), err=True)
        return EXIT_OK if found else EXIT_PROBLEMS

    sys.exit(run(namesrv, work))


async def _found(cluster: Cluster, what: str, topic: str | None) -> list[ReceivedMessage]:
    admin = cluster.admin()
    if topic is not None:
        return await admin.messages_by_key(topic, what, unique=True) or await admin.messages_by_key(
            topic, what
        )
    if place := _PLACE.fullmatch(what):
        return await admin.messages_at(place[1], int(place[2]), int(place[3]))
    if not _is_a_place(what):
        raise CannotRun(
            f"{what}: for a key, or an id that a producer made, name the topic by -t; or TOPIC/QUEUE/OFFSET"
        )
    return [await admin.message_by_id(what)]


def _is_a_place(message_id: str) -> bool:
    """Does it name a broker? A producer's own id has as many digits, and its process where the port is."""
    try:
        host, _ = decode_message_id(message_id)
    except BadMessageId:
        return False
    return 0 < host.port < 1 << 16


def _described(message: ReceivedMessage) -> bytes:
    rows = [
        ("topic", f"{message.queue.topic}, queue {message.queue.queue_id} of {message.queue.broker_name}"),
        (
            "offset",
            f"{message.queue_offset}, at {message.commit_log_offset} of the log, {message.size} bytes",
        ),
        ("id", message.message_id),
        ("offset id", message.offset_id),
        ("stored", f"{iso_time(message.store_timestamp)} by {message.store_host}"),
        ("born", iso_time(message.born_timestamp)),
        ("tags", message.tags),
        ("keys", " ".join(message.keys)),
        ("retries", str(message.reconsume_times) if message.reconsume_times else ""),
        *((f"  {name}", value) for name, value in sorted(message.properties.items())),
    ]
    shown = [(printable(name), printable(value)) for name, value in rows if value]
    width = min(MOST_NAME, max(len(name) for name, _ in shown))
    lines = [f"{name:<{width}} {value}" for name, value in shown]
    return "\n".join(lines).encode() + b"\n\n" + shown_body(message.body)

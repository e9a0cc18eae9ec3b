"""`hatwisted consume`: messages to standard output, one line each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from hatwisted.cli.cluster import completion
from hatwisted.cli.cluster.clusterrun import Interrupt, cluster_options, run
from hatwisted.cli.errors import EXIT_OK, EXIT_PROBLEMS, CannotRun
from hatwisted.cli.messagejson import MessageFields, body_fields, message_line
from hatwisted.cli.optionvalues import milliseconds
from hatwisted.client.cluster import Cluster
from hatwisted.clientcore.message import ReceivedMessage
from hatwisted.clientcore.options import ConsumeFrom
from hatwisted.clientcore.subscription import Sql
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.wire.consumerdata import ALL_TAGS, TOOLS_GROUP
from hatwisted.wire.printable import printable

OWN_GROUP: Final = "hatwisted-cli"
"""For expressions, which brokers take from the group's newest member: they'd be another one's."""


@click.command("consume")
@click.argument("topic", shell_complete=completion.topics)
@cluster_options
@click.option(
    "-g", "--group", shell_complete=completion.groups,
    help="Consume as a member of this group, and commit what was printed.",
)  # fmt: skip
@click.option(
    "--peek", is_flag=True, help="Look at all queues and commit nothing: what is done without a group."
)
@click.option("--tags", default="*", show_default=True, help='Tags, separated by "||".')
@click.option("--sql", help="An SQL92 expression on properties, instead of tags.")
@click.option(
    "--from", "begin", default="last", show_default=True, metavar="first|last|TIME",
    help="Where looking, or a new group, starts; TIME in ISO 8601 (UTC), yesterday, or 2h (ago).",
)  # fmt: skip
@click.option("-c", "--count", type=click.IntRange(1), help="Stop after this many messages.")
@click.option(
    "--idle",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Stop when no message has arrived for this long.",
)
@click.option(
    "--broadcast",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Read all queues, and keep the progress in FILE, not at the brokers.",
)
@click.option("--orderly", is_flag=True, help="Consume in order: lock each queue for one reader.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print each message as a JSON object with all its fields."
)
def consume(**options: Any) -> None:
    """Print the messages of a topic.

    Without a group nothing is committed: other consumers get their messages all the same. With one, Ctrl-C commits
    what was printed. Exit codes: 0 finished (also by Ctrl-C); 1 stopped by --idle
    before --count messages arrived, or not everything could be committed; 2 usage error, no cluster, or a refused
    expression.
    """
    try:
        options["begin"] = _consume_from(options["begin"])
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--from") from error
    if options["sql"] is not None and options["tags"] != ALL_TAGS:
        raise click.UsageError("--tags and --sql can't be combined: in SQL, the tag is the property TAGS")
    if options["peek"] and options["group"] is not None:
        raise click.UsageError("--peek and --group can't be combined: a member commits what it has read")
    if options["broadcast"] is not None:
        _check_writable(Path(options["broadcast"]))
    sys.exit(run(options["namesrv"], _Printing(options).run))


def _check_writable(path: Path) -> None:
    """Progress that can't be kept is reported before the first message, not after the last."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab"):
            pass
        if not path.stat().st_size:
            path.unlink()
    except OSError as error:
        raise CannotRun(f"{path}: {error.strerror}") from error


def _consume_from(text: str) -> tuple[ConsumeFrom, int]:
    if text in ("first", "last"):
        return ConsumeFrom[text.upper()], 0
    return ConsumeFrom.TIMESTAMP, milliseconds(text)


class _Printing:
    """One run."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._printed = 0
        self._since = 0.0
        self._progress = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(),
            console=Console(stderr=True), transient=True,
        )  # fmt: skip
        self._task = self._progress.add_task("waiting", total=None)

    async def run(self, cluster: Cluster, interrupt: Interrupt) -> int:
        """The exit code."""
        options = self._options
        expression = options["tags"] if options["sql"] is None else Sql(options["sql"])
        begin, timestamp = options["begin"]
        broadcast = options["broadcast"]
        consumer = cluster.consumer(
            options["group"] or (OWN_GROUP if options["sql"] else TOOLS_GROUP),
            {options["topic"]: expression},
            consume_from=begin,
            timestamp=timestamp,
            broadcasting=broadcast is not None or options["group"] is None,
            local_offsets=None if broadcast is None else Path(broadcast),
            orderly=options["orderly"],
        )
        # The bar and the messages would overwrite each other on one terminal.
        if sys.stderr.isatty() and not sys.stdout.isatty():
            self._progress.start()
        interrupt.on_request(consumer.stop)
        self._since = cluster.clock.seconds()
        watch = PeriodicCall(
            cluster.clock, "the check for an idle topic", lambda: self._look_idle(cluster, consumer.stop)
        )
        try:
            # A consumer of a topic that doesn't exist would wait for ever; mostly the name is misspelt.
            await cluster.admin().route(options["topic"])
            await consumer.start()
            if options["idle"] is not None:
                watch.start(min(0.1, options["idle"] or 0.1))
            async for message in consumer:
                self._print(message)
                self._since = cluster.clock.seconds()
                if self._printed == options["count"]:
                    consumer.settle(message)
                    break
            await consumer.stop()
        finally:
            watch.stop()
            if self._progress.live.is_started:
                self._progress.stop()
        if consumer.uncommitted:
            count = consumer.uncommitted
            text = f"offsets of {count} queues couldn't be committed: some messages will be delivered again"
            click.echo(text, err=True)
            return EXIT_PROBLEMS
        short = options["count"] is not None and self._printed < options["count"]
        return EXIT_PROBLEMS if short and not interrupt.requested else EXIT_OK

    def _look_idle(self, cluster: Cluster, stop: Any) -> None:
        if cluster.clock.seconds() - self._since >= self._options["idle"]:
            stop()

    def _print(self, message: ReceivedMessage) -> None:
        out = sys.stdout.buffer
        out.write((as_json(message) if self._options["as_json"] else shown_body(message.body)) + b"\n")
        out.flush()
        self._printed += 1
        self._progress.update(self._task, description=f"{self._printed} messages")


def shown_body(body: bytes) -> bytes:
    """As it is; on a terminal without what that would obey."""
    if not sys.stdout.isatty():
        return body
    return printable(body.decode("utf-8", "backslashreplace"), keep="\n\t").encode()


def as_json(message: ReceivedMessage) -> bytes:
    """One message as NDJSON, as `hatwisted produce --ndjson` takes it."""
    fields: MessageFields = {
        "topic": message.topic,
        "queueId": message.queue.queue_id,
        "queueOffset": message.queue_offset,
        "messageId": message.message_id,
        "offsetMessageId": message.offset_id,
        "keys": message.keys,
        "tags": message.tags,
        "properties": message.properties,
        "reconsumeTimes": message.reconsume_times,
        "bornTimestamp": message.born_timestamp,
        "storeTimestamp": message.store_timestamp,
    }
    return message_line(fields, body_fields(message.body), broker=message.queue.broker_name)

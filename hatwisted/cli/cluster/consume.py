"""`hatwisted consume`: messages to standard output, one line each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, globalLogPublisher
from zope.interface import implementer

from hatwisted.cli.cluster import completion
from hatwisted.cli.cluster.clusterrun import Interrupt, cluster_options, run
from hatwisted.cli.cluster.messageformat import formatted, keyed, unescaped
from hatwisted.cli.cluster.readingrange import (
    Offsets,
    Range,
    parse_offsets,
    parse_queue,
    place_of,
    range_of,
)
from hatwisted.cli.errors import EXIT_OK, EXIT_PROBLEMS, CannotRun
from hatwisted.cli.optiongroup import Command
from hatwisted.cli.optionvalues import milliseconds
from hatwisted.client.cluster import Cluster
from hatwisted.client.consumer import Consumer
from hatwisted.client.driver import NAMESPACE
from hatwisted.clientcore.message import ReceivedMessage
from hatwisted.clientcore.messagejson import MessageFields, body_fields, compression_name, message_line
from hatwisted.clientcore.options import ConsumeFrom
from hatwisted.clientcore.subscription import Sql
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.wire.consumerdata import ALL_TAGS, TOOLS_GROUP
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.printable import printable

OWN_GROUP: Final = "hatwisted-cli"
"""For expressions, which brokers take from the group's newest member: they'd be another one's."""
LOOK: Final = 0.1
"""Seconds between two looks at whether it's idle, or at the end."""


@click.command("consume", cls=Command)
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
@click.option(
    "-o", "--offset", "offsets", multiple=True, metavar="OFFSET",
    help="Where looking starts in each queue: an offset, -COUNT before the end, beginning, end, s@TIME; "
    "and e@TIME, where it stops.",
)  # fmt: skip
@click.option(
    "-p", "--queue", "queues", multiple=True, metavar="[BROKER/]QUEUE",
    help="Look at this queue only; may be repeated.",
)  # fmt: skip
@click.option("-c", "--count", type=click.IntRange(1), help="Stop after this many messages.")
@click.option("-e", "--end", is_flag=True, help="Stop once everything is read that was there at the start.")
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
    "-f", "--format", "template", metavar="FORMAT",
    help="Print each message so: %t topic, %p queue, %o offset, %k keys, %s body, \\n ... as kcat has it.",
)  # fmt: skip
@click.option(
    "-K", "--key-separator", metavar="SEP", help="Print each message's keys and SEP before its body."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print each message as a JSON object with all its fields."
)
def consume(**options: Any) -> None:
    """Print the messages of a topic.

    Without a group nothing is committed: other consumers get their messages all the same. With one, Ctrl-C commits
    what was printed. Options are named as kcat's where they do the same; docs/mqadmin.md has the list.

    Exit codes: 0 finished (also by Ctrl-C, or at the end by --end); 1 stopped by --idle before --count messages
    arrived, or not everything could be committed, or some messages can't be read (they are listed on standard
    error, and a group is given them again later); 2 usage error, no cluster, or a refused expression or account.
    """
    _check_reading(options)
    options["piece"] = _piece(options)
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


def _check_reading(options: dict[str, Any]) -> None:
    """-o and -p, as they are to be used; a usage error for what contradicts them."""
    given = [name for name, key in (("--offset", "offsets"), ("--queue", "queues")) if options[key]]
    if given and options["group"] is not None:
        raise click.UsageError(
            f"{given[0]} and --group can't be combined: a member begins where its group left off; "
            "`hatwisted group reset` moves it"
        )
    if given and options["broadcast"] is not None:
        raise click.UsageError(f"{given[0]} and --broadcast can't be combined: FILE says where to begin")
    try:
        options["offsets"] = parse_offsets(options["offsets"])
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--offset") from error
    try:
        options["queues"] = [parse_queue(each) for each in options["queues"]]
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--queue") from error
    source = click.get_current_context().get_parameter_source("begin")
    if options["offsets"].begin is not None and source is not ParameterSource.DEFAULT:
        raise click.UsageError("--offset and --from can't be combined: both say where to begin")


def _piece(options: dict[str, Any]) -> Callable[[ReceivedMessage], bytes]:
    """What makes a message what is printed of it."""
    named = {"--format": options["template"], "--key-separator": options["key_separator"]}
    named["--json"] = options["as_json"] or None
    used = [name for name, value in named.items() if value is not None]
    if len(used) > 1:
        raise click.UsageError(f"{used[0]} and {used[1]} can't be combined: each says how to print")
    try:
        if options["template"] is not None:
            return formatted(options["template"])
        if options["key_separator"] is not None:
            return keyed(unescaped(options["key_separator"]))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=used[0]) from error
    if options["as_json"]:
        return lambda message: as_json(message) + b"\n"
    return lambda message: message.body + b"\n"


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


@implementer(ILogObserver)
class _Reported:
    """What the client reports of messages that aren't printed, for who has asked for them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, event: LogEvent) -> None:
        """See ILogObserver."""
        if event.get("log_namespace") == NAMESPACE and event["log_level"] >= LogLevel.error:
            self.count += 1
            _warn(" ".join(formatEvent(event).split()))


class _Printing:
    """One run."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._printed = 0
        self._reported = _Reported()
        self._since = 0.0
        self._range: Range | None = None
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
        assigned = await self._assigned(cluster)
        if interrupt.requested:
            return EXIT_OK
        consumer = cluster.consumer(
            options["group"] or (OWN_GROUP if options["sql"] else TOOLS_GROUP),
            {options["topic"]: expression},
            consume_from=begin,
            timestamp=timestamp,
            broadcasting=broadcast is not None or options["group"] is None,
            assigned=assigned,
            local_offsets=None if broadcast is None else Path(broadcast),
            orderly=options["orderly"],
        )
        # The bar and the messages would overwrite each other on one terminal.
        if sys.stderr.isatty() and not sys.stdout.isatty():
            self._progress.start()
        interrupt.on_request(consumer.stop)
        globalLogPublisher.addObserver(self._reported)
        watch = PeriodicCall(
            cluster.clock, "the check for an idle topic or its end", lambda: self._look(cluster, consumer)
        )
        try:
            await consumer.start()
            if consumer.refusal is not None:
                refusal = consumer.refusal
                await consumer.stop()
                raise refusal
            self._since = cluster.clock.seconds()
            if options["idle"] is not None or self._ends:
                watch.start(min(LOOK, options["idle"] or LOOK), now=self._ends)
            async for message in consumer:
                if self._beyond(message):
                    continue
                self._print(message)
                self._since = cluster.clock.seconds()
                if self._printed == options["count"]:
                    consumer.settle(message)
                    break
            await consumer.stop()
        finally:
            watch.stop()
            globalLogPublisher.removeObserver(self._reported)
            if self._progress.live.is_started:
                self._progress.stop()
        if consumer.uncommitted:
            count = consumer.uncommitted
            text = f"offsets of {count} queues couldn't be committed: some messages will be delivered again"
            click.echo(text, err=True)
            return EXIT_PROBLEMS
        if self._reported.count:
            return EXIT_PROBLEMS
        short = options["count"] is not None and self._printed < options["count"] and not self._ends
        return EXIT_PROBLEMS if short and not interrupt.requested else EXIT_OK

    @property
    def _ends(self) -> bool:
        """Is there an end?"""
        return bool(self._options["end"] or self._options["offsets"].end)

    async def _assigned(self, cluster: Cluster) -> Mapping[MessageQueue, int] | None:
        """The queues to look at, and from where; None: as the consumer finds them."""
        options, admin = self._options, cluster.admin()
        # A consumer of a topic that doesn't exist would wait for ever; mostly the name is misspelt.
        await admin.route(options["topic"])
        given = options["queues"] or options["offsets"] != Offsets()
        if not (given or self._ends):
            return None
        offsets = options["offsets"]
        if offsets.begin is None:
            offsets = offsets._replace(begin=place_of(options["begin"]))
        self._range = await range_of(admin, options["topic"], options["queues"], offsets, _warn)
        return self._range.begin if options["group"] is None and options["broadcast"] is None else None

    def _look(self, cluster: Cluster, consumer: Consumer) -> None:
        idle = self._options["idle"]
        if idle is not None and cluster.clock.seconds() - self._since >= idle:
            consumer.stop()
        elif self._ends and self._range is not None:
            reached = consumer.progress
            # A member reads its share; who looks, reads all, also those queues that aren't known yet.
            awaited = reached if self._options["group"] is not None else self._range.end
            if all(reached.get(queue, -1) >= self._range.end.get(queue, 0) for queue in awaited):
                consumer.stop()

    def _beyond(self, message: ReceivedMessage) -> bool:
        """Is it after the end? What a member of a group has been given it prints: it's committed, too."""
        if not self._ends or self._range is None or self._options["group"] is not None:
            return False
        return message.queue_offset >= self._range.end.get(message.queue, 0)

    def _print(self, message: ReceivedMessage) -> None:
        out = sys.stdout.buffer
        out.write(shown_body(self._options["piece"](message)))
        out.flush()
        self._printed += 1
        self._progress.update(self._task, description=f"{self._printed} messages")


def _warn(line: str) -> None:
    click.echo(printable(line), err=True)


def shown_body(body: bytes) -> bytes:
    """As it is; on a terminal without what that would obey."""
    if not sys.stdout.isatty():
        return body
    return printable(body.decode("utf-8", "backslashreplace"), keep="\n\t").encode()


def as_json(message: ReceivedMessage) -> bytes:
    """One message as NDJSON, as `hatwisted produce --ndjson` takes it."""
    fields: MessageFields = {
        "topic": message.queue.topic,
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
    more: dict[str, Any] = {"broker": message.queue.broker_name}
    if message.unreadable is not None:
        more |= {"sysFlag": message.sys_flag, "compression": compression_name(message.sys_flag)}
    return message_line(fields, body_fields(message.body), **more)

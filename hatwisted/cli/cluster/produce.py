"""`hatwisted produce`: lines of standard input become messages."""

from __future__ import annotations

import base64
import sys
from typing import Any, Final

import click
import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from hatwisted.cli.cluster import completion
from hatwisted.cli.cluster.clusterrun import (
    LONGEST_LINE,
    InputLines,
    Interrupt,
    cluster_options,
    run,
)
from hatwisted.cli.cluster.messageformat import unescaped
from hatwisted.cli.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_PROBLEMS
from hatwisted.cli.optiongroup import Command
from hatwisted.cli.output import echo_json
from hatwisted.client.cluster import Cluster
from hatwisted.client.producer import Producer
from hatwisted.clientcore.errors import ClientError
from hatwisted.clientcore.message import DELIVERY_PROPERTIES, Message, checked_topic
from hatwisted.clientcore.messagejson import ORIGIN, body_of
from hatwisted.clientcore.sending import SendResult, SendStatus
from hatwisted.wire.layout import PROPERTY_RETRY_TOPIC
from hatwisted.wire.printable import printable
from hatwisted.wire.topics import DLQ_PREFIX, RETRY_PREFIX

SHOWN_ERRORS: Final = 5
"""Failures shown one by one; any more are only counted."""
OWN_TOPIC: Final = "-"


class Line(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One NDJSON input line; fields left out come from the options. body64: base64, instead of body; topic: used
    when TOPIC is "-"."""

    body: str = ""
    body64: str | None = None
    topic: str | None = None
    tags: str | None = None
    keys: str | list[str] | None = None
    delay: int | None = None
    order_key: str | None = None
    wait: bool = True
    properties: dict[str, str] = {}

    @property
    def sent_to(self) -> str:
        """The topic that its producer sent it to: a group's failures are in topics of the group's own."""
        topic = self.topic or ""
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            return self.properties.get(PROPERTY_RETRY_TOPIC, topic)
        return topic


class _Stored(msgspec.Struct):
    """Of a line: what its body was."""

    body64: str | None = None
    compression: str | None = None
    sysFlag: int = 0
    bodySize: int = 0


_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def parse_line(line: bytes) -> Line:
    """A message from a line. Where it came from isn't where it goes: such fields are left out. Raises ValueError
    for names that nothing of ours writes, which may be misspelt."""
    try:
        given = _decode_object(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if "bodyBase64" in given:
        given["body64"] = given.pop("bodyBase64")
    stored = msgspec.convert(given, _Stored)
    if stored.body64 and stored.compression:
        plain = body_of(stored.body64, stored.compression, stored.sysFlag)
        given["body64"] = base64.b64encode(plain).decode()
    elif stored.bodySize and given.get("body") is None and stored.body64 is None:
        raise ValueError(f"its body of {stored.bodySize} bytes was left out")
    for name in given.keys() & ORIGIN:
        del given[name]
    if given.get("body64") is not None:
        given.pop("body", None)
    return msgspec.convert({name: value for name, value in given.items() if value is not None}, Line)


@click.command("produce", cls=Command)
@click.argument("topic", shell_complete=completion.topics)
@cluster_options
@click.option("-g", "--group", default="hatwisted-cli", show_default=True, help="Producer group.")
@click.option("--tags", default="", help="Tag of every message.")
@click.option("--keys", default="", help="Keys of every message, separated by spaces.")
@click.option("--delay", type=click.IntRange(0, 18), default=0, help="Delay level.")
@click.option("--order-key", help="Keep the order by sending all messages to one queue.")
@click.option(
    "-K", "--key-separator", metavar="SEP",
    help="What is before SEP in a line is its message's keys; messages of one key go to one queue, in order.",
)  # fmt: skip
@click.option("--ndjson", is_flag=True, help="Each line is a JSON object: body or body64, tags, keys, ...")
@click.option("--batch/--no-batch", default=True, show_default=True, help="Send waiting messages in batches.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object per stored message on standard output."
)
def produce(**options: Any) -> None:
    """Send lines of standard input as messages to a topic.

    With --ndjson each line is a JSON object, and "-" as TOPIC means each line's own. What `hatwisted consume
    --json`, `hatwisted log dump --json` and `hatwisted pipeline export` write is accepted as it is.

    Exit codes: 0 all stored; 1 some weren't, or were stored but not flushed or replicated in time (they are listed
    on standard error); 2 usage error or no cluster; 130 interrupted.
    """
    if options["topic"] == OWN_TOPIC and not options["ndjson"]:
        raise click.BadParameter('"-" needs --ndjson', param_hint="TOPIC")
    if options["key_separator"] is not None:
        if options["ndjson"]:
            raise click.UsageError("--key-separator and --ndjson can't be combined: an object has its keys")
        try:
            options["key_separator"] = unescaped(options["key_separator"])
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--key-separator") from error
        if not options["key_separator"]:
            raise click.BadParameter("is empty", param_hint="--key-separator")
    sys.exit(run(options["namesrv"], _Sending(options).run))


class _Sending:
    """One run: what was read, sent and failed."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self.sent = self.failed = self.weak = self._taken = 0
        self._unheard: OSError | None = None
        """Why results can't be written any more: nothing more is sent then."""
        self._progress = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(),
            console=Console(stderr=True), transient=True,
        )  # fmt: skip
        self._task = self._progress.add_task("0 stored", total=None)

    async def run(self, cluster: Cluster, interrupt: Interrupt) -> int:
        """The exit code."""
        from twisted.internet import reactor
        from twisted.internet.defer import Deferred

        options = self._options
        producer = cluster.producer(options["group"], coalesce=options["batch"])
        # A cluster that can't be reached is reported once, not once per line.
        if options["topic"] == OWN_TOPIC:
            await cluster.admin().cluster_info()
        else:
            await producer.queues(checked_topic(options["topic"]))
        lines = InputLines(reactor)
        stopped: Deferred[None] = Deferred()
        interrupt.on_request(lambda: stopped.callback(None))
        reading = Deferred.fromCoroutine(self._read(lines, producer, interrupt))
        self._show()
        try:
            await _either(reading, stopped)
            await producer.settled()
            await producer.stop()
        finally:
            if self._progress.live.is_started:
                self._progress.stop()
        return self._end(interrupt)

    def _show(self) -> None:
        """On a terminal: the count, unless it would run into what is typed or printed there."""
        if not sys.stderr.isatty():
            return
        if sys.stdin.isatty():
            click.echo("Each line that you type is a message; Ctrl-D ends.", err=True)
        elif not (self._options["as_json"] and sys.stdout.isatty()):
            self._progress.start()

    async def _read(self, lines: InputLines, producer: Producer, interrupt: Interrupt) -> None:
        while (chunk := await lines.chunk()) is not None:
            for line in chunk:
                await producer.ready()
                if interrupt.requested:
                    return
                if self._unheard is not None:
                    await producer.settled()
                    return
                self._taken += 1
                if line is None:
                    self._fail(f"line {self._taken}: it is longer than {LONGEST_LINE >> 20} MiB")
                else:
                    self._send(producer, line, self._taken)
        await producer.settled()

    def _send(self, producer: Producer, line: bytes, number: int) -> None:
        try:
            message = self._message(line)
        except (ValueError, ClientError) as error:
            self._fail(f"line {number}: {error}")
            return
        producer.send(message).addCallbacks(self._stored, lambda failure: self._failure(failure, number))

    def _message(self, line: bytes) -> Message:
        options = self._options
        given = parse_line(line) if options["ndjson"] else None
        if given is None:
            body, given = self._split(line)
        else:
            body = (
                given.body.encode() if given.body64 is None else base64.b64decode(given.body64, validate=True)
            )
        keys = options["keys"] if given.keys is None else given.keys
        return Message(
            topic=given.sent_to if options["topic"] == OWN_TOPIC else options["topic"],
            body=body,
            tags=options["tags"] if given.tags is None else given.tags,
            keys=keys.split() if isinstance(keys, str) else keys,
            delay_level=options["delay"] if given.delay is None else given.delay,
            order_key=given.order_key or options["order_key"],
            wait=given.wait,
            properties={
                name: value for name, value in given.properties.items() if name not in DELIVERY_PROPERTIES
            },
        )

    def _split(self, line: bytes) -> tuple[bytes, Line]:
        """Body and keys of a line of text; one without the separator is a body, as with kcat."""
        separator = self._options["key_separator"]
        if separator is None or separator not in line:
            return line, Line()
        key, _, body = line.partition(separator)
        keys = key.decode()
        return body, Line(keys=keys, order_key=self._options["order_key"] or keys or None)

    def _stored(self, result: SendResult) -> None:
        self.sent += 1
        if result.status is not SendStatus.OK:
            self.weak += 1
            if self.weak <= SHOWN_ERRORS:
                self._say(f"{result.message_id}: stored, but {result.status.name}")
        if self._options["as_json"] and self._unheard is None:
            try:
                echo_json(_result(result))
            except OSError as error:
                self._unheard = error
        self._progress.update(self._task, description=f"{self.sent} stored")

    def _failure(self, failure: Any, number: int) -> None:
        if failure.check(ClientError) is None:
            failure.printTraceback()
        self._fail(f"line {number}: {failure.getErrorMessage()}")

    def _fail(self, text: str) -> None:
        self.failed += 1
        if self.failed <= SHOWN_ERRORS:
            self._say(" ".join(text.split()))

    def _say(self, text: str) -> None:
        """A line on standard error, above the count if that is shown."""
        if self._progress.live.is_started:
            self._progress.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)
        else:
            click.echo(printable(text), err=True)

    def _end(self, interrupt: Interrupt) -> int:
        if self._unheard is not None:
            raise self._unheard
        if self.failed > SHOWN_ERRORS:
            click.echo(f"{self.failed} messages failed", err=True)
        if not self._options["as_json"]:
            click.echo(f"{self.sent} stored, {self.failed} failed", err=True)
        if interrupt.requested:
            click.echo(f"interrupted: no line after {self._taken} was sent", err=True)
        if self.failed or self.weak:
            return EXIT_PROBLEMS
        return EXIT_INTERRUPTED if interrupt.requested else EXIT_OK


def _result(result: SendResult) -> dict[str, object]:
    return {
        "status": result.status.name,
        "topic": result.queue.topic,
        "broker": result.queue.broker_name,
        "queueId": result.queue.queue_id,
        "queueOffset": result.queue_offset,
        "messageId": result.message_id,
        "offsetMessageId": result.offset_id,
    }


async def _either(work: Any, stopped: Any) -> None:
    """Until `work` has ended, or `stopped` fires; an error of `work` comes through."""
    from twisted.internet.defer import Deferred

    done: Deferred[None] = Deferred()

    def end(outcome: Any) -> None:
        if not done.called:
            done.callback(outcome)

    work.addBoth(end)
    stopped.addBoth(end)
    await done

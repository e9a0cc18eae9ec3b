"""Import: files of messages into the topics of a cluster, in the files' order, by one process without Spark.

Messages of a queue keep their order, and an import that fails says where to continue: a count of rows, since
rows are sent in order. Tasks of a Spark job were rejected: they are repeated after a failure, some of their
messages would be stored twice, and nothing could say which.

What a broker adds to a message isn't sent: it's added again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final, Literal

from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import Links
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import ClientError
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.messages.messagefiles import (
    BadMessageFile,
    MessageFile,
    MessageRow,
    find_message_files,
    open_message_file,
)
from hatwisted.pipeline.remote.batchproducer import Outgoing, Producer, SendCounts, can_share
from hatwisted.wire import layout
from hatwisted.wire.properties import encode_properties
from hatwisted.wire.topics import SYSTEM_PREFIX, SYSTEM_TOPICS

Queues = Literal["keep", "any"]
QUEUES: Final[tuple[Queues, ...]] = ("keep", "any")

TELL_EVERY: Final = 256
"""Rows between two reports of progress."""


class ImportStopped(PipelineError):
    """An import couldn't continue; the message says what is stored and how to continue."""


class ImportInterrupted(ImportStopped):
    """The same by Ctrl-C; nothing more is sent then."""


@dataclass(frozen=True, kw_only=True)
class ImportResult:
    """What became of the rows.

    - messages: stored, by status in `statuses` (all but OK: not flushed or replicated as the broker is configured)
    - bytes: of their bodies
    - refused: not stored, the first of them with row (from 0) and reason in `refusals`
    - resent: messages whose first answer was lost, which may be stored twice
    - skipped: rows skipped at the start
    """

    messages: int
    statuses: dict[str, int]
    bytes: int
    refused: int
    refusals: tuple[tuple[int, str], ...]
    resent: int
    skipped: int
    files: tuple[str, ...]
    seconds: float

    @property
    def exit_code(self) -> int:
        """0: all stored, flushed and replicated as configured; 1: not."""
        return 0 if not self.refused and set(self.statuses) <= {"OK"} else 1

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Sending:
    """How rows become messages. topic: instead of the rows' own; queues: `keep` the rows' queue ids or send to
    `any`; keep_born: with the rows' time of birth rather than now (fewer messages then share a request)."""

    topic: str | None = None
    queues: Queues = "keep"
    keep_born: bool = False

    def message(self, number: int, row: MessageRow) -> Outgoing:
        """ValueError if the row can't be sent."""
        topic = self.topic or row.topic
        if not topic:
            raise ValueError("has no topic: name one for all messages")
        if topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX):
            raise ValueError(f"topic {topic} is the brokers' own: export without it, or name another topic")
        given = row.all_properties
        properties = {name: value for name, value in given.items() if name not in layout.BROKERS_PROPERTIES}
        if layout.PROPERTY_REAL_TOPIC in given:
            # It has waited already: again, and it would come late and out of its queue's order.
            properties.pop(layout.PROPERTY_DELAY, None)
        raw = encode_properties(properties)
        if len(raw) > layout.MAX_PROPERTIES_LENGTH:
            raise ValueError(f"{len(raw)} bytes of properties, {layout.MAX_PROPERTIES_LENGTH} at most")
        keep_queue = self.queues == "keep" and row.queue_id is not None
        return Outgoing(
            number=number,
            topic=topic,
            body=row.content,
            properties=raw,
            flag=row.flag,
            reconsume_times=row.reconsume_times,
            born=row.born if self.keep_born else None,
            broker=row.broker if keep_queue else None,
            queue_id=row.queue_id if keep_queue else None,
            alone=not can_share(topic, properties),
        )


def import_messages(
    paths: Sequence[str],
    settings: ClusterSettings,
    *,
    sending: Sending = Sending(),
    form: str | None = None,
    skip: int = 0,
    progress: Callable[[int, int], None] | None = None,
    seconds: Callable[[], float] = time.monotonic,
) -> ImportResult:
    """Send what files hold to a cluster.

    - paths: files, or folders of files
    - settings: of the cluster
    - sending: how, and to which topic
    - form: of all files; None: by their suffixes
    - skip: rows to skip at the start
    - progress: called with (bytes done, bytes of all files)
    - seconds: the clock that durations are taken from

    Raises BadMessageFile, NoRoute, and ImportStopped when it can't continue once it has begun: ImportInterrupted
    in place of a KeyboardInterrupt.
    """
    begun = seconds()
    files = find_message_files(paths, form)
    with BlockingDriver(Links(settings)) as driver:
        producer = Producer(driver)
        _send_all(producer, files, form, sending, skip, progress)
    return _result(producer.counts, files, skip, seconds() - begun)


def _send_all(
    producer: Producer,
    files: Sequence[str],
    form: str | None,
    sending: Sending,
    skip: int,
    progress: Callable[[int, int], None] | None,
) -> None:
    number = skip
    try:
        for file, row in islice(_rows(files, form, progress), skip, None):
            producer.send(_message(sending, number, file, row))
            number += 1
        producer.drain()
    except (PipelineError, ClientError) as error:
        raise _stopped(producer, number, error) from error
    except KeyboardInterrupt:
        if not producer.counts.stored:
            raise
        raise ImportInterrupted(_so_far(producer, number, "interrupted")) from None


def _message(sending: Sending, number: int, file: MessageFile, row: MessageRow) -> Outgoing:
    try:
        return sending.message(number, row)
    except ValueError as error:
        raise BadMessageFile(f"{file.place}: {error}") from None


def _rows(
    files: Sequence[str], form: str | None, progress: Callable[[int, int], None] | None
) -> Iterator[tuple[MessageFile, MessageRow]]:
    total, before = sum(os.stat(path).st_size for path in files), 0
    for path in files:
        file = open_message_file(path, form)
        for count, row in enumerate(file.rows()):
            if progress is not None and count % TELL_EVERY == 0:
                progress(before + file.position, total)
            yield file, row
        before += os.stat(path).st_size
    if progress is not None:
        progress(total, total)


def _stopped(
    producer: Producer, number: int, error: PipelineError | ClientError
) -> PipelineError | ClientError:
    """The error, with what is stored by now and where to continue. Messages before a bad row are sent first."""
    if isinstance(error, BadMessageFile):
        try:
            producer.drain()
        except (PipelineError, ClientError) as other:
            error = other
    return ImportStopped(_so_far(producer, number, error)) if producer.counts.stored else error


def _so_far(producer: Producer, number: int, why: object) -> str:
    """What is stored by now, and where to continue.

    - producer: has sent
    - number: of the next row
    - why: it has ended
    """
    stored, first = producer.counts.stored, producer.first_unsettled()
    resume = number if first is None else min(first, number)
    uncertain = (
        f" (up to {number - resume} of the next messages may be stored already)" if resume < number else ""
    )
    return f"{why}; {stored} messages are stored: continue with --skip {resume}{uncertain}"


def _result(counts: SendCounts, files: Sequence[str], skip: int, seconds: float) -> ImportResult:
    return ImportResult(
        messages=counts.stored,
        statuses=dict(counts.statuses),
        bytes=counts.bytes,
        refused=counts.refused_count,
        refusals=tuple(counts.refused),
        resent=counts.resent,
        skipped=skip,
        files=tuple(files),
        seconds=round(seconds, 3),
    )

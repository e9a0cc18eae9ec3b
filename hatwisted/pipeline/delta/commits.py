"""Commits that happen once, and the fence that keeps an earlier run's from happening late.

A batch goes into the table as one Delta commit: all its files, the application id of the landing with the
batch's number, and the run's claim. Delta's log keeps the last number of every application id, so a batch that
is repeated after a crash is recognised; delta-rs doesn't refuse it by itself, which is why the number is looked
up first. A commit is made right after the version that was looked at, or not at all: whatever commit comes in
between, the look is repeated.

A run begins with a claim: a commit without files that raises the epoch of each of its brokers. A commit names
the epochs it was made under, so whatever a killed run's executors still do, it is refused from then on. That is
what makes removing their files safe (orphans.py), and two landings of one broker into one table impossible. A
lock file alone was rejected: Spark's JVM outlives its killed driver program by a moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from random import random
from time import sleep
from typing import Any, Final, TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, CommitProperties, Transaction

from hatwisted.pipeline.delta.datafiles import DataFile
from hatwisted.pipeline.delta.deltatable import open_table
from hatwisted.pipeline.delta.errors import LAND_AGAIN, ByQueue, Fenced, Unclaimed, WrongTable
from hatwisted.pipeline.delta.features import check_features
from hatwisted.pipeline.delta.names import Writer
from hatwisted.pipeline.delta.notes import NOTE, Notes
from hatwisted.pipeline.delta.queuetails import (
    BY_QUEUE,
    QueueTails,
    landed_by_queue,
    landed_queues,
    noted_queues,
    queue_note,
)
from hatwisted.pipeline.delta.tails import Tail, further, landed_tails, noted_tails, tails_note
from hatwisted.pipeline.errors import said

Made = TypeVar("Made")

FENCE: Final = "hatwisted.land/broker/"
"""Application ids of the epochs, followed by a broker's name."""
TRIES: Final = 40
"""Of a commit: each loses to any other writer's that comes between look and leap."""
FIRST_PAUSE: Final = 0.01
LONGEST_PAUSE: Final = 1.0
"""Seconds, up to which one waits before the next try; twice as long each time."""
SETTLED: Final = "settled"
"""Within a claim's note."""
DEAD_LETTERS: Final = "dead_letters"
"""Within the note of a batch that has some: their counts by reason, and their files (deadletters.py)."""


@dataclass(frozen=True)
class Claim:
    """The right of one run to land these brokers' logs; it ends when another run claims one of them."""

    writer: Writer
    epoch: int
    by_queue: bool = False
    """Is a cluster landed, queue by queue? Then commits say where each one ends (queuetails.py)."""

    def transactions(self) -> list[Transaction]:
        return [Transaction(FENCE + broker, self.epoch) for broker in self.writer.brokers]

    @property
    def note(self) -> dict[str, Any]:
        """By which its commit is known."""
        return {"claim": self.epoch, "brokers": list(self.writer.brokers)}

    def check(self, table: DeltaTable, path: str) -> None:
        """Raises Fenced if a later run claimed a broker."""
        for broker in self.writer.brokers:
            found = table.transaction_version(FENCE + broker)
            if found != self.epoch:
                raise Fenced(
                    f"{path}: run {found} of broker {broker} took over from run {self.epoch};"
                    " stop one of the two landings"
                )

    def check_brokers(self, brokers: Iterable[str | None], path: str) -> None:
        """Raises Unclaimed if there are rows of a broker that isn't the claim's.

        - brokers: of some rows; None: of none
        - path: of the table
        """
        for broker in sorted({each for each in brokers if each is not None} - {*self.writer.brokers}):
            raise Unclaimed(f"{path}: broker {broker} appeared after the landing began; start it again")


@dataclass(frozen=True)
class Brought:
    """What a batch says of itself besides its rows.

    - queues: where they end, for a claim by queue
    - note: more
    - tails: of the brokers, for a claim of their logs
    """

    queues: QueueTails = field(default_factory=dict)
    note: Mapping[str, Any] = field(default_factory=dict)
    tails: Mapping[str, Tail] = field(default_factory=dict)


def claim(
    path: str,
    writer: Writer,
    by_queue: bool = False,
    settled: int | None = None,
    held: Claim | None = None,
) -> Claim:
    """Take over the landing of the writer's brokers from every earlier run. Raises ByQueue if a log is to be
    landed of which the table has some queues.

    - path: of the table
    - writer: the brokers
    - by_queue: will commits say where each queue ends?
    - settled: the version up to which no commit's dead letters are missing (deadletters.py)
    - held: a claim of some of the brokers that this run has had so far; Fenced if it has ended
    """
    more: dict[str, Any] = {BY_QUEUE: by_queue} | ({} if settled is None else {SETTLED: settled})

    def attempt(notes: Notes) -> Claim:
        table = notes.table
        if held is not None:
            held.check(table, path)
        for broker in sorted(() if by_queue else landed_by_queue(notes, writer.brokers)):
            raise ByQueue(
                f"{path}: broker {broker} was landed from a cluster, queue by queue, so its store can't say what"
                " the table lacks: land the cluster, or the store into another table"
            )
        epochs = [table.transaction_version(FENCE + broker) or 0 for broker in writer.brokers]
        found = Claim(writer, max(epochs, default=0) + 1, by_queue)
        tails = noted_tails(notes)
        if not by_queue:  # from here on it's said, also of rows of which nobody has said it
            tails |= landed_tails(path, writer.brokers, notes)
        _commit(table, [], found.transactions(), found.note | more | tails_note(tails))
        return found

    return against_others(path, attempt, "no claim")


def widened(path: str, held: Claim, brokers: Iterable[str]) -> Claim:
    """A claim of these brokers as well; the same one if it has them all. Raises Fenced if it has ended.

    - path: of the table
    - held: the claim
    - brokers: whose logs are read now
    """
    writer = Writer.of([*held.writer.brokers, *brokers])
    if writer == held.writer:
        return held
    return claim(path, writer, held.by_queue, held=held)


def commit_files(
    path: str,
    files: Sequence[DataFile],
    *,
    application: str,
    number: int,
    held: Claim | None,
    brought: Brought | None = None,
) -> bool:
    """Add a batch of files to the table; False if that batch is there already. Raises Fenced if the claim has
    ended.

    - path: of the table
    - files: finished ones
    - application: who writes, across restarts
    - number: of the batch
    - held: the claim
    - brought: what it says of itself besides
    """
    brought = brought or Brought()

    def attempt(notes: Notes) -> bool:
        table = notes.table
        if held is not None:
            held.check(table, path)
        last = table.transaction_version(application)
        if last is not None and last >= number:
            return False
        check_features(table, path)
        if held is not None and notes.was_taken_back(application, held.note):
            raise WrongTable(
                f"{path}: was restored to an earlier version while rows were written (its version"
                f" {notes.restored_by} did that): {LAND_AGAIN}"
            )
        transactions = [Transaction(application, number), *(held.transactions() if held else [])]
        note = _note(files, application, number) | dict(brought.note)
        if held is not None:
            note["brokers"] = list(held.writer.brokers)
            note |= tails_note(_tails(notes, held, brought))
            if held.by_queue:
                note |= queue_note(noted_queues(notes, held.writer.brokers), brought.queues)
        _commit(table, [_add(file) for file in files], transactions, note)
        return True

    return against_others(path, attempt, f"batch {number} wasn't committed")


def _tails(notes: Notes, held: Claim, brought: Brought) -> dict[str, Tail]:
    """Where brokers' rows end with a batch; of those that come queue by queue they end nowhere."""
    before = noted_tails(notes)
    if held.by_queue:
        return {broker: tail for broker, tail in before.items() if broker not in held.writer.brokers}
    return further(before, brought.tails, "physical_offset")


def note_queues(path: str, held: Claim) -> QueueTails:
    """Where each queue of the claim's brokers ends, and a commit that says so, unless it's said already."""

    def attempt(notes: Notes) -> QueueTails:
        held.check(notes.table, path)
        brokers = held.writer.brokers
        queues = landed_queues(notes, brokers)
        if not noted_queues(notes, brokers)[1]:
            return queues
        note = queue_note((queues, frozenset()), {}) | {"brokers": list(brokers)}
        note |= tails_note(noted_tails(notes))
        _commit(notes.table, [], held.transactions(), note)
        return queues

    return against_others(path, attempt, "where its queues end wasn't noted")


def against_others(path: str, attempt: Callable[[Notes], Made], failure: str) -> Made:
    """What comes of the first attempt that no other writer's commit comes before.

    - path: of the table
    - attempt: looks at the table as it is, and commits right after that version; CommitFailedError if another
      commit is there
    - failure: what to say if it's so each time
    """
    for number in range(TRIES):
        try:
            return attempt(Notes(path, open_table(path)))
        except CommitFailedError as error:
            refusal = error
        sleep(random() * min(LONGEST_PAUSE, FIRST_PAUSE * 2**number))
    raise WrongTable(
        f"{path}: {failure} in {TRIES} attempts: {said(refusal)}; try again when fewer writers are active"
    )


def _commit(
    table: DeltaTable, adds: Sequence[AddAction], transactions: list[Transaction], note: Mapping[str, Any]
) -> None:
    """Right after the version that was looked at. delta-rs would also take it after others' commits: what it says
    of their brokers' ends wasn't true then, and a restored version might lack what it goes on after."""
    properties = CommitProperties(
        app_transactions=transactions, custom_metadata={NOTE: dict(note)}, max_commit_retries=0
    )
    columns = table.metadata().partition_columns
    table.create_write_transaction([*adds], "append", table.schema(), columns, commit_properties=properties)


def _add(file: DataFile) -> AddAction:
    return AddAction(file.path, file.size, dict(file.partition), file.modified, True, file.stats)


def _note(files: Sequence[DataFile], application: str, number: int) -> dict[str, Any]:
    return {
        "application": application,
        "batch": number,
        "rows": sum(file.rows for file in files),
        "files": len(files),
        "bytes": sum(file.size for file in files),
        "log_bytes": sum(file.log_bytes for file in files),
    }


@dataclass(frozen=True)
class Landed:
    """What a stretch of a table's versions brought: sums over the commits of landings."""

    rows: int = 0
    files: int = 0
    bytes: int = 0
    log_bytes: int = 0
    versions: tuple[int, ...] = ()
    dead_letters: Mapping[str, int] = field(default_factory=dict)


def landed_since(path: str, version: int, application: str) -> Landed:
    """Sums over batches.

    - path: of the table
    - version: only those of later versions
    - application: only those of this one

    Raises WrongTable if somebody has written what can't be read.
    """
    fresh = takewhile(lambda note: note.version > version, Notes(path).all())
    ours = [(note.version, note.said) for note in fresh if note.said.get("application") == application]
    try:
        rows, files, size, log_bytes = (
            sum(int(note[name]) for _, note in ours) for name in ("rows", "files", "bytes", "log_bytes")
        )
        dead = Counter[str]()
        for _, note in ours:
            dead.update({str(why): int(count) for why, count in _dead(note).items()})
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise WrongTable(
            f"{path}: a commit of {application} doesn't say what it brought: {error!r}"
        ) from None
    versions = tuple(sorted(number for number, _ in ours))
    return Landed(rows, files, size, log_bytes, versions, dict(sorted(dead.items())))


def _dead(note: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = note[DEAD_LETTERS]["counts"] if DEAD_LETTERS in note else {}
    return found

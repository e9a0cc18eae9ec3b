"""Commits that happen once, and the fence that keeps an earlier run's from happening late.

A batch goes into the table as one Delta commit: all its files, the application id of the landing with the
batch's number, and the run's claim. Delta's log keeps the last number of every application id, so a batch that
is repeated after a crash is recognised; delta-rs doesn't refuse it by itself, which is why the number is looked
up first. A commit of the same application between check and commit fails in delta-rs as a concurrent transaction,
and the check is repeated.

A run begins with a claim: a commit without files that raises the epoch of each of its brokers. A commit names
the epochs it was made under, so whatever a killed run's executors still do, it is refused from then on. That is
what makes removing their files safe (orphans.py), and two landings of one broker into one table impossible. A
lock file alone was rejected: Spark's JVM outlives its killed driver program by a moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, CommitProperties, Transaction

from hatwisted.pipeline.delta.datafiles import DataFile
from hatwisted.pipeline.delta.deltatable import ATTEMPTS, one_line, open_table
from hatwisted.pipeline.delta.errors import ByQueue, Fenced, Unclaimed, WrongTable
from hatwisted.pipeline.delta.features import check_features
from hatwisted.pipeline.delta.names import Writer
from hatwisted.pipeline.delta.queuetails import (
    BY_QUEUE,
    NOTE,
    QueueTails,
    landed_by_queue,
    landed_queues,
    noted_queues,
    queue_note,
    was_taken_back,
)
from hatwisted.pipeline.delta.tails import Tail, further, noted_tails, tails_note

FENCE: Final = "hatwisted.land/broker/"
"""Application ids of the epochs, followed by a broker's name."""
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
    refusal = None
    more: dict[str, Any] = {BY_QUEUE: by_queue} | ({} if settled is None else {SETTLED: settled})
    for _ in range(ATTEMPTS):
        table = open_table(path)
        if held is not None:
            held.check(table, path)
        for broker in sorted(() if by_queue else landed_by_queue(table, writer.brokers)):
            raise ByQueue(
                f"{path}: broker {broker} was landed from a cluster, queue by queue, so its store can't say what"
                " the table lacks: land the cluster, or the store into another table"
            )
        epochs = [table.transaction_version(FENCE + broker) or 0 for broker in writer.brokers]
        found = Claim(writer, max(epochs, default=0) + 1, by_queue)
        try:
            note = found.note | more | tails_note(noted_tails(table))
            _commit(table, [], found.transactions(), note)
        except CommitFailedError as error:
            refusal = error
            continue
        return found
    raise WrongTable(
        f"{path}: no claim after {ATTEMPTS} attempts: {refusal}; try again when fewer writers are active"
    )


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
    refusal, brought = None, brought or Brought()
    for _ in range(ATTEMPTS):
        table = open_table(path)
        if held is not None:
            held.check(table, path)
        last = table.transaction_version(application)
        if last is not None and last >= number:
            return False
        check_features(table, path)
        if held is not None and was_taken_back(table, application, held.note):
            raise WrongTable(
                f"{path}: was restored to an earlier version while rows were written: start the landing again"
            )
        transactions = [Transaction(application, number), *(held.transactions() if held else [])]
        note = _note(files, application, number) | dict(brought.note)
        if held is not None:
            note["brokers"] = list(held.writer.brokers)
            note |= tails_note(_tails(table, held, brought))
            if held.by_queue:
                note |= queue_note(noted_queues(table, held.writer.brokers), brought.queues)
        try:
            _commit(table, [_add(file) for file in files], transactions, note)
        except CommitFailedError as error:
            refusal = error
            continue
        return True
    raise WrongTable(f"{path}: batch {number} wasn't committed in {ATTEMPTS} attempts: {refusal}")


def _tails(table: DeltaTable, held: Claim, brought: Brought) -> dict[str, Tail]:
    """Where brokers' rows end with a batch; of those that come queue by queue they end nowhere."""
    before = noted_tails(table)
    if held.by_queue:
        return {broker: tail for broker, tail in before.items() if broker not in held.writer.brokers}
    return further(before, brought.tails)


def note_queues(path: str, held: Claim) -> QueueTails:
    """Where each queue of the claim's brokers ends, and a commit that says so, unless it's said already."""
    refusal = None
    for _ in range(ATTEMPTS):
        table = open_table(path)
        held.check(table, path)
        brokers = held.writer.brokers
        queues = landed_queues(path, table, brokers)
        if not noted_queues(table, brokers)[1]:
            return queues
        note = queue_note((queues, frozenset()), {}) | {"brokers": list(brokers)}
        note |= tails_note(_tails(table, held, Brought()))
        try:
            _commit(table, [], held.transactions(), note)
        except CommitFailedError as error:
            refusal = error
            continue
        return queues
    raise WrongTable(f"{path}: where its queues end wasn't noted in {ATTEMPTS} attempts: {refusal}")


def _commit(
    table: DeltaTable, adds: Sequence[AddAction], transactions: list[Transaction], note: Mapping[str, Any]
) -> None:
    properties = CommitProperties(app_transactions=transactions, custom_metadata={NOTE: dict(note)})
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
    table = open_table(path)
    fresh = table.version() - version
    if fresh <= 0:
        return Landed()
    try:
        history = table.history(fresh)
    except DeltaError as error:
        raise WrongTable(f"{path}: its history can't be read: {one_line(error)}") from error
    ours = [
        (entry["version"], note)
        for entry in history
        if isinstance(note := entry.get(NOTE), dict) and note.get("application") == application
    ]
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

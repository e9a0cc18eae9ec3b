"""Snapshots that happen once: what one says of the logs in it, and the fence that keeps an earlier run's from
happening late.

Each snapshot of a landing says in its summary where every broker's rows end:

    hatwisted.tail.broker-a   {"physical_offset": 1048576, "size": 212, "store_timestamp": 1763600000000000, ...}

The snapshots after it carry that on. A batch is committed on condition that the table still ends where the batch
begins, and that the snapshot this was read from is still the newest: the catalog checks the latter, in the same
step that makes the new one. So a batch that is repeated after a crash, or after an answer that was lost, finds
itself in the table. A number of the batch alone wouldn't do: whoever rolls the table back to an older snapshot
would then lose what came after it for good.

pyiceberg repeats an append by itself if another commit came between, on top of that one and without asking
anybody. Here it must not: the other one may have been the same batch (`OnceTransaction`).

A run begins with a claim: its name as a property of the table for each of its brokers, and a snapshot without
files, without which a commit that was checked just before the claim would still be taken.

Where neither the newest snapshot nor any before it says where a broker ends (expired, or made by other tools), the
rows themselves do.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import EqualTo

from hatwisted.pipeline.delta.errors import LAND_AGAIN, ByQueue, Fenced, Unclaimed, WrongTable
from hatwisted.pipeline.delta.tails import COLUMNS, Tail, plain_rows
from hatwisted.pipeline.iceberg.catalogs import plainly
from hatwisted.pipeline.iceberg.fileids import RUN_LETTERS
from hatwisted.pipeline.iceberg.oncetransaction import OnceTransaction

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.snapshots import Snapshot

ATTEMPTS: Final = 10
"""Tries against other writers; each loses only if another one's commit came between read and write."""
NOTE: Final = "hatwisted."
CLAIM: Final = "hatwisted.claim"
"""Key of the summary of a claim: the run that makes it."""
TAIL: Final = "hatwisted.tail."
"""Keys of a snapshot's summary, followed by a broker's name."""
NO_TAILS: Final = "hatwisted.queues-only"
"""Key of a snapshot's summary: no broker's rows end at one place of its log, as each came queue by queue."""
SETTLED: Final = "hatwisted.settled"
"""Key of the summary of a claim: the number of a snapshot."""
RUN: Final = "hatwisted.run."
"""Properties of the table, followed by a broker's name: the run that lands it."""
BY_QUEUE: Final = "hatwisted.byqueue."
"""The same: a run has landed queues of it, from a cluster."""


@dataclass(frozen=True)
class IcebergClaim:
    """The right of one run to land these brokers' logs; it ends when another run claims one of them."""

    run: str
    brokers: tuple[str, ...]
    ended: frozenset[str] = frozenset()
    """Runs that it ended."""

    def check(self, table: Table, name: str) -> None:
        """Raises Fenced if a later run claimed a broker."""
        for broker in self.brokers:
            found = table.properties.get(RUN + broker)
            if found != self.run:
                raise Fenced(
                    f"{name}: run {found} of broker {broker} took over from run {self.run};"
                    " stop one of the two landings"
                )

    def check_brokers(self, brokers: Iterable[str], name: str) -> None:
        """Raises Unclaimed if there are rows of a broker that isn't the claim's.

        - brokers: of some rows
        - name: of the table
        """
        for broker in sorted({*brokers} - {*self.brokers}):
            raise Unclaimed(f"{name}: broker {broker} appeared after the landing began; start it again")


def claim(
    table: Table,
    name: str,
    brokers: Iterable[str],
    held: IcebergClaim | None = None,
    by_queue: bool = False,
    settled: int | None = None,
) -> IcebergClaim:
    """Take over the landing of brokers from every earlier run. Raises ByQueue if a log is to be landed of which
    the table has some queues.

    - table: which
    - name: of the table, for errors
    - brokers: whose logs
    - held: a claim of some of them that this run has had so far; Fenced if it has ended
    - by_queue: are queues landed (queuenotes.py)?
    - settled: the snapshot up to which no batch's dead letters are missing (deadletters.py)
    """
    wanted, run = tuple(sorted(set(brokers))), uuid.uuid4().hex[:RUN_LETTERS]
    for _ in range(ATTEMPTS):
        with plainly(name):
            table.refresh()
        if held is not None:
            held.check(table, name)
        if not by_queue:
            check_whole(table, name, wanted)
        before = {table.properties.get(RUN + broker) for broker in wanted} - {None}
        found = IcebergClaim(run, wanted, frozenset(map(str, before)))
        change = OnceTransaction(table)
        marks = {BY_QUEUE + broker: str(by_queue).lower() for broker in wanted if by_queue}
        change.set_properties({RUN + broker: found.run for broker in found.brokers} | marks)
        looked = {} if settled is None else {SETTLED: str(settled)}
        note = {CLAIM: found.run} | looked | noted(table)
        try:
            with plainly(name):
                _commit(change, [], note)
        except _Lost:
            continue
        return found
    raise WrongTable(f"{name}: no claim after {ATTEMPTS} attempts; try again when fewer writers are active")


def check_whole(table: Table, name: str, brokers: Iterable[str]) -> None:
    """Raises ByQueue if the last rows of a broker came queue by queue: they don't say what lies before them.

    - table: as it was loaded
    - name: of the table, for errors
    - brokers: whose stores are to be landed
    """
    note = noted(table)
    for broker in brokers:
        if table.properties.get(BY_QUEUE + broker) != "true" or TAIL + broker in note:
            continue
        with plainly(name):
            last = _last_row(table, broker)
        if last is not None:
            raise ByQueue(
                f"{name}: broker {broker} was landed from a cluster, queue by queue, so its store can't say what"
                " the table lacks: land the cluster, or the store into another table"
            )


def landed_tails(table: Table, name: str, brokers: Iterable[str]) -> dict[str, Tail]:
    """The tail of each broker that has rows in the table, as it was loaded.

    - table: which
    - name: of the table, for errors
    - brokers: whose
    """
    note = noted(table)
    found = {}
    for broker in brokers:
        text = note.get(TAIL + broker)
        with plainly(name):
            tail = _last_row(table, broker) if text is None else Tail(broker, **json.loads(text))
        if tail is not None:
            found[broker] = tail
    return found


def noted(table: Table) -> dict[str, str]:
    """Where brokers' rows end, as the newest snapshot says it that says so; as summaries have it."""
    for snapshot in line(table):
        summary = summary_of(snapshot)
        found = {key: value for key, value in summary.items() if key.startswith(TAIL)}
        if found or NO_TAILS in summary:
            return found
    return {}


def tails_noted(table: Table, tails: Mapping[str, Tail]) -> dict[str, str]:
    """The same for a snapshot to come, with these brokers' new ones.

    - table: as it was loaded
    - tails: by broker
    """
    return noted(table) | {TAIL + broker: _text(tail) for broker, tail in tails.items()}


def line(table: Table) -> Iterator[Snapshot]:
    """The newest snapshot, the one before it, and so on."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        before = snapshot.parent_snapshot_id
        snapshot = None if before is None else table.snapshot_by_id(before)


def append(
    table: Table,
    name: str,
    files: Sequence[DataFile],
    *,
    held: IcebergClaim,
    moved: Mapping[str, tuple[Tail | None, Tail]],
    note: Mapping[str, str],
) -> bool:
    """Add a batch of files to the table; False if they are there already. Raises Fenced if the claim has ended.

    - table: which
    - name: of the table, for errors
    - files: finished ones
    - held: the claim
    - moved: the tails of the batch's brokers, before and after it
    - note: what the snapshot says of it besides
    """

    def checked() -> dict[str, str] | None:
        there = landed_tails(table, name, moved)
        if all(there.get(broker) == after for broker, (_, after) in moved.items()):
            return None
        for broker, (before, _) in moved.items():
            if there.get(broker) != before:
                raise WrongTable(
                    f"{name}: the rows of broker {broker} end elsewhere than when they were read, as if the table"
                    f" was rolled back: {LAND_AGAIN}"
                )
        return tails_noted(table, {broker: after for broker, (_, after) in moved.items()})

    return append_once(table, name, files, held=held, checked=checked, note=note)


def append_once(
    table: Table,
    name: str,
    files: Sequence[DataFile],
    *,
    held: IcebergClaim | None,
    checked: Callable[[], dict[str, str] | None],
    note: Mapping[str, str],
) -> bool:
    """Add files to the table as it was checked; False if they are there already. Raises Fenced if the claim has
    ended.

    - table: which
    - name: of the table, for errors
    - files: finished ones
    - held: the claim; None: it takes none
    - checked: looks at the table as it is now; what the snapshot has to carry on, or None if the files are there
    - note: what it says besides
    """
    for _ in range(ATTEMPTS):
        with plainly(name):
            table.refresh()
        if held is not None:
            held.check(table, name)
        carried = checked()
        if carried is None:
            return False
        if any(file.spec_id != table.spec().spec_id for file in files):
            raise WrongTable(
                f"{name}: was partitioned otherwise when the rows were written: start the landing again"
            )
        try:
            with plainly(name):
                _commit(OnceTransaction(table), files, carried | dict(note))
        except _Lost:
            continue
        return True
    raise WrongTable(f"{name}: a batch wasn't committed in {ATTEMPTS} attempts; try again")


def replace_files(
    table: Table, name: str, old: Sequence[DataFile], new: Sequence[DataFile], note: Mapping[str, str]
) -> bool:
    """Files with the same rows for others; False if another commit came between.

    - table: which, as it was when the old files were read
    - name: of the table, for errors
    - old: files of its newest snapshot
    - new: finished ones
    - note: what the snapshot says besides
    """
    return swap_files(table, name, old, new, noted(table) | {f"{NOTE}compacted": str(len(old)), **note})


def swap_files(
    table: Table, name: str, old: Sequence[DataFile], new: Sequence[DataFile], note: Mapping[str, str]
) -> bool:
    """Files of other rows for others; False if another commit came between.

    - table: which, as it was when the old files were read
    - name: of the table, for errors
    - old: files of its newest snapshot; none
    - new: finished ones; none
    - note: what the snapshot says
    """
    change = OnceTransaction(table)
    try:
        with plainly(name), _losing():
            if old:
                with change.update_snapshot(dict(note)).overwrite() as swap:
                    for file in old:
                        swap.delete_data_file(file)
                    for file in new:
                        swap.append_data_file(file)
                change.commit_transaction()
            else:
                _commit(change, new, note)
    except _Lost:
        return False
    return True


def set_properties(table: Table, name: str, properties: Mapping[str, str]) -> bool:
    """Set properties of a table as it was loaded; False if another commit came between.

    - table: which
    - name: of the table, for errors
    - properties: by name
    """
    change = OnceTransaction(table)
    change.set_properties(dict(properties))
    try:
        with plainly(name):
            _commit(change, [], noted(table))
    except _Lost:
        return False
    return True


class _Lost(Exception):
    """Another commit came between."""


class _losing:
    """CommitFailedException as _Lost, and the error that a file to be replaced isn't there any more."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (CommitFailedException, ValidationException)):
            raise _Lost from error


def _commit(change: Transaction, files: Sequence[DataFile], note: Mapping[str, str]) -> None:
    """Raises _Lost."""
    with _losing():
        with change.update_snapshot(dict(note)).fast_append() as adding:
            for file in files:
                adding.append_data_file(file)
        change.commit_transaction()


def summary_of(snapshot: Snapshot) -> Mapping[str, str]:
    """What it says besides what Iceberg knows."""
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def _text(tail: Tail) -> str:
    found = asdict(tail)
    del found["broker"]
    return json.dumps(found)


def _last_row(table: Table, broker: str) -> Tail | None:
    """The row with the broker's highest offset; reads a few columns of the files that may have rows of it."""
    there = [column for column in COLUMNS if column in table.schema().column_names]
    if not {"broker", "physical_offset", "size"} <= set(there) or table.current_snapshot() is None:
        return None
    best: Tail | None = None
    mine: Any = EqualTo("broker", broker)  # type: ignore[call-arg, arg-type]  # made by hand in pyiceberg
    for batch in table.scan(mine, tuple(there)).to_arrow_batch_reader():
        if not batch.num_rows:
            continue
        last = pc.index(batch["physical_offset"], pc.max(batch["physical_offset"])).as_py()
        record = plain_rows(pa.Table.from_batches([batch]).slice(last, 1)).to_pylist()[0]
        if best is None or record["physical_offset"] > best.physical_offset:
            best = Tail(*(record.get(column) for column in COLUMNS))
    return best

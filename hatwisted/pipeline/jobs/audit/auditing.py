"""Are the copies of a broker's log the same, and intact? Master, slaves and landed tables, compared by Spark
tasks.

The log is cut into parts of `split_bytes`; each task reads its part of every copy (`rangecompare`), so nothing
is shuffled, and only findings are returned. Cuts also fall where copies begin and end: between two such
offsets the same copies hold the range, and the first of them is the reference that the others are compared
with.

Stores needn't begin or end together. What only some retain isn't a difference, only reported; a copy that ends
earlier lags or has lost something, and an audit can't tell which: it counts, unless `allow_lag`. A table has no
retention: rows that it lacks count from the log's begin on, or from where the audit is told to begin. Where one
store ends before the next one begins, nothing can be compared: that's no agreement, and counts as damage.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.audit.auditresult import (
    MAX_LISTED,
    AuditResult,
    Copy,
    DamagedRange,
    KeptDamage,
    RangeDifference,
    queue_breaks,
)
from hatwisted.pipeline.jobs.audit.audittasks import Copies, PartWork
from hatwisted.pipeline.jobs.audit.tablecopy import TableCopy
from hatwisted.pipeline.jobs.rangecompare import (
    BadRange,
    Difference,
    Kind,
    Part,
    PartFindings,
)
from hatwisted.pipeline.jobs.storecopy import StoreCopy
from hatwisted.pipeline.jobs.workertasks import Progress, Tasks, as_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLIT_BYTES: Final = 128 << 20
"""Bytes of log per task: some 100 ms of work, compared with some 10 ms of overhead."""

EVERY_STORE: Final = "every store"
NOWHERE: Final = "none of the stores has this range: one ends before the next one begins"


@dataclass(frozen=True, slots=True)
class Span:
    """What is compared: records of [begin, end); None: as far as there are any."""

    begin: int | None = None
    end: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditOptions:
    """What to compare, and how.

    - table_broker: whose rows of the tables; needed only if they have several brokers'
    - span: physical offsets to compare; by default all that the copies hold
    - allow_lag: a copy that ends earlier isn't different
    - check_crc: also compute the bodies' checksums, which finds damage that all copies share
    - split_bytes: of a part, about
    """

    table_broker: str | None = None
    span: Span = Span()
    allow_lag: bool = False
    check_crc: bool = True
    split_bytes: int = SPLIT_BYTES


def audit(
    spark: SparkSession | Tasks,
    stores: Sequence[str],
    tables: Sequence[str] = (),
    options: AuditOptions = AuditOptions(),
    *,
    progress: Progress | None = None,
    seconds: Callable[[], float] = time.monotonic,
) -> AuditResult:
    """Compare stores of one broker, and tables that it was landed in. The first store is the reference, where
    it can be.

    - spark: the session, or other Tasks
    - stores: folders
    - tables: landed tables
    - options: what to compare, and how
    - progress: called with (bytes done, bytes in all)
    - seconds: the clock that durations are taken from

    Raises PipelineError for folders that aren't stores of one log, or aren't tables.
    """
    started = seconds()
    copies = _open(stores, tables, options.table_broker)
    parts = plan_parts(copies, options.span, options.split_bytes)
    work = [PartWork(part, copies, options.check_crc) for part in parts]
    total = sum(each.part.end - each.part.begin for each in work)
    findings = as_tasks(spark).run(work, PartWork.run, progress, total)
    summary = _Summary((*copies.stores, *copies.tables), options.allow_lag, gaps(copies.stores, options.span))
    return summary.result(findings, seconds() - started)


def _open(stores: Sequence[str], tables: Sequence[str], table_broker: str | None) -> Copies:
    given = [*stores, *tables]
    if not stores or len(given) < 2 or len(set(given)) < len(given):
        raise PipelineError(
            "an audit compares at least two different copies, one of them a store; given: " + ", ".join(given)
        )
    opened = [StoreCopy.open(path) for path in stores]
    for copy in opened[1:]:
        if copy.file_size != opened[0].file_size:
            raise PipelineError(
                f"{opened[0].name} has log files of {opened[0].file_size} bytes, {copy.name} of "
                f"{copy.file_size}: these are stores of different brokers"
            )
    return Copies(tuple(opened), tuple(TableCopy.open(path, table_broker) for path in tables))


def plan_parts(copies: Copies, span: Span, split_bytes: int) -> list[Part]:
    """The parts that are compared, in order of their offsets.

    - copies: what is compared
    - span: physical offsets
    - split_bytes: of a part, about
    """
    stores = copies.stores
    extents = [(copy.min_offset, copy.end) for copy in stores]
    extents += [(copy.min_offset, copy.end) for copy in copies.tables]
    begin = max(min(copy.min_offset for copy in stores), span.begin or 0)
    end = max(each for _, each in extents)
    end = end if span.end is None else min(end, span.end)
    marks = {each for extent in extents for each in extent if begin < each < end}
    cuts = sorted({begin, *marks, *range(begin - begin % split_bytes + split_bytes, end, split_bytes), end})
    if begin >= end and span != Span():
        held = f"[{min(low for low, _ in extents)}, {max(high for _, high in extents)})"
        raise PipelineError(f"nothing to compare from {begin} to {end}: the copies hold {held}")
    parts = []
    for low, high in pairwise(cuts):
        holders = [number for number, copy in enumerate(stores) if copy.min_offset <= low]
        reference = next((number for number in holders if stores[number].end >= high), None)
        others = tuple(number for number in holders if number != reference)
        if reference is not None:
            parts.append(Part(low, high, stores[reference].end, reference, others))
        elif low >= max(copy.end for copy in stores):
            # Only tables have rows here.
            parts.append(Part(low, high, high, None, ()))
    return parts


def gaps(stores: Sequence[StoreCopy], span: Span) -> list[tuple[int, int]]:
    """The ranges between two stores' records that no store has.

    - stores: of one log
    - span: physical offsets that are compared
    """
    held = sorted((store.min_offset, store.end) for store in stores if store.min_offset < store.end)
    low, high = span.begin or 0, held[-1][1] if held and span.end is None else span.end or 0
    found = []
    for reached, (begin, _) in zip(accumulate((end for _, end in held), max), held[1:], strict=False):
        first, last = max(reached, low), min(begin, high)
        if first < last:
            found.append((first, last))
    return found


def _joined(findings: Iterable[PartFindings]) -> PartFindings:
    """All findings as those of one part."""
    parts = [part for part in findings if part.begin < part.end]
    whole = PartFindings(parts[0].begin if parts else 0, parts[-1].end if parts else 0)
    for part in parts:
        whole.add_part(part)
    return whole


class _Summary:
    """Turns what the tasks found into a result."""

    def __init__(
        self, copies: Sequence[StoreCopy | TableCopy], allow_lag: bool, missing: Iterable[tuple[int, int]]
    ) -> None:
        self._copies = copies
        self._allow_lag = allow_lag
        self._missing = [DamagedRange(EVERY_STORE, *each, NOWHERE, False) for each in missing]

    def result(self, findings: Iterable[PartFindings], seconds: float) -> AuditResult:
        """The whole of it; findings in order of their parts."""
        whole = _joined(findings)
        found = [self._named(difference) for difference in whole.differences]
        counted = [each for each in found if each.kind.counts and not (each.lag and self._allow_lag)]
        damaged = [*self._missing, *(self._damaged(bad, whole.differences) for bad in whole.bad)]
        damaged += [flaw for copy in self._copies if isinstance(copy, TableCopy) for flaw in _flaws(copy)]
        breaks = sorted(queue_breaks(whole.queues.by_queue), key=lambda each: not each.counts)
        # Of those that the tasks didn't list nothing is known but their number.
        listed = sum(each.kind.counts for each in whole.differences)
        kept = [KeptDamage(self._copies[row.copy].name, row.begin, row.end) for row in whole.damage_rows]
        sound = not damaged and not any(each.counts for each in breaks)
        starts = [each.begin for each in counted] + [each.begin for each in damaged]
        return AuditResult(
            identical=sound and not counted,
            begin=whole.begin,
            end=whole.end,
            identical_up_to=min(starts, default=whole.end),
            copies=tuple(map(_described, self._copies)),
            records=whole.records,
            bytes_read=whole.bytes_read,
            queues=len(whole.queues.by_queue),
            seconds=seconds,
            differences=tuple(counted[:MAX_LISTED]),
            unlisted=_beyond(counted) + sum(whole.differing.values()) - listed,
            damaged=tuple(damaged[:MAX_LISTED]),
            unlisted_damaged=_beyond(damaged),
            breaks=tuple(breaks[:MAX_LISTED]),
            unlisted_breaks=sum(each.counts for each in breaks[MAX_LISTED:]),
            damage_rows=tuple(kept[:MAX_LISTED]),
            unlisted_damage_rows=_beyond(kept) + whole.unlisted_damage_rows,
            notes=(*self._notes(found), *self._without_row(whole)),
        )

    def _named(self, found: Difference) -> RangeDifference:
        """With names for numbers, and seen from the first copy where that is the one that ends earlier."""
        lag = self._is_lag(found)
        kind, reference, copy = found.kind, found.reference, found.copy
        if lag and kind is Kind.MISSING and copy < reference:
            kind, reference, copy = Kind.EXTRA, copy, reference
        return RangeDifference(
            reference=self._copies[reference].name,
            copy=self._copies[copy].name,
            kind=kind,
            begin=found.begin,
            end=found.end,
            records=found.records,
            first_byte=found.first_byte,
            record=found.record,
            field=found.field,
            position=found.position,
            lag=lag,
        )

    def _is_lag(self, found: Difference) -> bool:
        """Does the copy only end earlier? A last record that is still being written begins as the reference's
        does; other bytes in its place are damage."""
        copy = self._copies[found.copy]
        if found.begin < copy.end:
            return False
        written = copy.end + (copy.torn_bytes if isinstance(copy, StoreCopy) else 0)
        return found.kind is not Kind.DAMAGED or found.first_byte >= written

    def _damaged(self, bad: BadRange, differences: Iterable[Difference]) -> DamagedRange:
        differs = any(each.begin < bad.end and bad.begin < each.end for each in differences)
        return DamagedRange(self._copies[bad.copy].name, bad.begin, bad.end, bad.reason, not differs)

    def _notes(self, found: Iterable[RangeDifference]) -> Iterator[str]:
        first, end = min(copy.min_offset for copy in self._copies), max(copy.end for copy in self._copies)
        for copy in self._copies:
            if isinstance(copy, TableCopy):
                yield from copy.lacking()
            elif copy.min_offset > first:
                yield f"{copy.name} begins at {copy.min_offset}: [{first}, {copy.min_offset}) isn't retained there"
            if copy.end < end and self._allow_lag:
                yield f"{copy.name} ends at {copy.end}, {end - copy.end} bytes behind"
            if isinstance(copy, StoreCopy) and copy.torn_bytes:
                yield f"{copy.name} has {copy.torn_bytes} bytes of a torn tail after its end at {copy.end}"
        for each in found:
            if each.kind is Kind.PADDING:
                yield f"{each.copy} has other bytes than {each.reference} after the blank at {each.begin}"

    def _without_row(self, whole: PartFindings) -> Iterator[str]:
        """Tables that a landing in another mode has filled, or that have lost a row: they look the same."""
        for number, count in sorted(whole.without_row.items()):
            if count:
                ranges = "damaged range" if count == 1 else "damaged ranges"
                yield f"{self._copies[number].name} has no row of damage for {count:,} {ranges} of the log"


def _beyond(found: Sequence[object]) -> int:
    """How many are too many to be listed."""
    return max(0, len(found) - MAX_LISTED)


def _flaws(table: TableCopy) -> Iterator[DamagedRange]:
    """Files of which the table's log says what isn't so; where they are, by what the file itself holds."""
    for file in table.files:
        if file.flaw is not None:
            yield DamagedRange(table.name, table.min_offset, table.end, f"{file.path}: {file.flaw}", False)


def _described(copy: StoreCopy | TableCopy) -> Copy:
    if isinstance(copy, TableCopy):
        return Copy(copy.name, "table", copy.min_offset, copy.end)
    return Copy(copy.name, "store", copy.min_offset, copy.end, copy.torn_bytes)

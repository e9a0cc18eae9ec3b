"""Are the copies of a broker's log the same, and sound? Master, slaves and landed tables, compared by Spark tasks.

The log is cut into parts of `split_bytes`; each task reads its part of every copy (`rangecompare`), so nothing
is shuffled and nothing but findings comes back. Cuts also fall where copies begin and end: between two such
offsets the copies that hold the stretch are the same, and the first of them is the reference the others are
held against.

Copies needn't begin or end together. What only some retain isn't a difference, only told; a copy that ends
earlier lags or has lost something, which an audit can't tell apart: it counts, unless `allow_lag`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.auditresult import (
    MAX_LISTED,
    AuditResult,
    Copy,
    DamagedRange,
    RangeDifference,
    queue_breaks,
)
from hatwisted.pipeline.jobs.logbytes import StoreBytes
from hatwisted.pipeline.jobs.rangecompare import (
    BadRange,
    Difference,
    Kind,
    Part,
    PartFindings,
    compare_part,
)
from hatwisted.pipeline.jobs.storecopy import StoreCopy
from hatwisted.pipeline.jobs.tasks import Progress, Tasks, as_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLIT_BYTES: Final = 64 << 20
"""Bytes of log per task: some 50 ms of work, against some 10 ms that a task costs by itself."""


@dataclass(frozen=True, slots=True)
class Span:
    """What is compared: records of [begin, end); None: as far as there are any."""

    begin: int | None = None
    end: int | None = None


def audit(
    spark: SparkSession | Tasks,
    stores: Sequence[str],
    *,
    span: Span = Span(),
    allow_lag: bool = False,
    check_crc: bool = True,
    split_bytes: int = SPLIT_BYTES,
    progress: Progress | None = None,
    seconds: Callable[[], float] = time.monotonic,
) -> AuditResult:
    """Compare stores (folders) of one broker, the first being the reference where it can.

    allow_lag: a copy that ends earlier is no difference. check_crc: also compute the bodies' checksums, which
    finds what is damaged in all copies alike. progress: told (bytes of log done, in all).

    Raises PipelineError for folders that are no stores of one log.
    """
    started = seconds()
    copies = _open(stores)
    parts = plan_parts(copies, span, split_bytes)
    work = [_PartWork(part, tuple(copies), check_crc) for part in parts]
    total = sum(part.end - part.begin for part in parts)
    findings = as_tasks(spark).run(work, _PartWork.run, progress, total)
    return _Summary(copies, allow_lag).result(findings, seconds() - started)


@dataclass(frozen=True, slots=True)
class _PartWork:
    """One task."""

    part: Part
    copies: tuple[StoreCopy, ...]
    check_crc: bool

    def run(self) -> PartFindings:
        with ExitStack() as stack:
            logs = [stack.enter_context(closing(StoreBytes(copy.files))) for copy in self.copies]
            return compare_part(self.part, logs, check_crc=self.check_crc)


def _open(stores: Sequence[str]) -> list[StoreCopy]:
    if len(set(stores)) < len(stores) or len(stores) < 2:
        raise PipelineError(f"an audit compares at least two different stores; given: {', '.join(stores)}")
    copies = [StoreCopy.open(path) for path in stores]
    for copy in copies[1:]:
        if copy.file_size != copies[0].file_size:
            raise PipelineError(
                f"{copies[0].name} has log files of {copies[0].file_size} bytes, {copy.name} of "
                f"{copy.file_size}: these are stores of different brokers"
            )
    return copies


def plan_parts(copies: Sequence[StoreCopy], span: Span, split_bytes: int) -> list[Part]:
    """The parts that are compared, in order of their offsets."""
    begin = max(min(copy.min_offset for copy in copies), span.begin or 0)
    end = max(copy.end for copy in copies)
    end = end if span.end is None else min(end, span.end)
    marks = {each for copy in copies for each in (copy.min_offset, copy.end) if begin < each < end}
    cuts = sorted({begin, *marks, *range(begin - begin % split_bytes + split_bytes, end, split_bytes), end})
    parts = []
    for low, high in zip(cuts, cuts[1:], strict=False):
        holders = [number for number, copy in enumerate(copies) if copy.min_offset <= low]
        reference = next((number for number in holders if copies[number].end >= high), None)
        if reference is None:
            # Nobody holds it: one copy's end lies before all others' begin.
            continue
        others = tuple(number for number in holders if number != reference)
        parts.append(Part(low, high, copies[reference].end, reference, others))
    return parts


def _joined(findings: Iterable[PartFindings]) -> PartFindings:
    """All findings as those of one part."""
    parts = [part for part in findings if part.begin < part.end]
    whole = PartFindings(parts[0].begin if parts else 0, parts[-1].end if parts else 0)
    for part in parts:
        whole.add_part(part)
    return whole


class _Summary:
    """Turns what the tasks found into a result."""

    def __init__(self, copies: Sequence[StoreCopy], allow_lag: bool) -> None:
        self._copies = copies
        self._allow_lag = allow_lag

    def result(self, findings: Iterable[PartFindings], seconds: float) -> AuditResult:
        """The whole of it; findings in order of their parts."""
        whole = _joined(findings)
        found = [self._named(difference) for difference in whole.differences]
        counted = [each for each in found if each.kind.counts and not (each.lag and self._allow_lag)]
        damaged = [self._damaged(bad, whole.differences) for bad in whole.bad]
        breaks = list(queue_breaks(whole.queues.by_queue))
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
            unlisted=max(0, sum(whole.differing.values()) - min(len(counted), MAX_LISTED)),
            damaged=tuple(damaged[:MAX_LISTED]),
            breaks=tuple(breaks[:MAX_LISTED]),
            notes=tuple(self._notes(found)),
        )

    def _named(self, found: Difference) -> RangeDifference:
        """With names for numbers, and seen from the first copy where that is the one that ends earlier."""
        lag = found.begin >= self._copies[found.copy].end
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

    def _damaged(self, bad: BadRange, differences: Iterable[Difference]) -> DamagedRange:
        differs = any(each.begin < bad.end and bad.begin < each.end for each in differences)
        return DamagedRange(self._copies[bad.copy].name, bad.begin, bad.end, bad.reason, not differs)

    def _notes(self, found: Iterable[RangeDifference]) -> Iterator[str]:
        first, end = min(copy.min_offset for copy in self._copies), max(copy.end for copy in self._copies)
        for copy in self._copies:
            if copy.min_offset > first:
                yield f"{copy.name} begins at {copy.min_offset}: [{first}, {copy.min_offset}) isn't retained there"
            if copy.end < end and self._allow_lag:
                yield f"{copy.name} ends at {copy.end}, {end - copy.end} bytes behind"
            if copy.torn_bytes:
                yield f"{copy.name} has {copy.torn_bytes} bytes of a torn tail behind its end at {copy.end}"
        for each in found:
            if each.kind is Kind.PADDING:
                yield f"{each.copy} has other bytes than {each.reference} behind the blank at {each.begin}"


def _described(copy: StoreCopy) -> Copy:
    return Copy(copy.name, "store", copy.min_offset, copy.end, copy.torn_bytes)

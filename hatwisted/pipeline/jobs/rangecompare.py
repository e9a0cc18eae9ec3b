"""Comparing one part of a log with other copies of it, byte by byte first and by records where bytes differ.

Copies of a log are nearly always equal, so that case has to be fast: the reference is followed record by
record (its queue offsets and checksums are checked on the way), and what was read for that is compared with
the same bytes of every other copy in one memcmp. Only where that differs are the bytes examined
one by one, mapped to the reference's records, and each record that differs is judged: is there nothing in the
other copy, another record, a changed one, or garbage?

The reference isn't assumed to be right: where it is damaged and the other copy isn't, that is reported.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hatwisted.logcodec.onerecord import record_at, whole_record
from hatwisted.logcodec.queueentry import has_data
from hatwisted.logcodec.queueruns import QueueRuns
from hatwisted.logcodec.recordsearch import records_after
from hatwisted.pipeline.jobs.rangewalk import Buffer, Filler, Step, WalkedLog, edge, walk_range
from hatwisted.pipeline.jobs.recordfields import field_at
from hatwisted.wire import layout
from hatwisted.wire.storedrecord import Record

MAX_RANGES: Final = 1000
"""Differing ranges listed of one part and copy; more are only counted. A log that differs in every other
record would otherwise fill the driver's memory."""


class Kind(enum.StrEnum):
    """What is wrong with a range of a copy, seen from the reference."""

    MISSING = "missing"
    """Nothing is there (zeros, or no file) where the reference has records."""
    EXTRA = "extra"
    """Records where the reference has nothing."""
    CHANGED = "changed"
    """A record at the same offset and of the same size, with other content."""
    REPLACED = "replaced"
    """Other records: the logs have diverged."""
    DAMAGED = "damaged"
    """No valid record where the reference has one."""
    REFERENCE_DAMAGED = "reference damaged"
    """A valid record where the reference has none."""
    REPEATED = "repeated"
    """Rows of a table that have the same offset as another row."""
    DEBRIS = "debris"
    """Both are damaged, and differ."""
    PADDING = "padding"
    """Only bytes that no reader looks at differ: those after the head of a blank."""

    @property
    def counts(self) -> bool:
        """Is it a difference of records?"""
        return self is not Kind.PADDING


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """Which record: where it begins in the log, and its place in its queue."""

    offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int

    @classmethod
    def of(cls, record: Record) -> RecordPlace:
        """The place of a decoded record."""
        return cls(
            record.physical_offset, record.total_size, record.topic, record.queue_id, record.queue_offset
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """A stretch [begin, end) of physical offsets where `copy` differs from `reference` (both are numbers).

    records: how many are concerned; first_byte: offset of the first byte that differs; record: the first one
    concerned; field, position: which field of it that byte is in, and which byte of the field.
    """

    reference: int
    copy: int
    kind: Kind
    begin: int
    end: int
    records: int
    first_byte: int
    record: RecordPlace | None = None
    field: str = ""
    position: int = 0

    def joins(self, later: Difference) -> bool:
        """Does `later` continue where this ends, with the same defect?"""
        same = (self.reference, self.copy, self.kind) == (later.reference, later.copy, later.kind)
        return same and self.end == later.begin

    def extended(self, later: Difference) -> Difference:
        """Both as one."""
        return replace(self, end=later.end, records=self.records + later.records)


@dataclass(frozen=True, slots=True)
class BadRange:
    """No valid records in [begin, end) of `copy`."""

    copy: int
    begin: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class DamageRow:
    """A row of the table `copy` that stands for damage in [begin, end), which the reference has as well."""

    copy: int
    begin: int
    end: int


@dataclass
class PartFindings:
    """What comparing one part [begin, end) has found. bytes_read: of all copies; records: the reference's;
    differing: ranges by copy, those beyond MAX_RANGES included; unlisted_damage_rows: those beyond MAX_RANGES;
    without_row: damaged ranges of the reference, by the table that has no row for them."""

    begin: int
    end: int
    bytes_read: int = 0
    records: int = 0
    differences: list[Difference] = field(default_factory=list)
    differing: dict[int, int] = field(default_factory=dict)
    bad: list[BadRange] = field(default_factory=list)
    queues: QueueRuns = field(default_factory=QueueRuns)
    damage_rows: list[DamageRow] = field(default_factory=list)
    unlisted_damage_rows: int = 0
    without_row: Counter[int] = field(default_factory=Counter)
    _last: dict[int, int] = field(default_factory=dict)
    """Where among the differences the last one of each copy is."""

    def add(self, found: Difference) -> None:
        """The next difference in order of offsets."""
        last = self._last.get(found.copy)
        if last is not None and self.differences[last].joins(found):
            self.differences[last] = self.differences[last].extended(found)
            return
        if found.kind.counts:
            self.differing[found.copy] = self.differing.get(found.copy, 0) + 1
        if self.differing.get(found.copy, 0) <= MAX_RANGES:
            self._last[found.copy] = len(self.differences)
            self.differences.append(found)

    def add_damage_row(self, row: DamageRow) -> None:
        """The next one."""
        if len(self.damage_rows) < MAX_RANGES:
            self.damage_rows.append(row)
        else:
            self.unlisted_damage_rows += 1

    def add_part(self, later: PartFindings) -> None:
        """The findings of the part that follows this one."""
        self.bytes_read += later.bytes_read
        self.records += later.records
        self.bad += later.bad
        self.queues.add_all(later.queues)
        for copy, count in later.differing.items():
            # Those beyond the list are only counted; the listed ones are counted from the list.
            listed = sum(each.kind.counts for each in later.differences if each.copy == copy)
            self.differing[copy] = self.differing.get(copy, 0) + count - listed
        for difference in later.differences:
            self.add(difference)
        for row in later.damage_rows:
            self.add_damage_row(row)
        self.unlisted_damage_rows += later.unlisted_damage_rows
        self.without_row.update(later.without_row)

    def add_bad(self, step: Step, copy: int) -> None:
        """A step without records that isn't a blank."""
        if step.start == step.begin:
            self.bad.append(BadRange(copy, step.begin, step.end, step.reason))
        else:
            self.bad[-1] = replace(self.bad[-1], end=step.end)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the log to be compared: [begin, end), cut anywhere; `log_end`: where the reference's log
    ends. reference, copies: numbers of the stores; no reference: no store reaches there."""

    begin: int
    end: int
    log_end: int
    reference: int | None
    copies: tuple[int, ...]


def compare_part(part: Part, logs: Sequence[WalkedLog], *, check_crc: bool = True) -> PartFindings:
    """Follow the reference through a part and compare every other copy with it.

    - part: what to compare
    - logs: the copies
    - check_crc: of bodies
    """
    assert part.reference is not None
    log = logs[part.reference]
    begin, end = edge(log, part.begin, part.log_end), edge(log, part.end, part.log_end)
    found = PartFindings(begin, end)
    others = [_Copy(number, logs[number], part.reference, begin) for number in part.copies]
    for step in walk_range(log, begin, end, check_crc=check_crc):
        found.bytes_read += (step.end - step.begin) * (1 + len(others))
        if step.records is not None:
            found.records += len(step.records)
            found.queues.add_scan(step.records)
        elif step.filler is not Filler.BLANK:
            found.add_bad(step, part.reference)
        for other in others:
            for difference in other.compare(step):
                found.add(difference)
    return found


class _Copy:
    """Another copy of the log, compared step by step."""

    def __init__(self, number: int, log: WalkedLog, reference: int, begin: int) -> None:
        self._number = number
        self._log = log
        self._reference = reference
        self._buffer = Buffer()
        self._covered = begin
        """End of the last valid record met that isn't the reference's."""

    def compare(self, step: Step) -> Iterator[Difference]:
        """The differences of one step."""
        view = self._buffer.filled(self._log, step.begin, len(step.buf))
        if self._buffer.equals(step.buf):
            return
        size = step.end - step.begin
        theirs = bytes(view[:size])
        at = np.flatnonzero(_octets(step.buf, size) != _octets(theirs, size))
        if not len(at):
            return
        if step.records is not None:
            yield from self._records(step, theirs, at)
        elif step.filler is Filler.BLANK:
            yield from self._blank(step, theirs, at)
        else:
            yield from self._hole(step, theirs, at)

    def _difference(self, kind: Kind, begin: int, end: int, first: int, records: int = 1) -> Difference:
        return Difference(self._reference, self._number, kind, begin, end, records, first)

    # -- where the reference has records ---------------------------------------------------------------------

    def _records(self, step: Step, theirs: bytes, at: npt.NDArray[Any]) -> Iterator[Difference]:
        """at: positions in the step of the bytes that differ, ascending."""
        assert step.records is not None
        positions, sizes = step.records.positions, step.records.sizes
        rows, firsts = np.unique(np.searchsorted(positions, at, "right") - 1, return_index=True)
        nothing = not has_data(theirs)
        found: Difference | None = None
        for row, first in zip(rows.tolist(), at[firsts].tolist(), strict=True):
            start = int(positions[row])
            stop = start + int(sizes[row])
            kind = Kind.MISSING if nothing else self._judge(step.begin, start, stop, theirs)
            this = self._difference(kind, step.begin + start, step.begin + stop, step.begin + first)
            if found is not None and found.joins(this):
                found = found.extended(this)
                continue
            if found is not None:
                yield found
            found = self._described(this, bytes(step.buf[start:stop]), first - start)
        if found is not None:
            yield found

    def _judge(self, base: int, start: int, stop: int, theirs: bytes) -> Kind:
        """What does this copy have in place of the reference's record at [start, stop) of a step at `base`?"""
        if not has_data(theirs[start:stop]):
            return Kind.MISSING
        own = record_at(self._log, base + start)
        if own is not None:
            self._follow(own, base + stop)
            return Kind.CHANGED if own.total_size == stop - start else Kind.REPLACED
        if base + start < self._covered:
            self._follow(record_at(self._log, self._covered), base + stop)
            return Kind.REPLACED
        inside = next(records_after(self._log, base + start, base + stop), None)
        if inside is None:
            return Kind.DAMAGED
        self._follow(inside, base + stop)
        return Kind.REPLACED

    def _follow(self, record: Record | None, stop: int) -> None:
        """Note how far this copy's own records reach from this one on, including a blank after them."""
        while record is not None:
            self._covered = record.physical_offset + record.total_size
            record = record_at(self._log, self._covered) if self._covered < stop else None
        file_end = stop - (stop - 1) % self._log.file_size - 1 + self._log.file_size
        head = self._log.read(self._covered, layout.BLANK_HEAD_SIZE)
        if head == layout.RECORD_HEAD.pack(file_end - self._covered, layout.MAGIC_BLANK):
            self._covered = file_end

    def _described(self, found: Difference, raw: bytes, position: int) -> Difference:
        """With the reference's record and the field of its first differing byte."""
        record = whole_record(raw)
        if record is None:
            return found
        name, within = field_at(raw, position)
        return replace(found, record=RecordPlace.of(record), field=name, position=within)

    # -- where it has none -----------------------------------------------------------------------------------

    def _blank(self, step: Step, theirs: bytes, at: npt.NDArray[Any]) -> Iterator[Difference]:
        first = step.begin + int(at[0])
        if first >= step.start + layout.BLANK_HEAD_SIZE:
            yield self._difference(Kind.PADDING, step.begin, step.end, first, 0)
        elif not has_data(theirs[: layout.BLANK_HEAD_SIZE]):
            yield self._difference(Kind.MISSING, step.begin, step.end, first, 0)
        else:
            found = self._difference(Kind.CHANGED, step.begin, step.end, first, 0)
            yield replace(found, field="blank", position=first - step.start)

    def _hole(self, step: Step, theirs: bytes, at: npt.NDArray[Any]) -> Iterator[Difference]:
        """Damage or zeros in the reference; this copy's valid records are what the reference lacks."""
        first = step.begin + int(at[0])
        kind = Kind.EXTRA if step.filler is Filler.EMPTY else Kind.REFERENCE_DAMAGED
        records = list(self._valid_records(step))
        if not records:
            yield self._difference(Kind.DEBRIS, step.begin, step.end, first, 0)
            return
        # The record that the first differing byte is in, if that isn't before all of them.
        place = RecordPlace.of(next((r for r in reversed(records) if r.physical_offset <= first), records[0]))
        found = self._difference(kind, step.begin, step.end, first, len(records))
        if place.offset <= first < place.offset + place.size:
            name, within = field_at(self._log.read(place.offset, place.size), first - place.offset)
            found = replace(found, field=name, position=within)
        yield replace(found, record=place)

    def _valid_records(self, step: Step) -> Iterator[Record]:
        """This copy's valid records that begin within the step."""
        yield from records_after(self._log, step.begin, min(step.end, self._log.capacity_end))


def _octets(data: bytes | memoryview, size: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8, count=size)

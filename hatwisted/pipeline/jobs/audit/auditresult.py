"""What an audit says: which copies of a log there are, up to where they are the same, and where not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from hatwisted.logcodec.queueruns import QueueName, Run
from hatwisted.pipeline.jobs.rangecompare import Kind, RecordPlace

MAX_LISTED: Final = 1000
"""Entries of each list in a result; more are only counted."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of the log. min_offset, end: of its records; torn_bytes: after the last whole record, up to
    the last byte that isn't zero; kind: "store" or "table"."""

    name: str
    kind: str
    min_offset: int
    end: int
    torn_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RangeDifference:
    """A stretch [begin, end) of physical offsets where `copy` differs from `reference` (names of copies).

    - kind: see rangecompare.Kind
    - records: how many are concerned
    - first_byte: offset of the first differing byte (a table's: of its record), in byte `position` of `field` of
      `record`
    - lag: only that the copy ends earlier
    """

    reference: str
    copy: str
    kind: Kind
    begin: int
    end: int
    records: int
    first_byte: int
    record: RecordPlace | None
    field: str
    position: int
    lag: bool = False

    def __str__(self) -> str:
        plural = "" if self.records == 1 else "s"
        text = f"{self.copy}: {self.kind.value} [{self.begin}, {self.end}), {self.records} record{plural}"
        if self.record is not None:
            place = self.record
            # A row of damage has no queue.
            queue = (
                f" {place.topic}/{place.queue_id} queue offset {place.queue_offset}" if place.topic else ""
            )
            text += f"; first{queue} at {place.offset}"
        if self.field:
            text += f", byte {self.first_byte} ({self.field} + {self.position})"
        return text + (" (it ends there)" if self.lag else "")


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """No valid record in [begin, end) of `copy`; everywhere: all other copies have the same bytes there."""

    copy: str
    begin: int
    end: int
    reason: str
    everywhere: bool

    def __str__(self) -> str:
        where = "all copies" if self.everywhere else self.copy
        return f"{where}: [{self.begin}, {self.end}): {self.reason}"


@dataclass(frozen=True, slots=True)
class KeptDamage:
    """A row of the table `copy` that is no message: it stands for the log's damage in [begin, end)."""

    copy: str
    begin: int
    end: int

    def __str__(self) -> str:
        return f"{self.copy}: [{self.begin}, {self.end})"


@dataclass(frozen=True, slots=True)
class QueueBreak:
    """A break in a queue's offsets: `expected` should have followed, `found` did.

    after, before: physical end of the record before the break, and begin of the one after it.
    """

    topic: str
    queue_id: int
    expected: int
    found: int
    after: int
    before: int

    def __str__(self) -> str:
        missing = f", {self.missing} missing" if self.missing else ""
        return (
            f"{self.topic}/{self.queue_id}: {self.kind}: queue offset {self.found} instead of {self.expected}"
            f"{missing}, between log offsets {self.after} and {self.before}"
        )

    @property
    def kind(self) -> str:
        """gap: queue offsets are missing; recreated: the topic was deleted and created again; repeated:
        given twice."""
        if self.found > self.expected:
            return "gap"
        return "repeated" if self.found else "recreated"

    @property
    def counts(self) -> bool:
        """Is it a defect? A topic that was created again isn't."""
        return self.kind != "recreated"

    @property
    def missing(self) -> int:
        """Messages of a gap."""
        return max(0, self.found - self.expected)


def queue_breaks(queues: Mapping[QueueName, Sequence[Run]]) -> Iterator[QueueBreak]:
    """Every break in a queue's offsets, by queue."""
    for (topic, queue_id), runs in sorted(queues.items()):
        for before, after in zip(runs, runs[1:], strict=False):
            yield QueueBreak(topic, queue_id, before.next, after.first, before.end, after.begin)


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditResult:
    """The outcome of an audit of [begin, end) of a log.

    The lists hold at most MAX_LISTED entries; `breaks` has those that count first.

    - identical: everything that all copies should have is the same, and intact
    - identical_up_to: the offset up to which that is so, record by record
    - unlisted, unlisted_damaged, unlisted_breaks: differences, damaged ranges and breaks that count, beyond those
      listed
    - damage_rows, unlisted_damage_rows: rows of tables that stand for damage which the log has, and how many there
      are beyond those listed; they aren't differences
    - notes: what is worth knowing but not a difference
    """

    identical: bool
    begin: int
    end: int
    identical_up_to: int
    copies: tuple[Copy, ...]
    records: int
    bytes_read: int
    queues: int
    seconds: float
    differences: tuple[RangeDifference, ...] = ()
    unlisted: int = 0
    damaged: tuple[DamagedRange, ...] = ()
    unlisted_damaged: int = 0
    breaks: tuple[QueueBreak, ...] = ()
    unlisted_breaks: int = 0
    damage_rows: tuple[KeptDamage, ...] = ()
    unlisted_damage_rows: int = 0
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0: identical; 1: not."""
        return 0 if self.identical else 1

    @property
    def damage_count(self) -> int:
        """Damaged ranges."""
        return len(self.damaged) + self.unlisted_damaged

    @property
    def damage_row_count(self) -> int:
        """Rows of tables that stand for the log's damage."""
        return len(self.damage_rows) + self.unlisted_damage_rows

    @property
    def break_count(self) -> int:
        """Queue breaks that count."""
        return sum(each.counts for each in self.breaks) + self.unlisted_breaks

    @property
    def first_difference(self) -> RangeDifference | None:
        """The one at the lowest offset."""
        counted = [found for found in self.differences if found.kind.counts]
        return min(counted, key=lambda found: found.first_byte, default=None)

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.identical:
            return f"{len(self.copies)} copies are identical from {self.begin} to {self.end}"
        found = self.first_difference
        if found is not None:
            return f"identical up to {self.identical_up_to}; {found}"
        faults = f"{self.damage_count} damaged ranges, {self.break_count} queue breaks"
        return f"the copies are equal up to {self.identical_up_to}, but not intact: {faults}"

    def as_json(self) -> dict[str, Any]:
        """Plain values, with the derived ones."""
        plain = asdict(self)
        for entry, source in zip(plain["breaks"], self.breaks, strict=True):
            entry["kind"] = source.kind
        return {"verdict": self.verdict, **plain}

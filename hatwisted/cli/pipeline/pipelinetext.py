"""What `hatwisted pipeline` prints for people: a few lines per job, the result first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hatwisted.cli.output import counted
from hatwisted.wire.quantities import size_text

SHOWN: Final = 10
"""Entries of a list that are shown; the rest is counted. All of them are in the JSON."""
ENGINES: Final = {"local": "landed without Spark", "spark": "landed by Spark"}
"""What landed, by engine."""


def land_lines(result: Any) -> Iterator[str]:
    """A LandResult."""
    yield (
        f"{result.rows:,} rows landed in {result.table}: {size_text(result.log_bytes)} of log as "
        f"{size_text(result.bytes)} in {counted(result.files, 'file')}{_rate(result.log_bytes, result.seconds)}"
    )
    if result.rows:
        yield ENGINES[result.engine]
    if result.removed:
        yield f"{counted(result.removed, 'file')} of an earlier, interrupted run removed"
    if result.compacted:
        yield f"{counted(result.compacted, 'small file')} compacted"
    if result.vacuumed:
        yield f"{counted(result.vacuumed, 'file')} replaced long ago removed"
    if result.dead_letters:
        why = ", ".join(f"{count:,} {reason}" for reason, count in result.dead_letters.items())
        count = counted(sum(result.dead_letters.values()), "body", "bodies")
        yield f"{count} didn't fit the schema ({why}): hatwisted pipeline dead-letters {result.table}"
    for reason in result.put_off:
        yield f"compaction postponed: {reason}"
    yield from _damage_lines(result)
    if result.stopped:
        yield "stopped; the next run continues from here"


def dead_letter_lines(result: Any) -> Iterator[str]:
    """A DeadLetterResult."""
    if result.landed:
        yield f"{counted(result.landed, 'dead letter')} landed in {result.table}"
    if not result.left:
        yield f"{result.table} has no dead letters"
    for topic, reasons in result.left.items():
        for reason, count in reasons.items():
            found = [each for each in result.letters if (each.topic, each.reason) == (topic, reason)]
            yield f"{topic}: {count:,} {reason}"
            for each in found:
                yield f"  {each.broker} queue {each.queue_id} offset {each.queue_offset:,}: {each.detail}"
            if count > len(found):
                yield f"  and {count - len(found):,} more"


def latest_lines(result: Any) -> Iterator[str]:
    """A LatestResult."""
    yield (
        f"{result.rows:,} rows of {result.table}, version {result.version}, merged into {result.into}: "
        f"{counted(result.inserted, 'key')} inserted, {result.updated:,} updated"
    )
    if result.without_key:
        yield f"{counted(result.without_key, 'row')} without a key left out"


def audit_lines(result: Any) -> Iterator[str]:
    """An AuditResult."""
    yield result.verdict
    yield f"{result.records:,} records{_rate(result.bytes_read, result.seconds)}"
    for title, found, unlisted in (
        ("differs", result.differences, result.unlisted),
        ("damaged", result.damaged, result.unlisted_damaged),
        ("queue break", [each for each in result.breaks if each.counts], result.unlisted_breaks),
    ):
        yield from _listed(title, found, unlisted)
    if count := result.damage_row_count:
        yield f"{counted(count, 'row')} {'stands' if count == 1 else 'stand'} for damage that the log has as well"
        yield from _listed("row of damage", result.damage_rows, result.unlisted_damage_rows)
    yield from result.notes


def reindex_lines(result: Any) -> Iterator[str]:
    """A ReindexResult."""
    yield (
        f"{result.records:,} records: {result.entries:,} entries in {counted(result.queues, 'queue')}, "
        f"{result.index_items:,} items in {counted(result.index_files, 'index file')}, in {result.target}"
        f"{_rate(result.end - result.begin, result.seconds)}"
    )
    if result.refused:
        yield f"{result.refused:,} records don't fit into their queue"
    yield from _listed("damaged", result.damaged)


def report_lines(result: Any) -> Iterator[str]:
    """A ReportResult."""
    total = result.summary.total
    yield (
        f"{total.messages:,} messages, {size_text(total.bytes)}, of {counted(result.summary.topic_count, 'topic')}"
        f"{_rate(total.bytes, result.seconds).replace(',', ', read at', 1)}"
    )
    if total.latency.p50 is not None:
        yield f"born to stored: median {total.latency.p50:,} ms, 99 % {total.latency.p99:,} ms"
    for slave in result.summary.slaves:
        lag = (
            f"{size_text(slave.behind)} and {slave.messages:,} messages behind"
            if slave.behind
            else "up to date"
        )
        # Many a folder says already what it is.
        yield f"{'' if 'slave' in slave.name.lower() else 'slave '}{slave.name}: {lag}"
    if result.damages:
        yield f"{counted(result.damages, 'damaged range')} left out"
    yield result.page


def export_lines(result: Any) -> Iterator[str]:
    """An ExportResult."""
    yield (
        f"{result.messages:,} messages written to {result.out}: {counted(len(result.files), 'file')} of "
        f"{result.format}{_rate(result.bytes, result.seconds)}"
    )
    yield from _damage_lines(result)


def import_lines(result: Any) -> Iterator[str]:
    """An ImportResult."""
    yield f"{result.messages:,} messages stored, {size_text(result.bytes)}{_rate(result.bytes, result.seconds)}"
    for status, count in result.statuses.items():
        if status != "OK":
            yield f"{count:,} of them with {status}"
    if result.resent:
        yield f"{result.resent:,} of them sent again after a lost answer: some may be stored twice"
    if result.refused:
        yield f"{result.refused:,} messages refused"
        for number, reason in result.refusals[:SHOWN]:
            yield f"  row {number}: {reason}"


def _damage_lines(result: Any) -> Iterator[str]:
    """Of what was landed or exported."""
    if result.damages:
        yield f"{counted(result.damages, 'damaged range')} of the log, listed under damagePath"


def _listed(title: str, found: Any, unlisted: int = 0) -> Iterator[str]:
    for each in found[:SHOWN]:
        yield f"  {title}: {each}"
    if more := max(0, len(found) - SHOWN) + unlisted:
        yield f"  and {more:,} more"


def _rate(size: float, seconds: float) -> str:
    return f", {size_text(size / seconds)}/s" if seconds > 0 and size else ""

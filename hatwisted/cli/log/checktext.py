"""A check's report as text: what was checked, what is wrong, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator

from hatwisted.cli.log.check import CheckReport, DamageReport, TailReport
from hatwisted.cli.log.repair import RepairPlan
from hatwisted.cli.optionvalues import iso_time
from hatwisted.wire.quantities import size_text


def report_lines(report: CheckReport) -> Iterator[str]:
    """The report, a line at a time."""
    written = report.end - report.begin
    yield f"store     {report.directory}"
    yield (
        f"log       {report.log_files} x {size_text(report.file_size)}, offsets {report.begin} to "
        f"{report.end} ({size_text(written)})"
    )
    yield f"records   {report.records} in {report.queues} queues{_times(report)}"
    if report.queue_entries is not None:
        yield f"queues    {report.queue_entries} entries compared"
    if report.index_items is not None:
        yield f"index     {report.index_items} items compared, files: {report.index_files}"
    yield f"last exit {'unclean, or the broker is running' if report.unclean_exit else 'clean'}"
    if report.torn_tail is not None:
        yield f"torn tail {_tail_text(report.torn_tail)}"
    for note in report.notes:
        yield f"note      {note}"
    for damage in report.damages:
        yield f"DAMAGE    {_damage_text(damage)}"
    for problem in report.problems:
        yield f"PROBLEM   {problem.count} {problem.kind}"
        yield from (f"          {example}" for example in problem.examples)
    yield "problems found" if not report.ok else "no problems found"


def _times(report: CheckReport) -> str:
    if report.first_timestamp is None or report.last_timestamp is None:
        return ""
    return f", stored {iso_time(report.first_timestamp)} to {iso_time(report.last_timestamp)}"


def _tail_text(tail: TailReport) -> str:
    leftovers = "; remains of older records" if tail.leftovers else ""
    return (
        f"{tail.bytes} bytes after offset {tail.offset} are not a record ({tail.reason}{leftovers}); "
        "normal after a crash, cut at the next start"
    )


def _damage_text(damage: DamageReport) -> str:
    return (
        f"at offset {damage.offset} ({damage.reason}): {damage.unreadable} bytes are not valid "
        f"records; valid records resume at {damage.resumes_at}; a cut here would remove "
        f"{damage.at_stake} bytes"
    )


def plan_lines(plan: RepairPlan) -> Iterator[str]:
    """What a repair would do, or has done."""
    yield f"damage at offset {plan.offset} ({plan.reason}); valid records resume at {plan.resumes_at}"
    verb = "cut" if plan.done else "to be cut"
    yield f"{verb}: {size_text(plan.bytes)} up to offset {plan.end}, with {plan.records} valid records"
    yield f"{'kept' if plan.done else 'to be kept'} in {plan.side_file}"
    if plan.done:
        yield "the store can start again; it will cut its queues and index to the new end"
        yield "a slave that has the removed bytes is now ahead of it, and must be cut too or copied again"
    else:
        yield "nothing was changed; if another copy has these records, use that one, otherwise add --yes"

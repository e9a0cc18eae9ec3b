"""`hatwisted log compare` and `hatwisted log cut`: two logs that have diverged, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click

from hatwisted.cli.errors import EXIT_OK, EXIT_PROBLEMS, CannotRun
from hatwisted.cli.log.compare import LogComparison, compare_logs, record_boundary
from hatwisted.cli.log.logcommand import directory_argument, locked, print_result, reporting
from hatwisted.cli.log.repair import RepairPlan, repair
from hatwisted.cli.log.storesizes import StoreFolder
from hatwisted.cli.progressbar import ScanProgress
from hatwisted.logcodec.logwalk import LogWalk
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.lifecycle.sidefile import side_file
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.wire.quantities import size_text


@click.command("compare")
@directory_argument()
@directory_argument("other", "OTHER")
@click.option("--json", "as_json_object", is_flag=True, help="The result as one JSON object.")
@reporting
def compare_command(directory: str, other: str, as_json_object: bool) -> int:
    """Find out where two copies of a log diverge.

    Every byte that both hold is compared; one may end before the other. Never writes.

    Exit codes: 0 they agree; 1 they differ; 2 usage error, or no store.
    """
    folders = StoreFolder(PosixFileSystem(), directory), StoreFolder(PosixFileSystem(), other)
    one, two = (folder.open_log() for folder in folders)
    with ScanProgress("compare", max(one.min_offset, two.min_offset), one.capacity_end) as progress:
        found = compare_logs(one, two, (folders[0].path, folders[1].path), progress)
    print_result(found, as_json_object, comparison_lines)
    return EXIT_PROBLEMS if found.apart else EXIT_OK


def comparison_lines(found: LogComparison) -> Iterator[str]:
    """The comparison, a line at a time."""
    for side in found.sides:
        yield f"{side.directory}: offsets {side.begin} to {side.end}"
    compared = size_text(found.equal_to - found.begin)
    yield f"equal from offset {found.begin} to {found.equal_to} ({compared})"
    for side in found.sides:
        if side.bytes_after:
            rest = f"{side.records_after} records in {size_text(side.bytes_after)}"
            yield f"after that, in {side.directory} only: {rest}"
    if not found.apart:
        yield "the shorter log is a copy of the longer one"
        return
    yield f"the logs have diverged (first byte that differs: {found.differs_at})"
    yield "to make one of them a slave of the other again, with its own records kept in a file:"
    for side in found.sides:
        yield f"  hatwisted log cut {side.directory} --at {found.equal_to} --yes"


@click.command("cut")
@directory_argument()
@click.option(
    "--at", required=True, type=click.IntRange(1), help="Offset at which a record ends or a file begins."
)
@click.option("--yes", is_flag=True, help="Carry out the plan. Without this option it is only shown.")
@click.option("--json", "as_json_object", is_flag=True, help="The plan as one JSON object.")
@reporting
def cut_command(directory: str, at: int, yes: bool, as_json_object: bool) -> int:
    """Cut a log back to what another copy has.

    'hatwisted log compare' says where. Only while no broker uses the store. Everything after that offset is
    removed and kept in a file under DIR/repair; the next start cuts queues and index.

    Exit codes: 0 cut; 1 the plan was only shown; 2 usage error, no store, or one in use.
    """
    folder = StoreFolder(PosixFileSystem(), directory)
    with locked(folder):
        files = folder.open_log(read_only=not yes)
        with ScanProgress("cut", at, files.capacity_end) as progress:
            plan = plan_cut(folder, files, at, progress)
            if yes:
                repair(folder, files, plan, progress)
        files.close()
    print_result(plan, as_json_object, cut_lines)
    return EXIT_OK if plan.done else EXIT_PROBLEMS


def plan_cut(folder: StoreFolder, log: FileQueue, offset: int, progress: Callable[[int], None]) -> RepairPlan:
    """What a cut would do. Raises CannotRun where none is possible.

    - folder: the store
    - log: its log
    - offset: where the log is to end
    - progress: called with the offset reached
    """
    if offset <= log.min_offset:
        raise CannotRun(
            f"the log begins at {log.min_offset}: nothing would be left; move the store away instead"
        )
    boundary = record_boundary(log, min(offset, log.capacity_end))
    if boundary != offset:
        raise CannotRun(f"no record ends at {offset}; the last offset before it where one does is {boundary}")
    walk = LogWalk(log, offset, progress=progress)
    records = sum(len(scan) for scan in walk)
    assert walk.end is not None
    end = walk.end.offset + walk.end.torn
    if end == offset:
        raise CannotRun(f"the log already ends at {offset}")
    return RepairPlan(
        directory=folder.path,
        offset=offset,
        reason="requested",
        resumes_at=offset,
        end=end,
        bytes=end - offset,
        records=records,
        side_file=side_file(folder.required_root(), offset, end),
    )


def cut_lines(plan: RepairPlan) -> Iterator[str]:
    """What a cut would do, or has done."""
    verb = "cut" if plan.done else "to be cut"
    yield f"{verb}: offsets {plan.offset} to {plan.end}, {plan.records} records in {size_text(plan.bytes)}"
    yield f"{'kept' if plan.done else 'to be kept'} in {plan.side_file}"
    if not plan.done:
        yield "nothing was changed; add --yes to carry it out"

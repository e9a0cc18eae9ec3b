"""`hatwisted log`: its commands, their options and what they print."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import click

from hatwisted.cli.errors import EXIT_OK, EXIT_PROBLEMS
from hatwisted.cli.log.check import StoreCheck
from hatwisted.cli.log.checktext import plan_lines, report_lines
from hatwisted.cli.log.divergence import compare_command, cut_command
from hatwisted.cli.log.dump import RecordFilter, dump, follow, last_records
from hatwisted.cli.log.logcommand import directory_argument, locked, print_result, reporting
from hatwisted.cli.log.recordformat import BodyForm, as_json, as_line
from hatwisted.cli.log.repair import LogInspection, plan_repair, repair
from hatwisted.cli.log.storesizes import StoreFolder
from hatwisted.cli.optiongroup import option_group
from hatwisted.cli.optionvalues import milliseconds
from hatwisted.cli.output import echo_json
from hatwisted.cli.progressbar import ScanProgress
from hatwisted.logcodec.delaylevel import DEFAULT_DELAY_LEVELS, parse_delay_levels
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.errors import WrongFile
from hatwisted.wire.printable import printable
from hatwisted.wire.storedrecord import Record


class Position(click.ParamType[tuple[str, int]]):
    """A place in the log: a physical offset in bytes, or a store time in ISO 8601 (UTC unless it names a
    zone)."""

    name = "offset|time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """As click's: ("offset", bytes) or ("time", ms)."""
        if isinstance(value, tuple):
            return value
        if value.isascii() and value.isdigit():
            return "offset", int(value)
        try:
            return "time", milliseconds(value)
        except ValueError:
            self.fail(
                f"{value!r} is neither an offset (digits) nor a time like 2026-11-21T00:33:12 (UTC)",
                param,
                ctx,
            )


filter_options = option_group(
    click.option("--topic", help="Only this topic."),
    click.option("--queue", type=click.IntRange(0), metavar="ID", help="Only this queue id."),
    click.option("--key", help="Only records with this among their KEYS, or as their UNIQ_KEY."),
    click.option(
        "--body",
        type=click.Choice(["text", "base64", "none"]),
        default="text",
        show_default=True,
        help="How bodies are shown; text that isn't UTF-8 becomes base64.",
    ),
    click.option("--json", "as_ndjson", is_flag=True, help="One JSON object per line."),
)
"""The options that choose records and their form."""


DIRECTORY = directory_argument()


@click.group()
def log() -> None:
    """Inspect, check and repair a commit log.

    DIR is a store's root folder (storePathRootDir), or the folder of its log files. It may have been
    written by hatwisted or by any RocketMQ 4.x or 5.x broker.
    """


for _command in (compare_command, cut_command):
    log.add_command(_command)


def _printer(as_ndjson: bool, body: BodyForm) -> Callable[[Record], None]:
    out = sys.stdout.buffer
    if as_ndjson:
        return lambda record: _write(out.write, as_json(record, body))
    return lambda record: _write(out.write, as_line(record, body).encode("utf-8", "backslashreplace"))


def _write(write: Callable[[bytes], int], line: bytes) -> None:
    write(line + b"\n")


@log.command("check")
@DIRECTORY
@click.option("--json", "as_json_object", is_flag=True, help="The report as one JSON object.")
@click.option("--index-slots", type=click.IntRange(1), help="maxHashSlotNum, if it can't be derived.")
@click.option("--index-items", type=click.IntRange(2), help="maxIndexNum, if it can't be derived.")
@reporting
def check_command(
    directory: str, as_json_object: bool, index_slots: int | None, index_items: int | None
) -> int:
    """Check the whole log, its consume queues and its index. Never writes.

    Every record is checked: structure, position, checksum of the body. A torn tail is reported, but isn't a
    problem.

    Exit codes: 0 no problem; 1 damage, or something that doesn't fit; 2 usage error, or no store.
    """
    folder = StoreFolder(PosixFileSystem(), directory)
    check = StoreCheck(folder, _index_shape(index_slots, index_items))
    try:
        files = folder.open_log()
    except WrongFile as error:
        report = check.refused(str(error))
    else:
        with ScanProgress("check", files.min_offset, files.capacity_end) as progress:
            report = check.run(files, progress)
    print_result(report, as_json_object, report_lines)
    return EXIT_OK if report.ok else EXIT_PROBLEMS


def _index_shape(slots: int | None, items: int | None) -> tuple[int, int] | None:
    """What the two options say, which are given both or not at all."""
    if slots is None and items is None:
        return None
    if slots is None or items is None:
        raise click.UsageError("--index-slots and --index-items must be given together")
    return slots, items


@log.command("index")
@DIRECTORY
@click.option("--no-index", is_flag=True, help="Build the consume queues only.")
@click.option(
    "--queue-file-size",
    type=click.IntRange(20),
    help="mappedFileSizeConsumeQueue, if there is no queue file to derive it from.",
)
@click.option(
    "--index-slots",
    type=click.IntRange(1),
    help="maxHashSlotNum, if there is no index file to derive it from.",
)
@click.option(
    "--index-items", type=click.IntRange(2), help="maxIndexNum, if there is no index file to derive it from."
)
@click.option("--delay-levels", default=DEFAULT_DELAY_LEVELS, show_default=True, help="messageDelayLevel.")
@click.option("--json", "as_json_object", is_flag=True, help="The report as one JSON object.")
@reporting
def index_command(
    directory: str,
    no_index: bool,
    queue_file_size: int | None,
    index_slots: int | None,
    index_items: int | None,
    delay_levels: str,
    as_json_object: bool,
) -> int:
    """Rebuild consume queues and index from the log.

    No broker may be using the store. The old files stay until the new ones are on disk.

    Exit codes: 0 built; 2 usage error, no store, or one in use.
    """
    # Not at the top: `hatwisted --help` and tab completion don't pay for the pipeline's packages.
    from hatwisted.cli.log.indexcommand import rebuild
    from hatwisted.pipeline.jobs.reindex.reindexing import Layout

    folder = StoreFolder(PosixFileSystem(), directory)
    try:
        parse_delay_levels(delay_levels)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    slots, items = _index_shape(index_slots, index_items) or (None, None)
    layout = Layout(queue_file_size, slots, items, not no_index, delay_levels)
    with locked(folder):
        files = folder.open_log()
        with ScanProgress("index", files.min_offset, files.capacity_end) as progress:
            report = rebuild(folder, files, layout, progress)
    if as_json_object:
        echo_json(report)
    else:
        click.echo(
            f"built up to offset {report.end}: {report.queue_entries} entries in {report.queues} queues, "
            f"index files: {report.index_files}, queues kept only for their offsets: {report.carried_over}"
        )
    return EXIT_OK


@log.command("repair")
@DIRECTORY
@click.option(
    "--at", type=click.IntRange(0), help="Offset of the damage to cut at, if there is more than one."
)
@click.option("--yes", is_flag=True, help="Carry out the plan. Without this option it is only shown.")
@click.option("--json", "as_json_object", is_flag=True, help="The plan as one JSON object.")
@reporting
def repair_command(directory: str, at: int | None, yes: bool, as_json_object: bool) -> int:
    """Cut a damaged log so that the store starts again.

    Everything from the damage on, good records included, is removed from the log and kept in a file under
    DIR/repair. A torn tail needs no repair.

    Exit codes: 0 no damage, or cut; 1 damage that hasn't been cut; 2 usage error, no store, or one in use.
    """
    folder = StoreFolder(PosixFileSystem(), directory)
    with locked(folder):
        files = folder.open_log(read_only=not yes)
        with ScanProgress("check", files.min_offset, files.capacity_end) as progress:
            inspection = LogInspection(files, folder.open_queues(), progress)
        if not inspection.damages:
            click.echo("null" if as_json_object else "no damage: nothing to repair")
            return EXIT_OK
        plan = plan_repair(folder, inspection, at)
        if yes:
            with ScanProgress("save", plan.offset, plan.end) as progress:
                repair(folder, files, plan, progress)
            files.close()
    print_result(plan, as_json_object, plan_lines)
    return EXIT_OK if plan.done else EXIT_PROBLEMS


@log.command("dump")
@DIRECTORY
@click.option("--from", "begin", type=Position(), help="Start: an offset, or a store time (UTC).")
@click.option("--to", "end", type=Position(), help="End, exclusive: an offset, or a store time (UTC).")
@click.option("--limit", type=click.IntRange(0), metavar="N", help="At most N records.")
@filter_options
@reporting
def dump_command(
    directory: str,
    begin: tuple[str, int] | None,
    end: tuple[str, int] | None,
    limit: int | None,
    topic: str | None,
    queue: int | None,
    key: str | None,
    body: BodyForm,
    as_ndjson: bool,
) -> int:
    """Show records in log order.

    Damaged ranges are skipped and reported on standard error.

    Exit codes: 0 done; 1 there is damage; 2 usage error, or no store.
    """
    wanted = RecordFilter(topic=topic, queue_id=queue, key=key, **_bounds(begin, end))
    files = StoreFolder(PosixFileSystem(), directory).open_log()
    with ScanProgress("dump", files.min_offset, files.capacity_end) as progress:
        walk = dump(files, wanted, limit, _printer(as_ndjson, body), progress)
    for damage in walk.damages:
        text = (
            f"damage at offset {damage.offset}: {damage.reason}; valid records resume at {damage.resumes_at}"
        )
        click.echo(printable(text), err=True)
    return EXIT_PROBLEMS if walk.damages else EXIT_OK


def _bounds(begin: tuple[str, int] | None, end: tuple[str, int] | None) -> dict[str, int]:
    bounds = {}
    for side, given in (("from", begin), ("to", end)):
        if given is not None:
            bounds[f"{side}_{given[0]}"] = given[1]
    return bounds


@log.command("tail")
@DIRECTORY
@click.option(
    "-n", "count", type=click.IntRange(0), default=10, show_default=True, help="Show the last N records."
)
@click.option(
    "-f",
    "--follow",
    "following",
    is_flag=True,
    help="Keep showing records as they are appended, until interrupted.",
)
@filter_options
@reporting
def tail_command(
    directory: str,
    count: int,
    following: bool,
    topic: str | None,
    queue: int | None,
    key: str | None,
    body: BodyForm,
    as_ndjson: bool,
) -> int:
    """Show the last records and, with -f, new ones as they are appended.

    May be used while a broker is running.

    Exit codes: 0 done, also by Ctrl-C; 2 usage error, or no store.
    """
    wanted = RecordFilter(topic=topic, queue_id=queue, key=key)
    files = StoreFolder(PosixFileSystem(), directory).open_log()
    show = _printer(as_ndjson, body)
    records, end = last_records(files, wanted, count)
    for record in records:
        show(record)
    out = sys.stdout.buffer
    out.flush()
    if following:
        try:
            for record in follow(
                files, end, wanted, time.sleep, lambda text: click.echo(printable(text), err=True)
            ):
                show(record)
                out.flush()
        except KeyboardInterrupt:
            return EXIT_OK
    return EXIT_OK

"""Consume queues and index rebuilt from the commit log alone: the offline counterpart of a broker's dispatch.

Two passes of Spark tasks. The first reads the log in parts and spools entries and items (`spool`); it returns
one line per part and queue. From these lines the driver plans every file (`queueplan`, `indexfiles`), and
the second pass writes them, queues and index files side by side. Nothing is sorted or shuffled, and memory doesn't
grow with the log: a task holds one part's entries, the driver the runs.

The files are byte for byte those that a broker has built while it ran, RocketMQ or hatwisted: same sizes, same
blank entries before queues that begin in mid-stream, same chains in the index. What a running broker knows
and the log doesn't is carried over from the store: queues whose records have all expired still say which offset
comes next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from os.path import abspath, dirname, isdir, join
from typing import TYPE_CHECKING, Any

from hatwisted.logcodec.delaylevel import DEFAULT_DELAY_LEVELS, parse_delay_levels
from hatwisted.logcodec.logwalk import Damage
from hatwisted.logcodec.queueentry import DEFAULT_FILE_SIZE, ENTRY_SIZE
from hatwisted.logcodec.rangedispatch import DispatchOptions
from hatwisted.pipeline.errors import DamagedLogRange, PipelineError
from hatwisted.pipeline.jobs.reindex.newfolders import NewFolders, take_back
from hatwisted.pipeline.jobs.reindex.spool import SpooledPart
from hatwisted.pipeline.jobs.reindex.twopass import (
    SPLIT_BYTES,
    Built,
    ReadOptions,
    Rebuild,
    Shape,
    deleted_ends,
    read_parts,
)
from hatwisted.pipeline.jobs.storecopy import StoreCopy
from hatwisted.pipeline.jobs.workertasks import Progress, Tasks, as_tasks
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.index.indexfile import DEFAULT_ITEMS, DEFAULT_SLOTS
from hatwisted.store.lifecycle.filesizes import index_shape, queue_file_size
from hatwisted.wire.storenames import INDEX_FOLDER, LOG_FOLDER, QUEUE_FOLDER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Layout:
    """How the files are made; None: as those that the store has, or else by RocketMQ's defaults.

    - queue_file_size: bytes
    - slots, items: of an index file
    - index: build one at all
    - delay_levels: as `messageDelayLevel`, must be the broker's
    """

    queue_file_size: int | None = None
    slots: int | None = None
    items: int | None = None
    index: bool = True
    delay_levels: str = DEFAULT_DELAY_LEVELS

    def of(self, root: str) -> Shape:
        """The sizes, taken from the store in `root` where they aren't given."""
        fs = PosixFileSystem()
        size = self.queue_file_size or queue_file_size(fs, join(root, QUEUE_FOLDER)) or DEFAULT_FILE_SIZE
        slots, items = self.slots, self.items
        if slots is None or items is None:
            found = index_shape(fs, join(root, INDEX_FOLDER)) if self.index else None
            if found is None and self.index and fs.listdir(join(root, INDEX_FOLDER)):
                raise PipelineError(
                    f"{join(root, INDEX_FOLDER)}: its files don't tell how many slots and items they have; give "
                    "both as the broker has them (maxHashSlotNum, maxIndexNum)"
                )
            usual = found or (DEFAULT_SLOTS, DEFAULT_ITEMS)
            slots, items = slots or usual[0], items or usual[1]
        if slots < 1 or items < 2:
            raise PipelineError(f"an index file of {slots} slots and {items} items holds nothing")
        return Shape(-(-size // ENTRY_SIZE) * ENTRY_SIZE, slots, items)

    @property
    def folders(self) -> tuple[str, ...]:
        """What is built."""
        return (QUEUE_FOLDER, INDEX_FOLDER) if self.index else (QUEUE_FOLDER,)

    def levels(self) -> tuple[int, ...]:
        """The delay levels in ms."""
        try:
            return tuple(parse_delay_levels(self.delay_levels))
        except ValueError as error:
            raise PipelineError(f"{error}; give messageDelayLevel as the broker has it") from error


@dataclass(frozen=True, slots=True)
class SkippedRange:
    """[begin, end) of the log holds no valid record."""

    begin: int
    end: int
    reason: str

    def __str__(self) -> str:
        return f"[{self.begin}, {self.end}): {self.reason}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReindexResult(Built):
    """What was built, from the log's [begin, end) into `target`."""

    target: str
    begin: int
    end: int
    records: int
    damaged: tuple[SkippedRange, ...]
    seconds: float

    @property
    def exit_code(self) -> int:
        """0: every record got its entry; 1: there was damage, or there were records without one."""
        return 1 if self.damaged or self.refused else 0

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReindexOptions:
    """How to rebuild.

    - layout: of the files
    - replace_existing: replace existing folders, which no broker may be using
    - skip_damage: go on after damage in the middle of the log instead of DamagedLogRange
    - check_crc: take a record with a wrong body checksum for damage, which a broker doesn't when it dispatches
    - split_bytes: of log per task
    """

    layout: Layout = Layout()
    replace_existing: bool = False
    skip_damage: bool = False
    check_crc: bool = False
    split_bytes: int = SPLIT_BYTES


def reindex(
    spark: SparkSession | Tasks,
    store: str,
    target: str,
    options: ReindexOptions = ReindexOptions(),
    *,
    progress: Progress | None = None,
    seconds: Callable[[], float] = time.monotonic,
) -> ReindexResult:
    """Build `target`/consumequeue and `target`/index from the log in `store`; the target may be the store.

    - spark: the session, or other Tasks
    - store, target: folders
    - options: how
    - progress: called with (bytes of log read, in all)
    - seconds: the clock that durations are taken from
    """
    started = seconds()
    copy = StoreCopy.open(store)
    root = dirname(dirname(abspath(copy.files[0].path)))
    layout = options.layout
    take_back(target, layout.folders)
    shape = layout.of(root)
    dispatch = DispatchOptions(delay_levels=layout.levels(), keys=layout.index, deleted=deleted_ends(root))
    read = ReadOptions(dispatch=dispatch, check_crc=options.check_crc, part_bytes=options.split_bytes)
    folders = NewFolders(target, layout.folders, replace=options.replace_existing)
    in_store = isdir(join(target, LOG_FOLDER))
    try:
        with folders.held() if in_store else nullcontext():
            pass  # fail now rather than when everything is built
        tasks = as_tasks(spark)
        parts = read_parts(tasks, copy, folders.path, read, progress)
        damages = [each for part in parts for each in part.damages]
        if damages and not options.skip_damage:
            raise _damage(copy, damages[0])
        old_queues = join(root, QUEUE_FOLDER)
        built = Rebuild(tasks, folders.path, shape, old_queues, copy.min_offset).build(parts)
        folders.put_in_place(lock=in_store)
    except OSError as error:
        raise PipelineError(f"{error.filename or target}: {error.strerror}; nothing was changed") from error
    finally:
        folders.discard()
    return _result(target, copy, parts, built, seconds() - started)


def _damage(copy: StoreCopy, damage: Damage) -> DamagedLogRange:
    at = damage.offset
    path = next(file.path for file in copy.files if file.base <= at < file.base + file.size)
    return DamagedLogRange(
        f"{path}: no valid record from offset {at} to {damage.resumes_at} ({damage.reason}); nothing was built, "
        "see 'hatwisted log check', or skip the damage"
    )


def _result(
    target: str, copy: StoreCopy, parts: Sequence[SpooledPart], built: Built, seconds: float
) -> ReindexResult:
    return ReindexResult(
        target=target,
        begin=copy.min_offset,
        end=copy.end,
        records=sum(part.records for part in parts),
        **asdict(built),
        damaged=tuple(SkippedRange(*damage) for part in parts for damage in part.damages),
        seconds=seconds,
    )

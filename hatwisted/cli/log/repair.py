"""Cutting a damaged log so that the store starts again, and losing nothing by it.

A broker refuses to start when valid records follow bytes that aren't, since a cut would remove them.
Whether that's acceptable depends on what other copies there are, which only the operator knows; so this
command only shows its plan, and carries it out with `--yes`. Everything from the damage on, good or bad, goes
to a side file before anything is cut, with a note about where it came from: the bytes are those of the log,
so their records can be read and sent again.

Rejected: putting a filler record over the damage and continuing after it. All offsets would stay, but this log
would differ from its copies for ever, and no broker would notice.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from os.path import join
from typing import Final

import msgspec
import numpy as np

from hatwisted.cli.errors import CannotRun
from hatwisted.cli.log.storesizes import StoreFolder
from hatwisted.logcodec.logwalk import Damage, LogWalk, WalkOptions
from hatwisted.store.disk.wholefile import replace_file
from hatwisted.store.interfaces import IFileSystem
from hatwisted.store.lifecycle.lastrun import LastRun
from hatwisted.store.lifecycle.queueevidence import QueueEvidence
from hatwisted.store.lifecycle.sidefile import SIDE_FOLDER, keep_aside, side_file
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.queue.queuetable import ConsumeQueueTable

CHUNK: Final = 8 << 20
"""Bytes copied at once."""


class RepairPlan(msgspec.Struct, rename="camel", kw_only=True):
    """What would be, or was, done. Offsets and sizes in bytes.

    All bytes of [offset, end) go to side_file; records: valid ones among them.
    """

    directory: str
    offset: int
    reason: str
    resumes_at: int
    end: int
    bytes: int
    records: int
    side_file: str
    done: bool = False


class LogInspection:
    """The damages of a log, and how many valid records come after each.

    - log: which
    - queues: say where records are; None: there are none
    - progress: called with the offset reached
    """

    def __init__(
        self, log: FileQueue, queues: ConsumeQueueTable | None, progress: Callable[[int], None]
    ) -> None:
        walk = LogWalk(
            log,
            log.min_offset,
            options=WalkOptions(evidence=QueueEvidence(queues)),
            progress=progress,
        )
        records_before: list[int] = []
        self.records = 0
        for scan in walk:
            while len(records_before) < len(walk.damages):
                records_before.append(self.records)
            self.records += len(scan)
        assert walk.end is not None
        self.damages: list[Damage] = walk.damages
        self._records_before = records_before
        self.end = walk.end.offset + walk.end.torn

    def records_after(self, damage: Damage) -> int:
        """Valid records that a cut at this damage removes."""
        return self.records - self._records_before[self.damages.index(damage)]

    def choose(self, offset: int | None) -> Damage:
        """The damage at `offset`, or the only one."""
        if offset is None and len(self.damages) > 1:
            places = ", ".join(str(damage.offset) for damage in self.damages)
            raise CannotRun(f"damage at {len(self.damages)} offsets ({places}): choose one with --at")
        for damage in self.damages:
            if offset in (None, damage.offset):
                return damage
        raise CannotRun(f"no damage begins at offset {offset}")


def plan_repair(folder: StoreFolder, inspection: LogInspection, offset: int | None) -> RepairPlan:
    """Choose the damage and say what a cut there would do.

    - folder: the store
    - inspection: of its log
    - offset: of the damage; None: the only one
    """
    damage = inspection.choose(offset)
    return RepairPlan(
        directory=folder.path,
        offset=damage.offset,
        reason=damage.reason,
        resumes_at=damage.resumes_at,
        end=inspection.end,
        bytes=inspection.end - damage.offset,
        records=inspection.records_after(damage),
        side_file=side_file(folder.required_root(), damage.offset, inspection.end),
    )


def repair(folder: StoreFolder, log: FileQueue, plan: RepairPlan, progress: Callable[[int], None]) -> None:
    """Carry the plan out. The cut begins only when the side file is on disk.

    - folder: a locked store
    - log: its log, opened for writing
    - plan: what to do
    - progress: called with the offset reached
    """
    fs = folder.fs
    side_folder = join(folder.required_root(), SIDE_FOLDER)
    fs.makedirs(side_folder)
    if not _is_kept(fs, log, plan):
        _keep(fs, side_folder, log, plan, progress)
    note = msgspec.json.format(msgspec.json.encode(plan)) + b"\n"
    replace_file(fs, plan.side_file.removesuffix(".bin") + ".json", note)
    # Consumers may hold offsets of messages that are about to go; the broker must not accept them.
    LastRun(fs, folder.required_root(), "").cut()
    _cut(log, plan.offset)
    plan.done = True


def _is_kept(fs: IFileSystem, log: FileQueue, plan: RepairPlan) -> bool:
    """Has this cut been interrupted, by a failure of power for example, when all was in the side file? What it had
    cut by then is zero. Raises CannotRun if the file has other bytes."""
    if not fs.exists(plan.side_file):
        return False
    same = fs.size(plan.side_file) == plan.bytes
    with closing(fs.open(plan.side_file, read_only=True)) as kept:
        at = plan.offset
        while same and at < plan.end:
            chunk = log.read(at, min(CHUNK, plan.end - at))
            here = np.frombuffer(chunk, np.uint8)
            there = np.frombuffer(kept.pread(len(chunk), at - plan.offset), np.uint8)
            same = bool(np.all((here == there) | (here == 0)))
            at += len(chunk)
    if not same:
        raise CannotRun(
            f"{plan.side_file} exists: move it away, it is the only copy of bytes that were cut earlier"
        )
    return True


def _keep(
    fs: IFileSystem, side_folder: str, log: FileQueue, plan: RepairPlan, progress: Callable[[int], None]
) -> None:
    free = fs.usage(side_folder)[1]
    if free < plan.bytes:
        raise CannotRun(
            f"{side_folder} has {free} bytes free, but {plan.bytes} are needed to keep what is cut"
        )
    keep_aside(fs, plan.side_file, log, (plan.offset, plan.end), progress)


def _cut(log: FileQueue, offset: int) -> None:
    """Remove the files after `offset`, newest first, and zero the rest of the one that holds it."""
    file_end = log.capacity_end_of(offset)
    log.delete_from(offset if offset % log.file_size == 0 else file_end)
    at = offset
    while at < min(file_end, log.capacity_end):
        chunk = log.read(at, min(CHUNK, file_end - at))
        if chunk.strip(b"\0"):
            log.write(at, (bytes(len(chunk)),))
        at += len(chunk)
    log.datasync(offset, file_end)

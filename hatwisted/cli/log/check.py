"""Checking a store as a whole: log, queues and index, in one pass over the log, without writing a byte.

The log is walked from its first record to its last with checksums. Every chunk of valid records is compared
with the queues and the index on the way, so that nothing has to be kept: memory stays the same for a gigabyte
and for a terabyte.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hatwisted.cli.log.findings import Finding, Findings
from hatwisted.cli.log.indexcheck import IndexComparison, IndexItems
from hatwisted.cli.log.queuecheck import QueueComparison
from hatwisted.cli.log.storesizes import StoreFolder
from hatwisted.logcodec.delaylevel import DEFAULT_DELAY_LEVELS, parse_delay_levels
from hatwisted.logcodec.dispatchscan import dispatch_columns
from hatwisted.logcodec.logwalk import LogEnd, LogWalk, WalkOptions
from hatwisted.store.errors import WrongFile
from hatwisted.store.lifecycle.queueevidence import QueueEvidence
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.wire.storenames import ABORT_FILE


class DamageReport(msgspec.Struct, rename="camel"):
    """Bytes that aren't records, although records follow them. Offsets and sizes in bytes.

    unreadable: up to where valid records resume; at_stake: from the damage to the log's end, which is what a
    cut at the damage would remove.
    """

    offset: int
    reason: str
    resumes_at: int
    unreadable: int
    at_stake: int


class TailReport(msgspec.Struct, rename="camel"):
    """Bytes after the last record that don't form one: normal after a crash, cut at the next start."""

    offset: int
    bytes: int
    reason: str
    leftovers: bool


class CheckReport(msgspec.Struct, rename="camel", kw_only=True):
    """What a check found. Offsets and sizes in bytes, times in ms; queues, entries, items count what was
    compared, None where there was nothing to compare with."""

    directory: str
    ok: bool = True
    log_files: int = 0
    file_size: int = 0
    begin: int = 0
    end: int = 0
    records: int = 0
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    damages: list[DamageReport] = msgspec.field(default_factory=list)
    torn_tail: TailReport | None = None
    queues: int = 0
    queue_entries: int | None = None
    index_files: int | None = None
    index_items: int | None = None
    unclean_exit: bool = False
    in_use_by: int | None = None
    problems: list[Finding] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)


class StoreCheck:
    """One check. index_shape: (slots, items) of the index files where they can't be derived."""

    def __init__(self, folder: StoreFolder, index_shape: tuple[int, int] | None = None) -> None:
        self._folder = folder
        self._findings = Findings()
        self._delay_levels = parse_delay_levels(DEFAULT_DELAY_LEVELS)
        self._index_shape = index_shape or folder.index_shape()
        self.report = CheckReport(directory=folder.path)

    def run(self, log: FileQueue, progress: Callable[[int], None]) -> CheckReport:
        """Check the loaded `log` and all that belongs to it."""
        report = self.report
        report.log_files, report.file_size, report.begin = len(log.starts), log.file_size, log.min_offset
        report.in_use_by = self._folder.holder()
        root = self._folder.root
        report.unclean_exit = root is not None and self._folder.fs.exists(f"{root}/{ABORT_FILE}")
        table = self._open_queues()
        queues = QueueComparison(table, self._findings)
        index = self._open_index(log)
        walk = LogWalk(
            log, log.min_offset, options=WalkOptions(evidence=QueueEvidence(table)), progress=progress
        )
        for scan in walk:
            columns = dispatch_columns(scan, self._delay_levels)
            queues.take(scan, columns)
            if index is not None:
                index.take(scan, columns)
            report.records += len(scan)
            if report.first_timestamp is None:
                report.first_timestamp = int(scan.store_timestamps[0])
            report.last_timestamp = int(scan.store_timestamps[-1])
        assert walk.end is not None
        queues.finish(log.min_offset, walk.end.offset)
        report.queues = len(queues)
        report.queue_entries = queues.entries if table is not None else None
        if index is not None:
            index.finish(walk.end.offset)
            report.index_files, report.index_items = index.files, index.items
        self._conclude(walk, walk.end)
        return report

    def refused(self, reason: str) -> CheckReport:
        """The report when the files can't be read as a log at all."""
        self._findings.add("unexpected files", reason)
        self.report.problems = self._findings.all()
        self.report.ok = False
        return self.report

    def _open_queues(self) -> ConsumeQueueTable | None:
        try:
            table = self._folder.open_queues()
        except WrongFile as error:
            self._findings.add("unexpected files", str(error))
            return None
        if table is None:
            self.report.notes.append("no consume queues to compare with")
        return table

    def _open_index(self, log: FileQueue) -> IndexComparison | None:
        folder = self._folder.index_folder
        if folder is None or not self._folder.fs.listdir(folder):
            self.report.notes.append("no index to compare with")
            return None
        if self._index_shape is None:
            self.report.notes.append(
                "index not compared: its shape can't be derived; give --index-slots and --index-items"
            )
            return None
        items = IndexItems(self._folder.fs, folder, *self._index_shape, self._findings)
        return IndexComparison(items, self._findings, log.capacity_end)

    def _conclude(self, walk: LogWalk, end: LogEnd) -> None:
        report = self.report
        report.end = end.offset
        report.damages = [
            DamageReport(at, reason, resumes, resumes - at, end.offset - at)
            for at, resumes, reason in walk.damages
        ]
        if end.torn:
            report.torn_tail = TailReport(end.offset, end.torn, end.reason, end.leftovers)
        if end.torn_record is not None:
            report.notes.append(
                f"the last record, at offset {end.torn_record}, ends in zero bytes: it is torn and "
                "will be cut at the next start, unless its queue entry shows that it is whole"
            )
        if report.in_use_by:
            report.notes.append(
                f"in use by process {report.in_use_by}: the newest records may not be in the queues yet"
            )
        report.problems = self._findings.all()
        report.ok = not report.damages and not report.problems

"""Bringing log, queues and index together again at start, before anything serves.

In this order, and nothing is changed before the first two are done: queues find their own ends; the log's
records are followed from a place known to be good up to where they end (`logcodec.logwalk`); the log is cut
there, with everything that was cut zeroed so that it can never be taken for records later; queues and index lose
what names records beyond the end; and what they lack is dispatched again from the log.

Where to begin. After a clean exit the log is followed from its third last file on, as RocketMQ does, and
dispatched from where queues and index end (an index that needed nothing for long ends far back, so each sync
notes how far it's complete); but whether every queue is there is checked rather than assumed
(`queuecompleteness`). After an unclean one both begin at the newest file that starts with a record which, by the
checkpoint, was on disk together with its queue entries. What queues and index say of records from there on may be
of any time: pages reach the disk in any order. It's built again; what queues say serves as evidence of where the
log ends before.

What recovery has changed is on the disk before it ends. A cut that isn't would be undone by the next failure of
power, and entries that had been cut would then name whatever has come to lie there since.

Where only the process was killed and the system has gone on, every write of that process can be read, though a
sync of it may have failed (`unsyncedpages`). So queues are taken as they are, without the last entry, which may
be half written, and what no checkpoint covers of them is written again; only where the log was cut anything has to
be synced before the end.

Bytes after the end are a torn tail, cut and reported; unless a record can be proved to lie among them. That is
damage: start is refused with `DamagedLog` and nothing is touched. But where a power failure has left a hole in
what was never synced (`unsyncedtail`), everything from there on is cut as well, and kept in a side file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from twisted.logger import Logger

from hatwisted.kernel import whole_records
from hatwisted.logcodec.logwalk import LogEnd, LogWalk, WalkOptions
from hatwisted.logcodec.onerecord import record_at
from hatwisted.logcodec.recordsearch import written_end
from hatwisted.store.dispatch.dispatcher import Dispatcher
from hatwisted.store.errors import DamagedEnd, NoRecord
from hatwisted.store.index.indexservice import IndexService
from hatwisted.store.lifecycle.checkpoint import StoreCheckpoint
from hatwisted.store.lifecycle.damage import damaged, damaged_before, is_whole
from hatwisted.store.lifecycle.queuecompleteness import checked_end, first_incomplete_file
from hatwisted.store.lifecycle.queueevidence import QueueEvidence
from hatwisted.store.lifecycle.tailcut import TailCut
from hatwisted.store.lifecycle.unsyncedpages import UnsyncedPages
from hatwisted.store.lifecycle.unsyncedtail import Break, Synced, is_unsynced
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.queue.queuetable import ConsumeQueueTable

SCANNED_FILES: Final = 3
"""Files at the log's end that are followed after a clean exit, as in RocketMQ."""

PROGRESS_BYTES: Final = 16 << 20
"""Bytes between two calls of the progress callback: 20 ms at full speed, half a second on a slow disk."""

Progress = Callable[[int, int], None]
"""(bytes done, bytes in all); the total may grow once it's known what must be dispatched."""

KeepAside = Callable[[int, int], str]
"""Copies the bytes [begin, end) of the log to a file, durably, and gives its path."""

_log = Logger()


class RecoverableLog(Protocol):
    """The part of the commit log that recovery needs."""

    @property
    def files(self) -> FileQueue: ...

    def set_end(self, end: int) -> None: ...


@dataclass(frozen=True)
class StoreParts:
    """What a recovery brings into one consistent state. dispatcher: builds queues and index from the log."""

    log: RecoverableLog
    queues: ConsumeQueueTable
    index: IndexService | None
    checkpoint: StoreCheckpoint
    dispatcher: Dispatcher


@dataclass(frozen=True, kw_only=True)
class RecoveryOptions:
    """How the previous run ended, and what is compared.

    - unclean: the abort file was there
    - same_boot: the system has gone on since, so nothing that was written can be missing
    - flushed: log offset up to which the previous run had synced it, known only with `same_boot`; None: it isn't
    - check_crc: compare body checksums
    - index_safe: begin where the index was on disk as well (`messageIndexSafe`)
    """

    unclean: bool
    same_boot: bool = False
    flushed: int | None = None
    check_crc: bool = True
    index_safe: bool = False


@dataclass(slots=True)
class RecoveryReport:
    """What a recovery has found and done. Offsets and sizes in bytes.

    start, end: the log was followed from here to its valid end; flushed: up to here it's known to be on the disk.
    records: how many, store_timestamp (ms): the last one's, 0 if none. torn_bytes: what was cut after the end, up
    to the last byte that isn't zero, and torn_reason; kept_aside: the file that holds it if records were among it.
    dispatched_from: where dispatch began; dispatched_bytes. index_items_cut: of records cut.
    """

    unclean: bool
    start: int = 0
    end: int = 0
    flushed: int = 0
    records: int = 0
    store_timestamp: int = 0
    torn_bytes: int = 0
    torn_reason: str = ""
    kept_aside: str = ""
    files_removed: int = 0
    index_items_cut: int = 0
    dispatched_from: int = 0
    dispatched_bytes: int = 0


def recover(
    parts: StoreParts,
    options: RecoveryOptions,
    *,
    keep_aside: KeepAside,
    before_changes: Callable[[], None] = lambda: None,
    progress: Progress = lambda done, total: None,
) -> RecoveryReport:
    """Recover a store whose parts are loaded; blocks until everything is dispatched. The log's end is set.

    - parts: of the store
    - options: what the exit was like, and what is compared
    - keep_aside: keeps a tail whose records are about to be cut
    - before_changes: called before anything is cut or built, once the store is known to be accepted: a
      recovery that is killed must be recognised as one
    - progress: called every PROGRESS_BYTES with how far it is

    Raises DamagedLog, OtherFileSize, StoreFull or another OSError.
    """
    recovery = _Recovery(parts, options, keep_aside, progress)
    report = recovery.report
    if not parts.log.files.starts:
        parts.queues.recover()
        before_changes()
        _without_log(parts.queues, parts.index)
        recovery.sync()
        parts.log.set_end(0)
        parts.dispatcher.begin_at(0)
        return report
    report.start = recovery.scan_start()
    parts.queues.recover(recovery.believed)
    found = recovery.find_end()
    before_changes()
    recovery.cut(found)
    recovery.write_again()
    parts.log.set_end(report.end)
    report.dispatched_from = recovery.dispatch_start()
    recovery.dispatch()
    recovery.sync()
    return report


def _without_log(queues: ConsumeQueueTable, index: IndexService | None) -> None:
    """No log, no queues, no index: what is left of them names nothing."""
    if len(queues):
        _log.warn("there is no commit log: removing queues and index")
    queues.destroy()
    if index is not None:
        index.destroy()


class _Recovery:
    """One run of `recover`."""

    def __init__(
        self,
        parts: StoreParts,
        options: RecoveryOptions,
        keep_aside: KeepAside,
        progress: Progress,
    ) -> None:
        self._files = parts.log.files
        self._queues = parts.queues
        self._index = parts.index
        self._checkpoint = parts.checkpoint
        self._dispatcher = parts.dispatcher
        self._options = options
        self._keep_aside = keep_aside
        self._progress = progress
        flushed = self._checkpoint.flushed if options.flushed is None else options.flushed
        self._unsynced = UnsyncedPages(self._files, flushed, self._checkpoint.synced_until)
        self._goes_on = options.unclean and options.same_boot
        """Only the process was killed: what it wrote can be read."""
        self._tail = TailCut(self._files)
        self._derived_cut = False
        self._indexed_to = -1
        self._done = self._total = self._reported = 0
        self.report = RecoveryReport(options.unclean)

    # -- the log's end ---------------------------------------------------------------------------------------

    def scan_start(self) -> int:
        """Offset of the record from which on the log isn't trusted."""
        starts = self._files.starts
        if not self.report.unclean:
            return starts[-SCANNED_FILES:][0]
        covers, index_safe = self._checkpoint.covers, self._options.index_safe
        for start in reversed(starts):
            stored = self._first_timestamp(start)
            if stored is not None and covers(start, stored, with_index=index_safe):
                return start
        return starts[0]

    def _first_timestamp(self, start: int) -> int | None:
        """Store time (ms) of the record a file begins with; None if it begins with something else."""
        first = record_at(self._files, start, check_crc=False)
        return None if first is None else first.store_timestamp

    @property
    def believed(self) -> int | None:
        """Log offset up to which what queues say is known to have been synced; None: what was written is there."""
        return self.report.start if self.report.unclean and not self._goes_on else None

    def find_end(self) -> LogEnd:
        """The log's end. Raises DamagedLog or OtherFileSize; changes nothing."""
        start, files, report = self.report.start, self._files, self.report
        self._total = files.capacity_end - start
        walk = LogWalk(
            files,
            start,
            options=WalkOptions(
                evidence=QueueEvidence(self._queues),
                check_crc=self._options.check_crc,
                known=max(self._queues.max_physical, 0 if self._index is None else self._index.end_physical),
                whole_records=whole_records,
            ),
            progress=lambda at: self._tick(at - start),
        )
        found = walk.to_end(self._unsynced.look_at if self._unsynced.looking else None)
        if found is None:
            found = self._unsynced_tail(walk)
        if found is None:
            raise damaged(files, walk)
        self._check_synced(found)
        report.records, report.store_timestamp = walk.count, walk.last_timestamp
        return found

    def _check_synced(self, found: LogEnd) -> None:
        """An orderly stop leaves no torn tail but a slave's, whose last frame ended in a record. Raises DamagedEnd
        for what has gone bad since."""
        synced = None if self.report.unclean else self._checkpoint.flushed
        if synced is not None and found.torn and is_whole(self._files, found.offset, synced):
            path = self._files.path_of(found.offset)
            raise DamagedEnd(found.offset, synced, found.offset + found.torn, found.reason, path)

    def _unsynced_tail(self, walk: LogWalk) -> LogEnd | None:
        """The log's end at a break after which nothing was ever promised; None if that can't be said."""
        (damage,) = walk.damages
        torn = walk.torn_record
        found = Break(damage.offset, damage.resumes_at, torn)
        if not self._options.unclean or self._options.same_boot:
            return None
        if not is_unsynced(
            self._files, found, Synced(self._checkpoint.flushed, self._checkpoint.synced_until)
        ):
            return None
        end = damage.offset if torn is None else torn
        self.report.kept_aside = self._keep_aside(end, walk.written)
        _log.warn(
            "valid records resume at offset {resumes}, after a hole at {offset} ({reason}): a power failure left "
            "them there before they were synced, so no answer promised that they are on disk; {count} bytes are "
            "cut and kept in {path}",
            resumes=damage.resumes_at,
            offset=damage.offset,
            reason=damage.reason,
            count=walk.written - end,
            path=self.report.kept_aside,
        )
        return LogEnd(end, walk.written - end, damage.reason, False, None)

    # -- cutting ---------------------------------------------------------------------------------------------

    def cut(self, found: LogEnd) -> None:
        """Make the log end where it ends, and queues and index with it."""
        report = self.report
        end, reason = self._decide_torn(found)
        report.end = end
        written = found.offset + found.torn if end == found.offset else written_end(self._files, end)
        report.torn_bytes = written - end
        report.files_removed = self._tail.cut(end, written)
        if report.torn_bytes:
            report.torn_reason = reason
            _log.warn(
                "the log's tail is torn at offset {end} ({reason}): cutting {count} bytes",
                end=end,
                reason=reason,
                count=report.torn_bytes,
            )
        index_end = 0 if self._index is None else self._index.end_physical + 1
        self._derived_cut = max(self._queues.max_physical, index_end) > end
        self._queues.truncate(end, believed=self.believed)
        if self._index is not None:
            if report.unclean:
                self._index.repair(self._checkpoint.index_timestamp, self._checkpoint.filled)
            self._indexed_to = self._noted(self._index.end_physical)
            report.index_items_cut = self._index.truncate(end)
            if self.believed is not None:
                self._index.truncate(min(self.believed, end))

    def _decide_torn(self, found: LogEnd) -> tuple[int, str]:
        """The end without a last record that breaks off in zeros. After a clean exit a queue that names it is
        proof that it was whole, and really ends like that."""
        if found.torn_record is None:
            return found.offset, found.reason
        if not self.report.unclean and self._queues.max_physical >= found.offset:
            return found.offset, found.reason
        return found.torn_record, "a record whose properties end in zero bytes"

    def write_again(self) -> None:
        """Make what may not be on the disk part of the next sync."""
        report = self.report
        report.flushed = report.end
        if report.unclean:
            self._unsynced.write_again(report.end)
            report.flushed = (
                report.start if self._options.flushed is None else min(self._options.flushed, report.end)
            )
        if self._goes_on:
            self._queues.write_again(report.start)

    # -- dispatching -----------------------------------------------------------------------------------------

    def dispatch_start(self) -> int:
        """Offset from which on queues or index may lack something."""
        report, begin = self.report, self._files.min_offset
        needed = [report.start if report.unclean else max(self._queues.max_physical, begin)]
        named = min(report.end, needed[0])
        end = named if report.unclean else checked_end(self._files, named, report.end)
        uncovered = first_incomplete_file(self._files, self._queues, end)
        if uncovered is not None:
            _log.warn("queues lack records from log file {start} on; rebuilding them", start=uncovered)
            # An entry that isn't one is no end yet: what follows it is taken for complete, and it for known.
            # One that names a later place hides all before that: from there on queues aren't believed.
            self._queues.recover(uncovered)
            self._queues.truncate(report.end, believed=uncovered)
            self._derived_cut = True
            needed.append(uncovered)
        if self._index is not None:
            needed.append(max(self._index.end_physical, self._indexed_to))
        return min(max(min(needed), begin), report.end)

    def _noted(self, last_item: int) -> int:
        """Offset up to which an index that still has what it had at the note lacks nothing; -1: it isn't known."""
        item, end = self._checkpoint.indexed or (0, -1)
        if self.report.unclean:
            return min(end, self.report.start) if last_item >= item else -1
        return end if last_item == item else -1

    def dispatch(self) -> None:
        """Dispatch everything that's there, making index files on the way."""
        dispatcher, start = self._dispatcher, self.report.dispatched_from
        self._done += self.report.end - self.report.start
        self._total = self._done + self.report.end - start
        with contextlib.nullcontext() if self._index is None else self._index.files_at_once():
            dispatcher.begin_at(start)
            try:
                while dispatcher.dispatch_some(PROGRESS_BYTES, float("inf")):
                    self._tick(self._done + dispatcher.reput_offset - start)
            except NoRecord as error:
                raise damaged_before(self._files, error, self.report, self._options.check_crc) from error
            self._queues.write_out()
        self.report.dispatched_bytes = dispatcher.reput_offset - start
        self._tick(self._total)

    def sync(self) -> None:
        """Make durable what was changed."""
        self._tail.sync()
        if self._goes_on and not self._derived_cut:
            return
        self._queues.datasync()
        if self._index is not None:
            self._index.datasync()

    def _tick(self, done: int) -> None:
        if done - self._reported >= PROGRESS_BYTES or done >= self._total:
            self._reported = done
            self._progress(done, max(done, self._total))

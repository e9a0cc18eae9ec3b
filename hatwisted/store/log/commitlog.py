"""The commit log: one endless stream of records in files of a fixed size.

Appending is one pass over all puts of a read: sizes, queue offsets and physical offsets are settled while the
records are encoded, then the whole run is written with one pwrite and handed to listeners (the HA link sends
those very bytes, without reading them back). Append, flush and replicate are three separate things: here
`max_offset` rises when the kernel has the bytes; `flushed_offset` is the flusher's, and what a slave has is the
HA link's.

Files are read by pread and written by pwrite, not through a mapping as RocketMQ does: with blocks reserved
ahead a full disk is an error at the roll to a new file, never a SIGBUS, and no page fault is taken with the
interpreter lock held. `mappedFileSizeCommitLog` keeps its name.

A write that fails leaves undefined bytes after the end. They are zeroed at once, or else before the next append,
so that a later recovery can't take them for records. Until the zeros are synced a power failure may still bring
them back: whether such a put is stored is unknown, and its status says so.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Mapping, Sequence

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from hatwisted.kernel import UNLIMITED, AppendRun, NextOffsets, RunEncoder
from hatwisted.store.errors import OffsetGap, StoreError, StoreFull
from hatwisted.store.interfaces import AppendListener, Buffer, IFile, IReplicatedLog, IWorker
from hatwisted.store.log.fileallocation import FileAllocation
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.log.lastrecord import last_record_start
from hatwisted.store.log.put import Put, PutLimits, PutStatus
from hatwisted.store.log.recentbytes import RecentBytes
from hatwisted.timing.histogram import Histogram
from hatwisted.wire import layout

CLOCK_STEP = 3600 * 1000
"""Most ms that store times stand still after a clock was set back between two runs: consumers that go by
time would miss what comes in later than that."""


@implementer(IReplicatedLog)
class CommitLog:
    """The log of one store. All methods belong to the reactor thread.

    - files: the file sequence, loaded by now or by `load`
    - clock: source of store timestamps
    - worker: prepares files
    - store_host: 8 or 20 bytes (address, port as i32) that brand every record
    - max_message_size: body limit (bytes)
    - on_full: called with the reason when there's no room for another file
    """

    _log = Logger()

    def __init__(
        self,
        files: FileQueue,
        clock: IReactorTime,
        worker: IWorker,
        store_host: bytes,
        max_message_size: int = 4 << 20,
        on_full: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._files = files
        self._clock = clock
        self._listeners: list[AppendListener] = []
        self._wakers: list[Callable[[], None]] = []
        self._recent = RecentBytes()
        self._dirty_end = 0
        self._failed_at = -1
        self._on_full = on_full
        self._allocation = FileAllocation(files, worker, on_full)
        self._least_timestamp = 0
        self._recovered_timestamp = 0
        self.file_size = files.file_size
        self.limits = PutLimits(max_message_size, files.file_size)
        self._encoder = RunEncoder(store_host, Put, self.limits.batch_size)
        self.queue_offsets = NextOffsets()
        """Next queue offset of each queue; filled by recovery, raised by appends."""
        self.max_offset = files.capacity_end
        self.flushed_offset = self.max_offset
        self.last_store_timestamp = 0
        """storeTimestamp (ms) of the newest record, for the checkpoint."""
        self.append_times = Histogram()
        """Seconds that puts took to be encoded and written, those of a read as one."""
        self.stopped_reason: str | None = None
        """Why nothing may be appended any more (a failed flush, files of another size), or None."""

    # -- positions -------------------------------------------------------------------------------------------

    @property
    def min_offset(self) -> int:
        """Offset of the first byte still held."""
        return self._files.min_offset

    @property
    def files(self) -> FileQueue:
        """The files of the stream."""
        return self._files

    def load(self) -> None:
        """Find the files. Until recovery has found the end, all that they could hold counts as written."""
        self._files.load()
        self.max_offset = self.flushed_offset = self._files.capacity_end

    def set_end(self, end: int) -> None:
        """Recovery has found the valid end: appends continue there. All of it counts as flushed."""
        self._recent.forget()
        self.max_offset = end
        self.flushed_offset = end

    def resume(
        self, queue_offsets: Mapping[tuple[str, int], int], store_timestamp: int, flushed: int
    ) -> None:
        """Accept appends: recovery is done.

        - queue_offsets: the next one of each queue
        - store_timestamp: ms, of the last record
        - flushed: what a killed process wrote from this offset on can be read, but may not be on the disk
        """
        self.queue_offsets = NextOffsets(queue_offsets)
        self.flushed_offset = flushed
        self._continue_after(store_timestamp)

    @property
    def newest_store_timestamp(self) -> int:
        """ms, of the last record put or recovered here; 0 without any."""
        return self.last_store_timestamp or self._recovered_timestamp

    def stop_appends(self, reason: str) -> None:
        """Accept nothing any more: everybody who tries gets `reason`."""
        self.stopped_reason = reason

    def _continue_after(self, store_timestamp: int) -> None:
        """No record gets an earlier store time (ms) than the one recovered last, though the clock was set back
        in between: recovery knows by these times what was on disk. Not beyond `CLOCK_STEP`."""
        self._recovered_timestamp = store_timestamp
        ahead = store_timestamp - int(self._clock.seconds() * 1000)
        if ahead > CLOCK_STEP:
            self._log.warn(
                "the log's last record is {ahead} s ahead of the clock; new store times follow the "
                "clock again",
                ahead=ahead // 1000,
            )
        else:
            self._least_timestamp = store_timestamp

    def add_listener(self, listener: AppendListener) -> None:
        """See IReplicatedLog."""
        self._listeners.append(listener)

    def remove_listener(self, listener: AppendListener) -> None:
        """See IReplicatedLog."""
        self._listeners.remove(listener)

    def add_waker(self, waker: Callable[[], None]) -> None:
        """`waker()` after every append, for those that read the log themselves (dispatch, flush)."""
        self._wakers.append(waker)

    def read(self, offset: int, limit: int) -> bytes:
        """See IReplicatedLog."""
        room = min(limit, self.max_offset - offset, self.file_size - offset % self.file_size)
        if room <= 0:
            return b""
        if offset < self.min_offset:
            raise LookupError(f"offset {offset} is below the log's first byte {self.min_offset}")
        return self._files.read(offset, room)

    def take_recent(self, offset: int, limit: int) -> list[Buffer]:
        """As `read`, for dispatch: in the pieces that are in memory still, see RecentBytes; [] if none are."""
        if self._recent.end != self.max_offset:
            return []
        return self._recent.take(offset, min(limit, self.file_size - offset % self.file_size))

    def open_file(self, offset: int) -> tuple[IFile, int]:
        """See IReplicatedLog."""
        return self._files.open_file(offset)

    def last_record_start(self) -> int:
        """See IReplicatedLog."""
        return last_record_start(self._files, self.max_offset)

    # -- master: append puts ---------------------------------------------------------------------------------

    def append(self, puts: Sequence[Put]) -> None:
        """Store all of `puts`, in order, and set their offsets; a put that can't be stored gets its status and
        reason instead, without harm to the others. A stored one keeps status None: it's appended, no more.
        Doesn't raise: some may be stored by then, and whoever asks for the others waits for an answer."""
        begun = self._clock.seconds()
        timestamp = max(int(begun * 1000), self.last_store_timestamp, self._least_timestamp)
        try:
            self._append(puts, timestamp)
        except Exception as error:
            end = self.max_offset
            self._log.failure("appending {count} puts at offset {end} failed", count=len(puts), end=end)
            lost = [put for put in puts if put.status is None and not 0 <= put.offset < end]
            self._unwind(lost, PutStatus.UNKNOWN_ERROR, f"append at offset {end} failed: {error}")
        self.last_store_timestamp = timestamp
        self.append_times.add(self._clock.seconds() - begun, len(puts))
        self._announce()

    def _append(self, puts: Sequence[Put], timestamp: int) -> None:
        run = self._new_run()
        encode, queue_offsets = self._encoder.encode_run, self.queue_offsets
        easy_size = self.limits.easy_size if self.stopped_reason is None else -1
        index = 0
        while (index := encode(puts, index, run, timestamp, queue_offsets, easy_size)) < len(puts):
            put = puts[index]
            index += 1
            field = self._encoder.topic_field(put.topic)
            size = self._encoder.size(put, field)
            if not self._admit(put, size, len(field) - 1):
                continue
            if run.at + size > run.room_end:
                run, reason = self._roll(run)
                if reason:
                    put.refuse(PutStatus.SERVICE_NOT_AVAILABLE, reason)
                    continue
            encode((put,), 0, run, timestamp, queue_offsets, UNLIMITED)
        self._write_run(run)

    def _admit(self, put: Put, size: int, topic_size: int) -> bool:
        if self.stopped_reason is not None:
            return put.refuse(PutStatus.SERVICE_NOT_AVAILABLE, self.stopped_reason)
        return self.limits.check(put, size, topic_size)

    def _new_run(self) -> AppendRun:
        """A run that begins at the log's end."""
        start = self.max_offset
        return AppendRun(start, self._files.capacity_end_of(start) - layout.BLANK_MIN_SIZE)

    def _write_run(self, run: AppendRun) -> str:
        """Write what was encoded; on an I/O error nothing of it counts, its puts are refused. Returns why, or
        ""."""
        if not run.parts:
            return ""
        blob = b"".join(run.parts)
        status = PutStatus.SERVICE_NOT_AVAILABLE
        try:
            self._clear_failed_write()
            status = PutStatus.UNKNOWN_ERROR
            self._files.write(run.start, (blob,))
        except (OSError, StoreFull) as error:
            if status is PutStatus.UNKNOWN_ERROR:
                self._write_failed(run.start + len(blob))
            reason = f"commit log write at offset {run.start} failed: {error}"
            self._log_failure(reason, error)
            self._unwind(run.puts, status, reason)
            return reason
        self.max_offset = run.start + len(blob)
        for listener in self._listeners:
            listener(run.start, blob)
        return ""

    def _write_failed(self, end: int) -> None:
        """A write up to `end` has: nobody may ever take what it has left for records."""
        self._dirty_end = max(self._dirty_end, end)
        with contextlib.suppress(OSError, StoreFull):
            self._clear_failed_write()

    def _clear_failed_write(self) -> None:
        """Zero what a failed write may have left after the end, in the files that are still there."""
        at, end = self.max_offset, min(self._dirty_end, self._files.capacity_end)
        while at < end:
            size = min(end, at - at % self.file_size + self.file_size) - at
            self._files.write(at, (bytes(size),))
            at += size
        self._dirty_end = 0

    def _log_failure(self, reason: str, error: Exception) -> None:
        """Once per place: while writes fail the log's end stays, and every read brings more puts."""
        if self._failed_at != self.max_offset:
            self._failed_at = self.max_offset
            self._log.error(
                "{reason}; puts are refused, the log still ends at {end}",
                event="store.failed",
                reason=reason,
                end=self.max_offset,
            )
        if isinstance(error, StoreFull):
            self._on_full(reason)

    def _unwind(self, puts: Sequence[Put], status: PutStatus, reason: str) -> None:
        """Refuse puts that weren't written, and take their numbers back."""
        for put in reversed(puts):
            if put.offset >= 0 and not put.sys_flag & layout.SYS_UNQUEUED:
                self.queue_offsets[put.topic, put.queue_id] = put.queue_offset
            put.offset = put.end = -1
            put.record_offsets = ()
            put.refuse(status, reason)

    # -- files -----------------------------------------------------------------------------------------------

    def _roll(self, run: AppendRun) -> tuple[AppendRun, str]:
        """Close the run's file with a blank and start a run in the next. Returns the run to go on with, and
        why there's no next file, or "".

        The next file comes first: a blank without a file after it would be taken for the log's end.
        """
        end = self._files.capacity_end_of(run.at)
        if not self._allocation.have(end):
            return run, self._allocation.refusal
        room = end - run.at
        if room:
            run.parts += (struct.pack(">iI", room, layout.MAGIC_BLANK), bytes(room - layout.BLANK_MIN_SIZE))
        reason = self._write_run(run)
        return self._new_run(), reason

    # -- slave: append what the master sent ------------------------------------------------------------------

    def append_raw(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """See IReplicatedLog."""
        if self.stopped_reason is not None:
            raise StoreError(self.stopped_reason)
        if offset and not self.max_offset and offset % self.file_size == 0:
            # Made by a master before its first put; an empty log may begin anywhere.
            self._files.delete_from(0)
        empty = not self._files.starts
        if (offset != self.max_offset and not empty) or (empty and offset % self.file_size):
            raise OffsetGap(offset, self.max_offset)
        total = sum(map(len, buffers))
        try:
            self._clear_failed_write()
            self._write_raw(offset, buffers, total)
        except (OSError, StoreFull):
            if empty:
                self._stay_empty()
            else:
                self._write_failed(min(offset + total, self._files.capacity_end))
            raise
        if empty:
            self.flushed_offset = offset
        self.max_offset = offset + total
        self._recent.add(offset, buffers, total)
        if self._listeners:
            blob = b"".join(buffers)
            for listener in self._listeners:
                listener(offset, blob)
        self._announce()

    def _stay_empty(self) -> None:
        """The very first append has failed: the next one may be for another place, as into any empty log."""
        try:
            self._files.delete_from(0)
        except OSError as error:
            self._log.error("files of a failed first append couldn't be removed: {error}", error=error)

    def _write_raw(self, offset: int, buffers: Sequence[Buffer], total: int) -> None:
        end = offset + total
        # A heartbeat into an empty or full last file makes the next file, as RocketMQ's slave does (B63).
        last = max(end - 1, offset)
        for start in range(offset - offset % self.file_size, last + 1, self.file_size):
            if not self._allocation.have(start):
                raise StoreFull(self._allocation.refusal)
        file_end = self._files.capacity_end_of(offset)
        if end <= file_end:
            self._files.write(offset, buffers)
            return
        blob = memoryview(b"".join(buffers))
        while blob:
            piece = blob[: self.file_size - offset % self.file_size]
            self._files.write(offset, (piece,))
            offset += len(piece)
            blob = blob[len(piece) :]

    # -- flush and end ---------------------------------------------------------------------------------------

    def datasync(self, upto: int) -> None:
        """fdatasync every file between `flushed_offset` and `upto`. Blocks: for the flusher's worker."""
        if upto > self.flushed_offset:
            self._files.datasync(self.flushed_offset, upto)

    def mark_flushed(self, upto: int) -> None:
        """The flusher has synced everything below `upto`."""
        self.flushed_offset = max(self.flushed_offset, upto)

    def _announce(self) -> None:
        for waker in self._wakers:
            waker()

    def close(self) -> None:
        """Remove the file prepared ahead (a clean exit leaves none) and close the rest.

        A log that ends with its last file's blank keeps an empty file after that, or gets one: RocketMQ would
        take the blank's start for the end otherwise, below what a slave has copied.
        """
        files = self._files
        files.delete_from(self.max_offset + 1)
        try:
            self._clear_failed_write()
            if files.starts and self.max_offset == files.capacity_end:
                files.create(self.max_offset)
        except (OSError, StoreFull) as error:
            self._log.warn("the log's end couldn't be cleaned up: {error}", error=error)
        files.close()

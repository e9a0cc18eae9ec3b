"""The message store: log, queues, index and their services put together, with one lifecycle.

`load` runs in the foreground before anything serves: lock the folder, load the files, recover. `start` begins
the timers, `stop` ends them in the order that loses nothing: dispatch what is left, last flush, checkpoint, and
only then the abort file goes, because its absence claims that all of that happened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os.path import join
from typing import Any

from twisted.internet.defer import inlineCallbacks
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.logcodec.onerecord import NO_TIME, whole_record
from hatwisted.store.dispatch.recordproof import RecordProof
from hatwisted.store.dispatch.reput import Dispatcher, ReputService
from hatwisted.store.errors import OtherFileSize, WrongEntry
from hatwisted.store.index.indexservice import IndexOptions, IndexService
from hatwisted.store.interfaces import ArrivalListener, GrownQueue, IFileSystem, IFlushPolicy, IWorker
from hatwisted.store.lifecycle.checkpoint import StoreCheckpoint
from hatwisted.store.lifecycle.diskwatermark import DiskWatermark, WatermarkLimits
from hatwisted.store.lifecycle.dispatchedsync import DispatchedSync
from hatwisted.store.lifecycle.flushedmark import FlushedMark
from hatwisted.store.lifecycle.logages import LogAges
from hatwisted.store.lifecycle.recovery import RecoveryOptions, RecoveryReport, StoreParts, recover
from hatwisted.store.lifecycle.retention import Expiring, Retention, RetentionRules
from hatwisted.store.lifecycle.sidefile import keep_aside, unused_side_file
from hatwisted.store.lifecycle.storelock import AbortFile, StoreLock
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.log.flush import AsyncFlush, Flusher, GroupCommitFlush
from hatwisted.store.log.put import Put
from hatwisted.store.queue.lookup import (
    earliest_time,
    entry_time,
    offset_by_time,
    queue_earliest_time,
    raw_record_at,
)
from hatwisted.store.queue.queueremoval import QueueRemoval
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.store.queue.queuewriter import QueueWriter
from hatwisted.store.queue.reading import ColdLimits, GetResult, GetStatus, ReadLimits, Wanted, get_messages
from hatwisted.store.stats import StoreStats
from hatwisted.store.storeoptions import StoreOptions
from hatwisted.timing.guard import FailedTurns
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.timing.throttle import LogThrottle, more_like_it
from hatwisted.wire.storedrecord import Record
from hatwisted.wire.storenames import CHECKPOINT_FILE, INDEX_FOLDER, LOG_FOLDER, QUEUE_FOLDER

GROUP_COMMIT_IDLE = 0.01
"""Seconds between syncs of bytes that no put waits for, under SYNC_FLUSH (B92)."""

HOT_DISTANCE = 0.40
"""Share of the memory that recent records are taken to occupy in the page cache (RocketMQ's
accessMessageInMemoryMaxRatio)."""


class MessageStore:
    """One store folder. Belongs to the reactor thread.

    - options: sizes, policies, the folder
    - clock: timers and store times
    - fs: the disk
    - worker: for blocking calls
    - flush_worker: for the flush that puts wait for, so that nothing slow is queued ahead of it
    """

    _logger = Logger()

    def __init__(
        self,
        options: StoreOptions,
        clock: IReactorTime,
        fs: IFileSystem,
        worker: IWorker,
        flush_worker: IWorker,
    ) -> None:
        root = self.root = options.root
        self._fs = fs
        self._options = options
        self._clock = clock
        self._abort = AbortFile(fs, root, options.process_id)
        self._mark = FlushedMark(fs, root)
        self._listeners: list[ArrivalListener] = []
        self._deaf = FailedTurns(clock, "announcing messages in their queues")
        self._wrong_entries = LogThrottle(clock)
        log_path = options.commit_log_path or join(root, LOG_FOLDER)
        self._lock = StoreLock(fs, root, log_path)
        self.watermark = DiskWatermark(
            fs,
            [root, log_path],
            clock,
            worker,
            WatermarkLimits(needed=options.commit_log_file_size),
            options.full_disk,
        )
        self.log = CommitLog(
            FileQueue(fs, log_path, options.commit_log_file_size),
            clock,
            worker,
            options.store_host,
            options.max_message_size,
            self.watermark.note_full,
        )
        self.checkpoint = StoreCheckpoint(fs, join(root, CHECKPOINT_FILE))
        self.queues = ConsumeQueueTable(
            fs,
            join(root, QUEUE_FOLDER),
            options.consume_queue_file_size,
            open_files=options.open_queue_files,
        )
        self.index: IndexService | None = None
        if options.index_enable:
            shape = IndexOptions(
                slots=options.index_slots, items=options.index_items, local_time=options.local_time
            )
            self.index = IndexService(fs, join(root, INDEX_FOLDER), clock, shape, worker)
        self.dispatcher = Dispatcher(
            self.log, self.queues, self.index, options.delay_levels, clock, self._arrived
        )
        self._proof = RecordProof(self.log, self.queues, self.dispatcher)
        self.reput = ReputService(clock, self.dispatcher, self._stalled)
        self.log.add_waker(self.reput.wake)
        self._queue_writer = QueueWriter(clock, self.queues)
        self.flusher = Flusher(self.log, clock, flush_worker, self._flushed, self._mark.note)
        self.flush: IFlushPolicy = _flush_policy(options, self.flusher, self.log, clock)
        self.removal = QueueRemoval(fs, clock, worker, self.log, self.queues)
        expiring = Expiring(
            self.log, LogAges(self.log, clock), self.queues, self.index, self.queues.deleted, self.checkpoint
        )
        rules = RetentionRules(options.retention, local_time=options.local_time)
        self.retention = Retention(fs, clock, worker, self.watermark, expiring, rules)
        self.stats = StoreStats(clock)
        self._parts = StoreParts(self.log, self.queues, self.index, self.checkpoint, self.dispatcher)
        self.sync = DispatchedSync(self.log, self._parts, self._queue_writer, worker)
        self._sync_loop = PeriodicCall(clock, "syncing queues, index and checkpoint", self.sync.regular)

    # -- life ------------------------------------------------------------------------------------------------

    def load(
        self, progress: Callable[[int, int], None] = lambda done, total: None, *, same_boot: bool = False
    ) -> RecoveryReport:
        """Lock, load and recover; blocks. progress: called now and then with (bytes done, bytes in all);
        same_boot: the system has gone on since the store was last open.

        Raises StoreLocked, WrongFile, DamagedLog or OSError; files and lock are given back then.
        """
        self._lock.acquire()
        try:
            return self._load(progress, same_boot)
        except BaseException:
            self._let_go()
            raise

    def _let_go(self) -> None:
        """Give back files and lock, whatever is in them."""
        self._mark.close()
        self.log.files.close()
        self.queues.close_files()
        if self.index is not None:
            self.index.close()
        self._lock.release()

    def _load(self, progress: Callable[[int, int], None], same_boot: bool) -> RecoveryReport:
        options = self._options
        self.log.load()
        self.queues.load_all()
        self.checkpoint.load(int(self._clock.seconds() * 1000))
        if self.index is not None:
            self.index.load()
        report = recover(
            self._parts,
            RecoveryOptions(
                unclean=self._abort.exists,
                same_boot=same_boot,
                flushed=self._mark.read() if same_boot else None,
                check_crc=options.check_crc_on_recover,
                index_safe=options.message_index_safe,
            ),
            keep_aside=self._keep_aside,
            before_changes=self._abort.create,
            progress=progress,
        )
        self.log.resume(self.queues.offsets(), report.store_timestamp, report.flushed)
        self._mark.begin(report.flushed)
        self.checkpoint.flushed = min(max(self.checkpoint.flushed or 0, report.flushed), report.end)
        self.checkpoint.recovered(report.end, report.dispatched_from)
        if self.log.max_offset == self.log.min_offset:
            self._begin_checkpoint()
        if self.log.min_offset:
            # Entries before it are in the queues' first files still.
            self.queues.expire(self.log.min_offset)
        return report

    def _begin_checkpoint(self) -> None:
        """Of a log without a record nothing was synced; later, no checkpoint would say that this isn't known."""
        try:
            self.checkpoint.flush()
        except OSError as error:
            self._logger.warn("no checkpoint can be written yet: {error}", error=error)

    def _keep_aside(self, begin: int, end: int) -> str:
        """Recovery is about to cut these bytes of the log."""
        path = unused_side_file(self._fs, self.root, begin, end)
        keep_aside(self._fs, path, self.log.files, (begin, end), lambda offset: None)
        return path

    def _stalled(self, error: BaseException) -> None:
        """A slave mustn't go on to acknowledge what it could never start with again."""
        if isinstance(error, OtherFileSize):
            self.log.stop_appends(str(error))

    def start(self) -> None:
        """Start flushing, dispatching, expiring and counting."""
        self.flush.start()
        self._queue_writer.start()
        self.reput.start()
        self.watermark.start()
        self.retention.start()
        self.stats.start()
        self._sync_loop.start(self._options.flush_queue_interval)

    @inlineCallbacks
    def stop(self) -> Any:
        """Leave the folder as a clean exit does; fires when that is done. No put may follow."""
        self.stats.stop()
        self.watermark.stop()
        self._sync_loop.stop()
        yield self.retention.stop()
        dispatched = yield self.reput.stop()
        self.flush.stop()
        flushed = yield self.flusher.flush_now()
        self.flusher.line.release_all()
        yield self.sync.under_way
        synced = yield self.sync.run()
        self._queue_writer.stop()
        try:
            self.log.close()
            self.queues.close()
            self._mark.remove()
            if dispatched and synced and flushed >= self.log.max_offset:
                self._abort.remove()
            else:
                self._logger.warn(
                    "stopped before everything was dispatched and synced; the next start recovers it from the log"
                )
        except OSError as error:
            self._logger.warn("the store couldn't be left as after a clean exit: {error}", error=error)
        finally:
            self._let_go()

    # -- writing ---------------------------------------------------------------------------------------------

    def refusal(self) -> str | None:
        """Why no put is taken at present, or None."""
        return self.log.stopped_reason or self.watermark.full_reason

    def append(self, puts: Sequence[Put]) -> None:
        """See CommitLog.append."""
        self.log.append(puts)

    def _flushed(self, offset: int, store_timestamp: int) -> None:
        self.checkpoint.advance(physic=store_timestamp)
        self.checkpoint.flushed = offset

    # -- reading ---------------------------------------------------------------------------------------------

    @property
    def delay_levels(self) -> Sequence[int]:
        """ms, by level - 1: what the deliver times in the queues of delayed messages were counted with."""
        return self._options.delay_levels

    def get_messages(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        wanted: Wanted = None,
    ) -> GetResult:
        """See reading.get_messages."""
        before = self._clock.seconds()
        cold = ColdLimits(int(self._options.memory_bytes * HOT_DISTANCE))
        queue = self.queues.find(topic, queue_id)
        try:
            result = get_messages(self.log, queue, offset, ReadLimits(max_count, max_bytes), wanted, cold)
        except WrongEntry as error:
            if (left_out := self._wrong_entries.admit(str(error))) is not None:
                self._logger.critical("{error}{more}", error=error, more=more_like_it(left_out))
            raise
        took = int((self._clock.seconds() - before) * 1000)
        self.stats.count_get(result.count if result.status is GetStatus.FOUND else 0, took)
        return result

    def queue_offsets(self, topic: str, queue_id: int) -> tuple[int, int]:
        """(min, max) queue offset; (0, 0) for a queue that isn't there."""
        queue = self.queues.find(topic, queue_id)
        return (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)

    def queue_end(self, topic: str, queue_id: int) -> int:
        """Max queue offset; 0 for a queue that isn't there."""
        return self.queue_offsets(topic, queue_id)[1]

    def look_message(self, offset: int) -> bytes | None:
        """The whole record at a physical offset, None if nothing there looks like one."""
        return raw_record_at(self.log, offset)

    def record_at(self, offset: int) -> Record | None:
        """The record of the log that begins there, None if none does: peers may name any offset, and bodies hold
        whatever producers like."""
        raw = self.look_message(offset)
        record = None if raw is None else whole_record(raw, offset=offset, check_crc=True)
        return record if record is not None and self._proof.holds(record) else None

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int) -> int:
        """See lookup.offset_by_time; 0 for a queue that isn't there."""
        queue = self.queues.find(topic, queue_id)
        return offset_by_time(self.log, queue, timestamp) if queue is not None else 0

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """storeTimestamp (ms) of a queue's first message, -1 without one."""
        return queue_earliest_time(self.log, self.queues.find(topic, queue_id))

    def message_time(self, topic: str, queue_id: int, offset: int) -> int:
        """storeTimestamp (ms) of a message, -1 if it isn't there.

        - topic: of its queue
        - queue_id: of its queue
        - offset: queue offset
        """
        queue = self.queues.find(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return NO_TIME
        return entry_time(self.log, queue, offset)

    def earliest_message_time(self) -> int:
        """storeTimestamp (ms) of the oldest message of the log, -1 without one."""
        return earliest_time(self.log) if self.log.max_offset > self.log.min_offset else NO_TIME

    def starts_hot(self, topic: str, queue_id: int) -> bool:
        """Does the queue still begin at offset 0, with a message recent enough to be in memory?"""
        queue = self.queues.find(topic, queue_id)
        if queue is None or queue.min_offset > 0 or queue.max_offset == 0:
            return queue is None or queue.max_offset == 0
        first = get_messages(self.log, queue, 0, ReadLimits(1, 1))
        return first.behind_bytes <= self._options.memory_bytes * HOT_DISTANCE

    @property
    def dispatch_behind_bytes(self) -> int:
        """Log bytes not yet in queues and index."""
        return self.reput.behind_bytes

    @property
    def disk_usage_ratio(self) -> float:
        """Used fraction of the fullest disk of this store."""
        return self.watermark.used

    # -- arrivals --------------------------------------------------------------------------------------------

    def add_arrival_listener(self, listener: ArrivalListener) -> None:
        """Call `listener` whenever queues have grown."""
        self._listeners.append(listener)

    def remove_arrival_listener(self, listener: ArrivalListener) -> None:
        """Undo `add_arrival_listener`."""
        self._listeners.remove(listener)

    def _arrived(self, grown: Sequence[GrownQueue]) -> None:
        for listener in self._listeners:
            try:
                listener(grown)
            except Exception:
                # The entries are in their queues: what a listener makes of that mustn't hold up dispatch.
                self._deaf.note(Failure())


def _flush_policy(
    options: StoreOptions, flusher: Flusher, log: CommitLog, clock: IReactorTime
) -> IFlushPolicy:
    if options.sync_flush:
        return GroupCommitFlush(flusher, log, clock, GROUP_COMMIT_IDLE)
    return AsyncFlush(
        flusher,
        log,
        clock,
        options.flush_interval,
        options.flush_least_pages,
        options.flush_thorough_interval,
    )

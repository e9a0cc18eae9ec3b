"""The message store: log, queues, index and their services put together, with one lifecycle.

`load` runs in the foreground before anything serves: lock the folder, load the files, recover. `start` begins
the timers, `stop` ends them in the order that loses nothing: last flush, last dispatch, checkpoint, and only
then the abort file goes, because its absence claims that all of that happened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os.path import join

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from hatwisted.store.checkpoint import StoreCheckpoint
from hatwisted.store.commitlog import CommitLog
from hatwisted.store.consumequeue import ConsumeQueueTable
from hatwisted.store.filequeue import FileQueue
from hatwisted.store.flush import AsyncFlush, Flusher, GroupCommitFlush
from hatwisted.store.index import IndexService
from hatwisted.store.interfaces import IFileSystem, IFlushPolicy, IWorker
from hatwisted.store.put import Put, PutStatus
from hatwisted.store.reading import GetResult, GetStatus, get_messages
from hatwisted.store.recovery import RecoveryReport, recover
from hatwisted.store.reput import Dispatcher, ReputService
from hatwisted.store.retention import DiskWatermark, Retention
from hatwisted.store.stats import StoreStats
from hatwisted.store.storelock import StoreLock


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """What a store is made with; sizes in bytes, times in seconds. Defaults are RocketMQ 4.9.7's."""

    root: str
    commit_log_path: str
    store_host: bytes
    commit_log_file_size: int = 1 << 30
    consume_queue_file_size: int = 6_000_000
    max_message_size: int = 4 << 20
    index_enable: bool = True
    index_slots: int = 5_000_000
    index_items: int = 20_000_000
    check_crc_on_recover: bool = True
    delay_levels: Sequence[int] = ()
    """ms, by level - 1."""
    sync_flush: bool = False
    flush_interval: float = 0.5
    flush_least_pages: int = 4
    flush_thorough_interval: float = 10.0
    flush_queue_interval: float = 60.0

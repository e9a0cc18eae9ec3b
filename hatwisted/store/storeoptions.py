"""What a store is made with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hatwisted.store.interfaces import LocalTime
from hatwisted.store.lifecycle.diskwatermark import FOR_A_MASTER, FullDisk
from hatwisted.store.lifecycle.retention import RetentionPolicy
from hatwisted.store.queue.queuetable import OPEN_QUEUE_FILES


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """What a store is made with; sizes in bytes, times in seconds. Defaults are RocketMQ 4.9.7's."""

    root: str
    store_host: bytes
    commit_log_path: str | None = None
    commit_log_file_size: int = 1 << 30
    consume_queue_file_size: int = 6_000_000
    max_message_size: int = 4 << 20
    index_enable: bool = True
    index_slots: int = 5_000_000
    index_items: int = 20_000_000
    check_crc_on_recover: bool = True
    message_index_safe: bool = False
    delay_levels: Sequence[int] = ()
    """ms, by level - 1."""
    sync_flush: bool = False
    flush_interval: float = 0.5
    flush_least_pages: int = 4
    flush_thorough_interval: float = 10.0
    flush_queue_interval: float = 10.0
    """Seconds between syncs of queues, index and checkpoint (RocketMQ: 60, or 1 with 2 dirty pages): what an
    unclean restart has to dispatch again."""
    retention: Callable[[], RetentionPolicy] = RetentionPolicy
    """The policy at present."""
    local_time: LocalTime
    """The clock for hours of housekeeping and names of index files."""
    memory_bytes: int = 8 << 30
    """Physical memory of the machine."""
    open_queue_files: int = OPEN_QUEUE_FILES
    """Descriptors of queue files kept open at a time."""
    process_id: Callable[[], int]
    """Of the process that serves."""
    full_disk: Callable[[], FullDisk] = lambda: FOR_A_MASTER
    """What a full disk means at present, in the log's words."""

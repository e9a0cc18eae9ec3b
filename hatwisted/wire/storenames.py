"""The names in a store's folder: RocketMQ's and our own."""

from __future__ import annotations

from typing import Final

LOG_FOLDER: Final = "commitlog"
QUEUE_FOLDER: Final = "consumequeue"
"""It has a folder for each topic, and that one for each queue id."""
INDEX_FOLDER: Final = "index"
CONFIG_FOLDER: Final = "config"
CHECKPOINT_FILE: Final = "checkpoint"
ABORT_FILE: Final = "abort"
"""Exists while a broker runs: a start that finds it follows a crash."""
LOCK_FILE: Final = "lock"
"""Locked by the process that is using the store."""

LAST_RUN_FILE: Final = "lastrun"
"""How the last run wrote and ended, so that the next knows whether anything may be missing. Not RocketMQ's."""
FLUSHED_FILE: Final = "flushed"
"""How far the last run has synced the log, for a restart on the same boot. Not RocketMQ's either."""

LOST_AND_FOUND: Final = "lost+found"
"""What ext4 makes in the root of a file system: there if a disk is mounted right at one of these folders. RocketMQ
4.9 doesn't load such a store, 5.x does."""

MAX_QUEUE_ID: Final = (1 << 31) - 1
"""Records have queue ids as int32."""

DELETED_SUFFIX: Final = ".deleted"
"""The folder next to QUEUE_FOLDER with the queues of deleted topics. Not RocketMQ's."""
DELETED_MARK: Final = "@"
"""A character that no valid topic name contains."""


def deleted_queue_name(topic: str, queue_id: int, end: int) -> str:
    """Name of a deleted queue's folder.

    - topic, queue_id: of the queue
    - end: log offset after its last record
    """
    return f"{topic}{DELETED_MARK}{queue_id}{DELETED_MARK}{end}"


def parse_deleted_queue_name(name: str) -> tuple[str, int, int] | None:
    """(topic, queue id, end) of such a folder, None for any other name."""
    topic, _, numbers = name.partition(DELETED_MARK)
    queue_id, _, end = numbers.partition(DELETED_MARK)
    if not (queue_id.isdecimal() and end.isdecimal()) or int(queue_id) > MAX_QUEUE_ID:
        return None
    return topic, int(queue_id), int(end)


def is_queue_name(topic: str, queue_id: int) -> bool:
    """Can the queue have a folder? A topic from the log may be any text."""
    return (
        topic not in ("", ".", "..")
        and "/" not in topic
        and "\0" not in topic
        and 0 <= queue_id <= MAX_QUEUE_ID
    )

"""The names in a store's folder: RocketMQ's, and those that only hatwisted has."""

from __future__ import annotations

from typing import Final

LOG_FOLDER: Final = "commitlog"
QUEUE_FOLDER: Final = "consumequeue"
"""Under it a folder for each topic, and in that one for each queue id."""
INDEX_FOLDER: Final = "index"
CONFIG_FOLDER: Final = "config"
CHECKPOINT_FILE: Final = "checkpoint"
ABORT_FILE: Final = "abort"
"""There as long as a broker runs: who finds it starts after a crash."""
LOCK_FILE: Final = "lock"
"""Locked by the process that has the store in use."""

LAST_RUN_FILE: Final = "lastrun"
"""What the last run was, so that the next one knows whether anything can be missing. RocketMQ has no such file."""
FLUSHED_FILE: Final = "flushed"
"""How far the last run has synced the log, for one that begins while the system goes on. Not RocketMQ's either."""

DELETED_SUFFIX: Final = ".deleted"
"""Of the folder beside QUEUE_FOLDER in which the queues of deleted topics are. RocketMQ has no such folder."""
DELETED_MARK: Final = "@"
"""In no topic's name that a broker accepts."""


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
    return (topic, int(queue_id), int(end)) if queue_id.isdecimal() and end.isdecimal() else None


def is_queue_name(topic: str, queue_id: int) -> bool:
    """Can the queue have a folder? A topic comes out of the log and may be anything."""
    return topic not in ("", ".", "..") and "/" not in topic and "\0" not in topic and queue_id >= 0

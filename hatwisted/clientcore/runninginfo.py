"""CONSUMER_RUNNING_INFO (307): what operators' tools show of a consumer."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping

import msgspec

from hatwisted.clientcore.queuereader import QueueReader
from hatwisted.wire.messagequeue import MessageQueue, queue_table


def queue_info(reader: QueueReader, locked: bool, locked_at: float | None) -> dict[str, object]:
    """One queue of a running consumer (307). Times in ms.

    - reader: of the queue
    - locked: is the lock held at its broker?
    - locked_at: seconds; None: never
    """
    held = reader.buffered > 0
    return {
        "cachedMsgCount": reader.buffered,
        "cachedMsgMaxOffset": reader.last_buffered if held else 0,
        "cachedMsgMinOffset": reader.progress if held else 0,
        "cachedMsgSizeInMiB": reader.buffered_bytes >> 20,
        "commitOffset": reader.progress,
        "droped": reader.dropped,
        "lastConsumeTimestamp": round(reader.last_consumed * 1000),
        "lastLockTimestamp": round((locked_at or 0) * 1000),
        "lastPullTimestamp": round(reader.last_pull * 1000),
        "locked": locked,
        "transactionMsgCount": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }


def info_table(infos: Mapping[MessageQueue, dict[str, object]]) -> msgspec.Raw:
    """By queue, in the order that Java sorts them by."""
    ordered = sorted(infos, key=lambda queue: (queue.topic, queue.broker_name, queue.queue_id))
    return queue_table({queue: infos[queue] for queue in ordered})


def stacks() -> str:
    """What every thread is doing."""
    frames = sys._current_frames().items()
    return "\n".join(
        f"thread {number}\n" + "".join(traceback.format_stack(frame)) for number, frame in frames
    )

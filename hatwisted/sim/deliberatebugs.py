"""Mistakes planted on purpose, one at a time: a checker that none of them alarms checks nothing.

Each replaces one method of the program while a run lasts; the program itself knows nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple
from unittest import mock

from twisted.internet.defer import Deferred, succeed

from hatwisted.ha.grouptransfer import GroupTransferService
from hatwisted.ha.haclient import HAClient
from hatwisted.ha.overlap import Overlap
from hatwisted.ha.slave import HAClientService
from hatwisted.store.lifecycle import recovery
from hatwisted.store.lifecycle.recovery import RecoveryOptions, RecoveryReport, StoreParts
from hatwisted.store.lifecycle.storelock import AbortFile
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.log.flush import GroupCommitFlush
from hatwisted.store.log.put import Put, PutStatus
from hatwisted.store.log.waitline import WaitLine
from hatwisted.store.queue.queuetable import ConsumeQueueTable


class Bug(NamedTuple):
    """Where it sits, and what stands there instead. what: in words."""

    what: str
    owner: Any
    attribute: str
    instead: Callable[..., Any]


def _nothing(*_args: object, **_named: object) -> None:
    return None


_report = HAClient._report


def _report_more(client: HAClient, offset: int) -> None:
    _report(client, offset + 400)


def _acknowledge_received(client: HAClient) -> None:
    client._report_growth(client._log.max_offset)


def _wait_for_nobody(_line: object, _first: int, last: int, _deadline: float | None = None) -> Deferred[int]:
    return succeed(last)


def _flushed_all(log: CommitLog, _upto: int) -> None:
    log.flushed_offset = log.max_offset


def _unwind_half(_log: CommitLog, run: Any, reason: str) -> None:
    for put in reversed(run.puts):
        put.offset = put.end = -1
        put.record_offsets = ()
        put.refuse(PutStatus.SERVICE_NOT_AVAILABLE, reason)


def _release_half(line: WaitLine) -> None:
    while line._waits:
        line._waits.popleft().deferred.callback(line.offset)


_append = CommitLog.append


def _append_reversed(log: CommitLog, puts: Sequence[Put]) -> None:
    """The numbers in the queue are those of the puts in their order; the records aren't."""
    _append(log, puts)
    for put in puts:
        if put.status is None and put.queue_offset:
            put.queue_offset -= 1


_recover = recovery.recover


def _recover_without_crc(parts: StoreParts, options: RecoveryOptions, **named: Any) -> RecoveryReport:
    return _recover(parts, replace(options, check_crc=False), **named)


def _abort_file_unmade(*_args: object) -> None:
    return None


BUGS: dict[str, Bug] = {
    "ack-ahead": Bug("a slave acknowledges more than it has", HAClient, "_report", _report_more),
    "ack-before-sync": Bug(
        "haAck=durable acknowledges what was received", HAClient, "_acknowledge", _acknowledge_received
    ),
    "join-unchecked": Bug("a slave joins whatever its log holds", Overlap, "_compare", _nothing),
    "slave-unawaited": Bug(
        "SEND_OK of a SYNC_MASTER before its slave has it", GroupTransferService, "wait", _wait_for_nobody
    ),
    "flush-unawaited": Bug("SEND_OK before the flush", GroupCommitFlush, "wait", _wait_for_nobody),
    "flush-not-done": Bug("a flush syncs nothing", CommitLog, "datasync", _nothing),
    "flush-covers-later": Bug(
        "a flush covers what was appended while it ran", CommitLog, "mark_flushed", _flushed_all
    ),
    "names-unsynced": Bug("names of files aren't synced", FileQueue, "_sync_names", _nothing),
    "queues-unsynced": Bug(
        "the checkpoint trusts queues that nobody has synced", ConsumeQueueTable, "datasync", _nothing
    ),
    "queues-uncut": Bug(
        "queues keep entries of records that were cut", ConsumeQueueTable, "truncate", _nothing
    ),
    "lost-reconnect": Bug(
        "a slave dials once", HAClientService, "_dial_later", lambda service, healthy, progressed: None
    ),
    "numbers-kept": Bug("a failed write keeps its queue numbers", CommitLog, "_unwind", _unwind_half),
    "wrong-number": Bug(
        "an answer names the queue offset before its own", CommitLog, "append", _append_reversed
    ),
    "crc-unchecked": Bug(
        "a recovery believes records whose bodies are torn",
        "hatwisted.store.messagestore",
        "recover",
        _recover_without_crc,
    ),
    "unclean-as-clean": Bug(
        "no abort file: every start takes the exit for clean", AbortFile, "create", _abort_file_unmade
    ),
    "timer-left": Bug("a stopped store leaves a timer", WaitLine, "release_all", _release_half),
}
"""By name."""


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """With that bug in the program; None: as it is."""
    if name is None:
        yield
        return
    bug = BUGS[name]
    where = f"{bug.owner}.{bug.attribute}" if isinstance(bug.owner, str) else None
    patch = (
        mock.patch(where, bug.instead) if where else mock.patch.object(bug.owner, bug.attribute, bug.instead)
    )
    with patch:
        yield

"""Mistakes planted on purpose, one at a time: a checker that none of them alarms checks nothing.

Each replaces one name of the program while a run lasts; the program itself knows nothing of them. Some bring
back what the program once did, others are what such programs do wrong elsewhere. A bug that shows only under
certain faults or in a certain group says so: only such seeds are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from posixpath import join
from typing import Any
from unittest import mock

from twisted.internet.defer import Deferred, succeed

from hatwisted.broker.put.putack import PutAcks
from hatwisted.broker.put.verdicts import Say, Verdicts
from hatwisted.ha import handshake, replicas
from hatwisted.ha.firstsync import JoinPlan, plan_join
from hatwisted.ha.grouptransfer import GroupTransferService
from hatwisted.ha.haclient import HAClient
from hatwisted.ha.overlap import Overlap
from hatwisted.ha.slave import HAClientService
from hatwisted.kernel import AppendRun
from hatwisted.sim.faultplan import ROT
from hatwisted.sim.limitbugs import LIMIT_BUGS
from hatwisted.sim.plantedbug import Bug
from hatwisted.sim.servicebugs import SERVICE_BUGS
from hatwisted.sim.setup import Setup
from hatwisted.sim.tablebugs import TABLE_BUGS
from hatwisted.sim.waitbugs import WAIT_BUGS
from hatwisted.sim.writebugs import WRITE_BUGS
from hatwisted.store import messagestore
from hatwisted.store.errors import StoreFull
from hatwisted.store.lifecycle import logages, recovery
from hatwisted.store.lifecycle.recovery import RecoveryOptions, RecoveryReport, StoreParts
from hatwisted.store.lifecycle.storelock import AbortFile, StoreLock
from hatwisted.store.log import flush
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.log.flush import GroupCommitFlush
from hatwisted.store.log.put import Put, PutStatus
from hatwisted.store.log.waitline import WaitLine
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.wire.storenames import LOG_FOLDER

POWER = ("power", "die")


def _sync_flush(setup: Setup) -> bool:
    return setup.sync_flush


def _eventful(setup: Setup) -> bool:
    return len(setup.faults) >= 8


def _rots(setup: Setup) -> bool:
    return any(fault.kind == ROT for fault in setup.faults)


def _sync_master(setup: Setup) -> bool:
    return setup.sync_master


def _durable(setup: Setup) -> bool:
    return setup.sync_master and setup.durable_acks


def _nothing(*_args: object, **_named: object) -> None:
    return None


def _always(*_args: object) -> bool:
    return True


_report = HAClient._report


def _report_more(client: HAClient, offset: int) -> None:
    _report(client, offset + 400)


def _acknowledge_received(client: HAClient) -> None:
    client._report(client._log.max_offset)


def _wait_for_nobody(_line: object, _first: int, last: int, _deadline: float | None = None) -> Deferred[int]:
    return succeed(last)


def _flushed_all(log: CommitLog, _upto: int) -> None:
    log.flushed_offset = log.max_offset


def _unwind_half(_log: CommitLog, puts: Sequence[Put], status: PutStatus, reason: str) -> None:
    for put in reversed(puts):
        put.offset = put.end = -1
        put.record_offsets = ()
        put.refuse(status, reason)


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


def _late_as_ok(acks: PutAcks, line: Any, puts: Any, begun: float, say: Say) -> None:
    _follow(acks, line._replace(late=PutStatus.PUT_OK), puts, begun, say)


def _all_by_first(acks: PutAcks, line: Any, puts: Any, begun: float, say: Say) -> None:
    def reached(offset: int) -> None:
        say(len(puts), PutStatus.PUT_OK if puts.end(0) <= offset else line.late)

    line.wait(puts.end(0), puts.end(-1), begun + line.limit).addCallback(reached)


_follow = PutAcks._follow


_of = Verdicts.of


def _disk_alone(verdicts: Verdicts, line: int) -> Say:
    disk = 1
    return _of(Verdicts(verdicts._puts, 1, verdicts._tell), 0) if line == disk else lambda count, status: None


def _plan_without_overlap(log: Any, first_sync: Any, master_range: Any) -> JoinPlan:
    end = log.max_offset
    return JoinPlan(end, end) if end else plan_join(log, first_sync, master_range)


def _write_carelessly(log: CommitLog, run: AppendRun) -> str:
    if not run.parts:
        return ""
    blob = b"".join(run.parts)
    try:
        log._files.write(run.start, (blob,))
    except (OSError, StoreFull) as error:
        log._unwind(run.puts, PutStatus.SERVICE_NOT_AVAILABLE, str(error))
        return str(error)
    log.max_offset = run.start + len(blob)
    for listener in log._listeners:
        listener(run.start, blob)
    return ""


_resume = CommitLog.resume


def _resume_flushed(log: CommitLog, queue_offsets: Any, store_timestamp: int, _flushed: int) -> None:
    _resume(log, queue_offsets, store_timestamp, log.max_offset)


def _lock_root_alone(lock: StoreLock, fs: Any, root: str, log_folder: str) -> None:
    _lock(lock, fs, root, join(root, LOG_FOLDER))


_lock = StoreLock.__init__


def _count_links(links: Sequence[Any], apart: object) -> int:
    return len(links)


BUGS: dict[str, Bug] = SERVICE_BUGS | TABLE_BUGS | WAIT_BUGS | WRITE_BUGS | LIMIT_BUGS
BUGS |= {
    "ack-ahead": Bug("a slave acknowledges more than it has", HAClient, "_report", _report_more),
    "ack-before-sync": Bug(
        "`haAck=durable` acknowledges what was received",
        HAClient,
        "_acknowledge",
        _acknowledge_received,
        POWER,
        _durable,
    ),
    "slave-unawaited": Bug(
        "SEND_OK of a SYNC_MASTER before its slave has it",
        GroupTransferService,
        "wait",
        _wait_for_nobody,
        needs=_sync_master,
    ),
    "late-as-ok": Bug("a wait that times out counts as SEND_OK", PutAcks, "_follow", _late_as_ok),
    "batch-by-first": Bug(
        "the first put that is safe speaks for its whole read",
        PutAcks,
        "_follow",
        _all_by_first,
        ("pieces", "slow"),
        lambda setup: setup.copies is None and _eventful(setup),
        {"sync_master": True, "sync_flush": False, "pause": 0.03, "sizes": (300, 600)},
    ),
    "disk-alone": Bug(
        "what the disk says is answered, before the slave has spoken",
        Verdicts,
        "of",
        _disk_alone,
        needs=lambda setup: setup.sync_master and setup.sync_flush,
    ),
    "flush-unawaited": Bug(
        "SEND_OK before the flush", GroupCommitFlush, "wait", _wait_for_nobody, POWER, _sync_flush
    ),
    "flush-not-done": Bug("a flush syncs nothing", CommitLog, "datasync", _nothing, POWER, _sync_flush),
    "flush-covers-later": Bug(
        "a flush covers what was appended while it ran",
        CommitLog,
        "mark_flushed",
        _flushed_all,
        (*POWER, "slowdisk"),
        _eventful,
        {"sync_flush": True, "pause": 0.05, "sizes": (20, 500)},
    ),
    "names-unsynced": Bug(
        "a flush leaves out the names of files",
        FileQueue,
        "_sync_names",
        _nothing,
        POWER,
        _eventful,
        {"sync_flush": True, "log_file_size": 1 << 14, "pause": 0.15, "sizes": (500, 3000)},
    ),
    "failed-sync-retried": Bug(
        "a sync that has failed is tried again, and believed",
        CommitLog,
        "stop_appends",
        _nothing,
        ("failing",),
        _sync_flush,
    ),
    "join-unchecked": Bug("a slave joins whatever its log holds", Overlap, "_compare", _nothing),
    "join-at-end": Bug(
        "a slave begins at its log's end, with nothing to compare",
        handshake,
        "plan_join",
        _plan_without_overlap,
    ),
    "lost-reconnect": Bug("a slave dials once", HAClientService, "_dial_later", _nothing),
    "links-counted": Bug(
        "a quorum counts links, not slaves",
        replicas,
        "at_least",
        _count_links,
        ("flicker",),
        lambda setup: setup.sync_master and setup.copies == 3,
    ),
    "queues-unsynced": Bug(
        "the checkpoint trusts queues that nobody has synced, and no start counts their entries",
        ConsumeQueueTable,
        "datasync",
        _nothing,
        POWER,
        conf={"log_file_size": 1 << 14, "queue_file_entries": 100, "pause": 0.05, "sizes": (20, 500)},
        unguarded=(recovery, "first_incomplete_file", _nothing),
    ),
    "queues-uncut": Bug(
        "queues keep entries of records that were cut", ConsumeQueueTable, "truncate", _nothing
    ),
    "queues-believed": Bug(
        "queues that were never synced are believed after a failure of power",
        recovery._Recovery,
        "believed",
        None,
        POWER,
        conf={"log_file_size": 1 << 18, "queue_file_entries": 4, "pause": 0.05, "sizes": (10, 60)},
    ),
    "failed-write-denied": Bug(
        "a write that fails half-way is answered as not stored, and what it has left stays",
        CommitLog,
        "_write_run",
        _write_carelessly,
        ("failing",),
    ),
    "crc-unchecked": Bug(
        "a recovery believes records whose bodies are torn",
        messagestore,
        "recover",
        _recover_without_crc,
        POWER,
        conf={"sync_flush": False, "log_file_size": 1 << 16, "pause": 0.15, "sizes": (3000, 9000)},
    ),
    "damage-cut": Bug(
        "a recovery cuts what was synced, and valid records behind it, where a bit has changed",
        recovery,
        "is_unsynced",
        _always,
        (ROT, "power", "die"),
        _rots,
    ),
    "unclean-as-clean": Bug(
        "no abort file: every start takes the exit for clean", AbortFile, "create", _nothing, POWER
    ),
    "numbers-kept": Bug(
        "a failed write keeps its queue numbers", CommitLog, "_unwind", _unwind_half, ("io", "full", "kill")
    ),
    "wrong-number": Bug(
        "an answer names the queue offset before its own", CommitLog, "append", _append_reversed
    ),
    "descriptors-final": Bug(
        "a lack of descriptors counts as a failed sync",
        flush,
        "OUT_OF_DESCRIPTORS",
        frozenset(),
        ("descriptors",),
    ),
    "log-unlocked": Bug(
        "two brokers with one commit log: only the roots are locked",
        StoreLock,
        "__init__",
        _lock_root_alone,
        ("twin",),
    ),
    "retention-by-clock": Bug(
        "files expire by one look at the clock",
        logages,
        "LOOK_LIMIT",
        float("inf"),
        ("leap",),
        _eventful,
        {"log_file_size": 1 << 14, "pause": 0.15, "sizes": (500, 3000)},
    ),
    "written-as-flushed": Bug(
        "what a process has written counts as flushed for the next one, under SYNC_FLUSH as well",
        CommitLog,
        "resume",
        _resume_flushed,
        ("conf", "power"),
        conf={"sync_flush": False, "log_file_size": 1 << 14, "pause": 0.05, "sizes": (500, 3000)},
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
    with ExitStack() as planting:
        for place in filter(None, ((bug.owner, bug.attribute, bug.instead), bug.unguarded)):
            planting.enter_context(mock.patch.object(*place))
        yield

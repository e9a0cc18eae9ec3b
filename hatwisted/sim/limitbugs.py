"""Limits that hold nothing down: each is lifted while what makes it grow runs."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from types import MappingProxyType
from typing import Any, cast
from unittest import mock

from twisted.internet.defer import Deferred, inlineCallbacks

from hatwisted.broker.delay.schedule import LevelDelivery
from hatwisted.broker.node.tablefollowers import TableFollowers
from hatwisted.broker.pull.pullhold import PullHold
from hatwisted.broker.put.putack import PutAcks
from hatwisted.broker.transaction import transactioncheck
from hatwisted.broker.transaction.endtransaction import EndTransactionProcessor
from hatwisted.broker.transaction.transactioncheck import TransactionCheck
from hatwisted.clientcore.calls import Channel
from hatwisted.ha.grouptransfer import GroupTransferService
from hatwisted.ha.master import HAService
from hatwisted.remoting.partialframes import PartialFrames
from hatwisted.remoting.server import RemotingConnection
from hatwisted.sim.plantedbug import Bug
from hatwisted.store.log.flush import GroupCommitFlush
from hatwisted.store.log.openfiles import OpenFiles

BUSY = MappingProxyType({"tight": True, "pause": 0.05})


def _without(limit: str, owner: Any, method: str) -> Callable[..., object]:
    """That method, while the limit of this name isn't there. owner: a class, whose module has the limit."""
    grow, here = getattr(owner, method), owner.__module__

    @wraps(grow)
    def grows(*args: Any, **named: Any) -> object:
        with mock.patch(f"{here}.{limit}", 1 << 40):
            return grow(*args, **named)

    return grows


_wait, _get = GroupTransferService.wait, OpenFiles.get


def _wait_always(service: Any, *args: Any) -> object:
    service._max_waits = 1 << 40
    return _wait(service, *args)


def _close_nothing(files: Any, path: str) -> object:
    usual, files._limit = files._limit, 1 << 40
    try:
        return _get(files, path)
    finally:
        files._limit = usual


def _not_too_many(*_args: object) -> bool:
    return False


def _nothing(*_args: object) -> None:
    return None


def _begin_another(flush: Any) -> None:
    if flush._log.max_offset > flush._log.flushed_offset:
        flush._flusher._running = None
        flush._flusher.flush_now()


_read_ops = cast(Any, TransactionCheck._read_ops).__wrapped__


@inlineCallbacks
def _read_all(check: Any, half_at: int) -> Generator[Deferred[Any], Any, None]:
    steps, result = _read_ops(check, half_at), None
    while True:
        with mock.patch.object(transactioncheck, "MAX_KNOWN_OPS", 1 << 40):
            try:
                step = steps.send(result)
            except StopIteration:
                return
        result = yield step


LIMIT_BUGS: dict[str, Bug] = {
    "puts-unlimited": Bug(
        "more puts than may wait for disk or slave are taken",
        PutAcks,
        "refusal",
        _without("MAX_WAITING_PUTS", PutAcks, "refusal"),
        ("stall", "pause", "slowdisk"),
        conf={**BUSY, "sync_master": True, "copies": None},
    ),
    "waits-unlimited": Bug(
        "a slave's line takes more waits than it may hold",
        GroupTransferService,
        "wait",
        _wait_always,
        ("stall", "pause"),
        conf={**BUSY, "sync_master": True, "copies": None},
    ),
    "pulls-unlimited": Bug(
        "more pulls are held than there's room for",
        PullHold,
        "hold",
        _without("MAX_HELD", PullHold, "hold"),
        conf={"tight": True, "consumers": True},
    ),
    "calls-unlimited": Bug(
        "a channel takes more calls than may wait for answers",
        Channel,
        "call",
        _without("MAX_CALLS", Channel, "call"),
        ("cut", "partition", "pause"),
        conf=BUSY,
    ),
    "frames-unlimited": Bug(
        "incomplete frames of all connections are kept",
        PartialFrames,
        "hold",
        _without("MAX_PARTIAL_BYTES", PartialFrames, "hold"),
        ("pieces", "slow"),
        conf={**BUSY, "sizes": (500, 3000)},
    ),
    "links-unlimited": Bug(
        "a master keeps every link that a host opens",
        HAService,
        "_limit",
        _not_too_many,
        ("flicker",),
        lambda setup: len(setup.faults) >= 8,
        conf={"tight": True},
    ),
    "ends-unlimited": Bug(
        "every end of a transaction is remembered",
        EndTransactionProcessor,
        "_remember",
        _without("MAX_REMEMBERED", EndTransactionProcessor, "_remember"),
        conf={"tight": True, "transactions": True},
    ),
    "decisions-unlimited": Bug(
        "every decision about a transaction is kept in memory",
        TransactionCheck,
        "_read_ops",
        _read_all,
        conf={**BUSY, "transactions": True},
    ),
    "copies-unlimited": Bug(
        "every change of a table waits for the slaves",
        TableFollowers,
        "copied",
        _without("MAX_WAITS", TableFollowers, "copied"),
        ("pause", "cut", "partition", "slow"),
        conf={"tight": True, "tables": True},
    ),
    "slice-unlimited": Bug(
        "all delayed messages that are due are put at once",
        LevelDelivery,
        "_due",
        _without("MAX_BATCH", LevelDelivery, "_due"),
        ("full", "stop", "kill", "pause", "power"),
        conf={**BUSY, "delayed": 0.4},
    ),
    "files-unlimited": Bug(
        "no file is closed for another",
        OpenFiles,
        "get",
        _close_nothing,
        conf={"tight": True, "log_file_size": 1 << 14, "sizes": (500, 3000)},
    ),
    "syncs-unlimited": Bug(
        "a sync begins while another runs, and another",
        GroupCommitFlush,
        "_kick",
        _begin_another,
        ("slowdisk",),
        conf={**BUSY, "sync_flush": True},
    ),
    "answers-unlimited": Bug(
        "a client that doesn't read is written to and read from all the same",
        RemotingConnection,
        "pauseProducing",
        _nothing,
        ("pause", "cut", "partition"),
        conf={**BUSY, "consumers": True, "sizes": (500, 3000)},
    ),
}
"""By name."""

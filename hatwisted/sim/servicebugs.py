"""Mistakes in what brokers do by themselves: delayed messages, transactions, retries, tables."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed

from hatwisted.broker.delay.schedule import LevelDelivery
from hatwisted.broker.node import logaudit, logrepair
from hatwisted.broker.node.tablefollowers import TableFollowers
from hatwisted.broker.node.tablehold import TableHold
from hatwisted.broker.send.sendback import SendBackProcessor
from hatwisted.broker.tables import BrokerTables
from hatwisted.broker.transaction.endtransaction import EndTransactionProcessor
from hatwisted.broker.transaction.transactioncheck import TransactionCheck
from hatwisted.remoting.processortable import response
from hatwisted.sim.faultplan import Fault
from hatwisted.sim.plantedbug import Bug
from hatwisted.sim.setup import DRIFT, Setup
from hatwisted.store.index.indexservice import IndexService
from hatwisted.wire.remoting import RemotingCommand


def _delayed(setup: Setup) -> bool:
    return setup.delayed > 0


def _transactions(setup: Setup) -> bool:
    return setup.transactions


def _take_at_once(hold: TableHold, _end: int) -> Deferred[None]:
    hold.drop()
    return succeed(None)


def _move_on_early(level: LevelDelivery, batch: dict[int, Any]) -> None:
    level._stored.update(batch)
    level._move_on()
    level._stored.clear()
    _deliver(level, batch)


_deliver = LevelDelivery._deliver


_wait = LevelDelivery._wait


def _wait_by_another_clock(level: Any, index: int, due: int, _now: int) -> float:
    return _wait(level, index, due, int(level._clock._clock.seconds() * 1000))


def _none_waits(*_args: object) -> float:
    return 0.0


def _end_at_once(processor: EndTransactionProcessor, connection: Any, request: RemotingCommand) -> Any:
    answer = _end(processor, connection, request)
    return response(request) if isinstance(answer, Deferred) else answer


_end = EndTransactionProcessor.end


def _take_back_at_once(processor: SendBackProcessor, connection: Any, request: RemotingCommand) -> Any:
    answer = _take_back(processor, connection, request)
    return response(request) if isinstance(answer, Deferred) else answer


_take_back = SendBackProcessor.take_back


def _not_asked(*_args: object) -> bool:
    return True


def _audited(setup: Setup) -> bool:
    return setup.audited


def _tables(setup: Setup) -> bool:
    return setup.tables


async def _no_difference(*_args: object) -> list[Any]:
    return []


def _replace_nothing(*_args: object) -> str:
    return "repair/kept"


def _nobody_lacks(_followers: TableFollowers) -> Deferred[None]:
    return succeed(None)


def _saved_later(_tables: BrokerTables) -> Deferred[None]:
    return succeed(None)


def _uncut(_index: IndexService, _end: int) -> int:
    return 0


_DELAYED_PAIR = {
    "seconds": 40.0,
    "delayed": 0.4,
    "pause": 0.05,
    "sizes": (10, 60),
    "sync_master": True,
    "copies": None,
    "consumers": False,
}
"""A slave that is promoted has delayed messages of its master's to deliver, and knows how far that had come."""

SERVICE_BUGS: dict[str, Bug] = {
    "tables-ahead": Bug(
        "a slave takes its master's progress of delay levels before it has the log that it speaks of",
        TableHold,
        "wait",
        _take_at_once,
        ("promote", "stall"),
        conf=_DELAYED_PAIR
        | {
            "faults": (
                Fault(at=12.0, kind="stall", host="a", lasts=19.0),
                Fault(at=26.5, kind="promote", lasts=3.0),
            )
        },
    ),
    "delivery-counted": Bug(
        "a delayed message counts as delivered before it is stored",
        LevelDelivery,
        "_deliver",
        _move_on_early,
        ("kill", "full", "io"),
        _delayed,
    ),
    "clocks-mixed": Bug(
        "delayed messages are dated by the broker's clock, and due by one that is right",
        LevelDelivery,
        "_wait",
        _wait_by_another_clock,
        ("kill", "slow"),
        conf={"delayed": 0.4, "drift": DRIFT},
    ),
    "delay-ignored": Bug(
        "delayed messages are delivered at once", LevelDelivery, "_wait", _none_waits, (), _delayed
    ),
    "end-unawaited": Bug(
        "the end of a transaction is answered before it's safe",
        EndTransactionProcessor,
        "end",
        _end_at_once,
        needs=_transactions,
    ),
    "send-back-unawaited": Bug(
        "a message that is sent back is answered before it's safe",
        SendBackProcessor,
        "take_back",
        _take_back_at_once,
        ("kill", "full", "io"),
        conf={"consumers": True, "pause": 0.15},
    ),
    "never-asked": Bug(
        "nobody asks what became of a transaction", TransactionCheck, "_ask", _not_asked, (), _transactions
    ),
    "rot-unseen": Bug(
        "a slave finds no difference between its log and its master's, whatever it reads",
        logaudit,
        "differing_ranges",
        _no_difference,
        needs=_audited,
    ),
    "rot-kept": Bug(
        "a slave says that it has repaired its log, and hasn't",
        logrepair,
        "replace_range",
        _replace_nothing,
        needs=_audited,
    ),
    "index-uncut": Bug(
        "the index keeps items of records that were cut",
        IndexService,
        "truncate",
        _uncut,
        ("power", "die", "flicker"),
        lambda setup: setup.index and not setup.sync_flush,
    ),
    "change-uncopied": Bug(
        "a change of a table is confirmed before the slaves have it",
        TableFollowers,
        "copied",
        _nobody_lacks,
        needs=_tables,
    ),
    "change-unsaved": Bug(
        "a change of a table is confirmed before the master has written it to a file",
        BrokerTables,
        "saved",
        _saved_later,
        ("kill", "die", "slowdisk"),
        _tables,
    ),
}
"""By name."""

"""Limits that no run would come near, made so small in some that they are reached, and the most that was ever held
against each of them.

What grows is looked at where it grows, in the same call: between two looks of an operator it could have come and
gone. Most limits are tight while faults go on. A group that heals has as much room as elsewhere: that it heals is
another promise.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any, NamedTuple
from unittest import mock
from weakref import WeakKeyDictionary

from hatwisted.assembly import options
from hatwisted.broker.delay import schedule
from hatwisted.broker.node import tablefollowers
from hatwisted.broker.pull import pullhold
from hatwisted.broker.put import putack
from hatwisted.broker.transaction import endtransaction, transactioncheck
from hatwisted.clientcore import calls
from hatwisted.ha import master
from hatwisted.ha.grouptransfer import GroupTransferService
from hatwisted.ha.slaveprogress import TRANSFERRING
from hatwisted.remoting import partialframes, server
from hatwisted.sim.history import Violation
from hatwisted.sim.simworker import SimWorker
from hatwisted.sim.waitwatch import SLICE
from hatwisted.store.log.openfiles import OpenFiles

MOST_CALLS = 12
"""Disk calls of one broker that run, wait or haven't told their result: each user has a few, says CALL_LIMIT of
`store/disk/worker.py`."""

SMALL_ANSWERS = 6 << 10
"""Bytes of answers that were on their way when a client was read from no more: a few hundred each."""

LOG_FILES, QUEUE_FILES = 3, 4
"""Open at a time."""


class Limit(NamedTuple):
    """One limit.

    - name: of what it holds down
    - said: what says it: an owner and its attribute; None: a run can't come near what the program says
    - tight: what that is in some runs
    - grows: what makes it grow: a class or a module, and its function
    - held: how much there is after such a call, of its arguments
    - more: so much more may be there, as what one call brings is taken whole
    - lasts: is it tight to the end?
    """

    name: str
    said: tuple[Any, str] | None
    tight: Any
    grows: tuple[Any, str]
    held: Callable[..., int]
    more: int = 0
    lasts: bool = False

    @property
    def value(self) -> int:
        """What it is in some runs, as a number."""
        return int(self.tight[0] if isinstance(self.tight, tuple) else self.tight)


def _of_host(service: Any, link: Any) -> int:
    copying = [end for end in service._links if end.progress.state in TRANSFERRING]
    return sum(end.host == link.host and not end.transport._aborting for end in copying)


class _Unread:
    """What a connection had left unread when more was written, the largest single answer apart."""

    def __init__(self) -> None:
        self._largest: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def __call__(self, transport: Any, data: bytes) -> int:
        largest = self._largest.get(transport, 0)
        self._largest[transport] = max(largest, len(data))
        return max(0, getattr(transport, "unsent", 0) - len(data) - largest)


LIMITS = (
    Limit(
        "puts that wait for disk or slave when more come",
        (putack, "MAX_WAITING_PUTS"),
        6,
        (putack.PutAcks, "_begin"),
        lambda acks, puts, *_: acks.waiting - len(puts) + 1,
    ),
    Limit(
        "waits on a slave's line",
        (GroupTransferService.__init__, "__defaults__"),
        (3,),
        (GroupTransferService, "wait"),
        lambda service, *_: len(service),
    ),
    Limit(
        "held pulls",
        (pullhold, "MAX_HELD"),
        5,
        (pullhold.PullHold, "hold"),
        lambda hold, *_: hold.count,
    ),
    Limit(
        "calls of a channel without an answer",
        (calls, "MAX_CALLS"),
        16,
        (calls.Channel, "call"),
        lambda channel, *_: len(channel._calls),
    ),
    Limit(
        "bytes of incomplete frames",
        (partialframes, "MAX_PARTIAL_BYTES"),
        2_000,
        (partialframes.PartialFrames, "hold"),
        lambda partial, *_: partial.total,
    ),
    Limit(
        "bytes left unread by a client when more are written",
        (server, "READ_SIZE"),
        1 << 10,
        (server, "write_now"),
        _Unread(),
        more=SMALL_ANSWERS,
        lasts=True,
    ),
    Limit(
        "links without a report",
        (master, "MAX_UNREPORTED"),
        1,
        (master.HAService, "joined"),
        lambda service, _: len(service._unreported),
    ),
    Limit(
        "links from one host",
        (master, "MAX_LINKS_OF_HOST"),
        1,
        (master.HAService, "reported"),
        _of_host,
    ),
    Limit(
        "ended transactions that are remembered",
        (endtransaction, "MAX_REMEMBERED"),
        3,
        (endtransaction.EndTransactionProcessor, "_remember"),
        lambda ends, *_: len(ends._decided),
    ),
    Limit(
        "decisions about transactions in memory",
        (transactioncheck, "MAX_KNOWN_OPS"),
        4,
        (transactioncheck.TransactionCheck, "_places"),
        lambda check, *_: len(check._decided),
        more=SLICE,
    ),
    Limit(
        "answers that wait for a slave's tables",
        (tablefollowers, "MAX_WAITS"),
        1,
        (tablefollowers.TableFollowers, "copied"),
        lambda followers: len(followers._waits),
    ),
    Limit(
        "delayed messages of a slice",
        (schedule, "MAX_BATCH"),
        3,
        (schedule.LevelDelivery, "_deliver"),
        lambda _, batch: len(batch),
    ),
    Limit(
        "open files of a log",
        (OpenFiles.__init__, "__defaults__"),
        (LOG_FILES, False),
        (OpenFiles, "get"),
        lambda files, _: len(files) * (files._limit == LOG_FILES),
    ),
    Limit(
        "open files of queues",
        (options, "OPEN_QUEUE_FILES"),
        QUEUE_FILES,
        (OpenFiles, "get"),
        lambda files, _: len(files) * (files._limit != LOG_FILES),
    ),
    Limit(
        "calls of a broker's disk",
        None,
        MOST_CALLS,
        (SimWorker, "run"),
        lambda worker, *_: worker.under_way,
    ),
)
"""Those that a run can reach, beside a link's buffer and window (`waitwatch`)."""


class TightLimits:
    """Has the limits tight. violations: where it's told that more was held."""

    def __init__(self, violations: list[Violation]) -> None:
        self.most = dict.fromkeys((limit.name for limit in LIMITS), 0)
        """That was ever held, by name."""
        self._violations = violations
        self._patches = {True: ExitStack(), False: ExitStack()}
        """To be undone, by whether they last."""

    @property
    def reached(self) -> list[str]:
        """Names of the limits that were, of bytes nearly: what would have been too many is gone by then."""
        return [limit.name for limit in LIMITS if self.most[limit.name] >= 0.95 * limit.value]

    def tighten(self) -> None:
        """From now on."""
        for limit in LIMITS:
            patches = self._patches[limit.lasts]
            if limit.said is not None:
                patches.enter_context(mock.patch.object(*limit.said, limit.tight))
            patches.enter_context(mock.patch.object(*limit.grows, self._looked_at(limit)))

    def relax(self) -> None:
        """Those that don't last are as they usually are."""
        self._patches[False].close()

    def end(self) -> None:
        """All are."""
        self.relax()
        self._patches[True].close()

    def _looked_at(self, limit: Limit) -> Callable[..., object]:
        grow = getattr(*limit.grows)
        most, allowed = self.most, limit.value + limit.more

        @wraps(grow)
        def grows(*args: Any, **named: Any) -> object:
            result = grow(*args, **named)
            held = limit.held(*args, **named)
            if held > most[limit.name]:
                most[limit.name] = held
                if held > allowed:
                    self._violations.append(
                        Violation("limits", f"{held} {limit.name}, {allowed} are allowed")
                    )
            return result

        return grows

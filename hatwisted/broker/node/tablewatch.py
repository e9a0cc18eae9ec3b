"""A slave's end of `tablefollowers`: a request open with a master of ours, a copy of the tables at each answer.

A master that doesn't know the request (RocketMQ's, or an older one of ours) is asked for its tables every
`slaveSyncInterval` alone, as without it.

The versions of a request are what operators are told that this slave has, so they are of its files: a slave whose
power fails a moment later comes back with them. One that can't write them doesn't ask.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.node.followedmaster import FollowedMaster
from hatwisted.broker.node.tablefollowers import HOLD, versions_of
from hatwisted.broker.tables import BrokerTables
from hatwisted.clientcore.errors import CallFailed, Refused
from hatwisted.remoting.client import RemotingClient
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand

ANSWER_SLACK = 5.0
"""Seconds beyond HOLD until an answer counts as lost."""

PAUSE = 0.05
"""Seconds from a copy to the next request: many topics may be made at a time."""

RETRY = 10.0
"""Seconds to the next request after one that failed; the rounds go on meanwhile."""


class TableWatch:
    """Watches one master at a time.

    - client: asks it
    - clock: of its pauses
    - tables: whose versions the master is sent
    - copy: takes its topics and groups over; doesn't fail
    """

    def __init__(
        self,
        client: RemotingClient,
        clock: IReactorTime,
        tables: BrokerTables,
        copy: Callable[[], Deferred[None]],
    ) -> None:
        self._client = client
        self._clock = clock
        self._tables = tables
        self._copy = copy
        self._asked = FollowedMaster(clock, "watching the master's tables", self._ask, 0, RETRY)

    def follow(self, master: str | None) -> None:
        """Watch the broker at `master` ("host:port"), a master of ours; None: nobody."""
        self._asked.follow(master)

    @inlineCallbacks
    def _ask(self, master: str) -> Generator[Any, Any, float]:
        had = versions_of(self._tables)
        if (yield self._saved()) is not None:
            return RETRY
        asked_at = self._clock.seconds()
        request = RemotingCommand(RequestCode.WATCH_TABLES, ext=had)
        try:
            yield self._client.ask(master, request, HOLD + ANSWER_SLACK)
        except (CallFailed, Refused):
            return RETRY
        yield self._copy()
        return self._pause_after(had, self._clock.seconds() - asked_at)

    def _saved(self) -> Deferred[str | None]:
        return self._tables.saved()

    def _pause_after(self, had: dict[str, str], elapsed: float) -> float:
        # The change that was announced couldn't be copied: asked again at once, the master would say the same.
        in_vain = elapsed < HOLD / 2 and versions_of(self._tables) == had
        return RETRY if in_vain else PAUSE

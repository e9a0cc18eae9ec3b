"""Telling a group's members that these have changed (NOTIFY_CONSUMER_IDS_CHANGED 40), so that they share the
queues anew; and taking those out whose connections are gone.

A client may be in a thousand groups, and each may have a thousand members: all of them told at once for every
client that comes or goes would keep the broker from everything else for minutes. So they are told for SLICE in a
round of the loop, the first at once; and a group that changes again before its turn has come is told of once.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from twisted.internet.interfaces import IReactorTime

from hatwisted.timing.timer import GuardedTimer

SLICE: Final = 0.002
"""Seconds of a round of the loop; one more piece of work is begun within them."""

RETRY: Final = 1.0
"""Seconds until the next turn after one that failed."""


class _Sliced:
    """Work in pieces.

    - clock: measures them
    - name: of the work, for the log
    """

    def __init__(self, clock: IReactorTime, name: str) -> None:
        self._clock = clock
        self._used = 0.0
        """Seconds of this round."""
        self._timer = GuardedTimer(clock, name, self._turn, RETRY)

    def _left(self) -> bool:
        raise NotImplementedError

    def _piece(self) -> None:
        raise NotImplementedError

    def _work(self) -> None:
        """As long as this round allows."""
        try:
            while self._used < SLICE and self._left():
                began = self._clock.seconds()
                try:
                    self._piece()
                finally:
                    self._used += self._clock.seconds() - began
        finally:
            if (self._used or self._left()) and not self._timer.pending:
                self._timer.set(0)

    def _turn(self) -> None:
        self._used = 0.0
        if self._left():
            self._work()


class MemberNotices(_Sliced):
    """Those that are still to be told.

    - clock: measures turns
    - members: those that a group has now
    - tell: tells one of them about the group
    """

    def __init__(
        self,
        clock: IReactorTime,
        members: Callable[[str], Iterable[Hashable]],
        tell: Callable[[str, Hashable], None],
    ) -> None:
        super().__init__(clock, "telling members of groups about each other")
        self._members = members
        self._tell = tell
        self._groups: OrderedDict[str, None] = OrderedDict()
        """Those whose turn hasn't come."""
        self._group = ""
        self._untold: deque[Hashable] = deque()
        """Members of the group whose turn it is."""

    def changed(self, group: str) -> None:
        """Its members have changed."""
        self._groups[group] = None
        self._work()

    def stop(self) -> None:
        """Nobody is told any more."""
        self._groups.clear()
        self._untold.clear()
        self._timer.cancel()

    def _left(self) -> bool:
        return bool(self._untold or self._groups)

    def _piece(self) -> None:
        if self._untold:
            self._tell(self._group, self._untold.popleft())
        else:
            self._group, _ = self._groups.popitem(last=False)
            self._untold.extend(self._members(self._group))


class Leavers(_Sliced):
    """Connections that are gone and whose clients are still in their groups, for the same reason.

    - clock: measures turns
    - leave: takes one out of all of its groups
    """

    def __init__(self, clock: IReactorTime, leave: Callable[[Hashable], object]) -> None:
        super().__init__(clock, "taking clients out of their groups")
        self._leave = leave
        self._gone: deque[Hashable] = deque()

    def add(self, connection: Hashable) -> None:
        """It's gone."""
        self._gone.append(connection)
        self._work()

    def stop(self) -> None:
        """All are out at once."""
        while self._gone:
            self._leave(self._gone.popleft())
        self._timer.cancel()

    def _left(self) -> bool:
        return bool(self._gone)

    def _piece(self) -> None:
        self._leave(self._gone.popleft())

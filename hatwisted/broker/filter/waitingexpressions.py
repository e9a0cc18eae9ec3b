"""Expressions of heartbeats that aren't compiled yet: one heartbeat may bring sixty, of 20 ms each.

They are compiled in turns of `SLICE` or one dear expression, groups in rotation, between which everybody else
is served for as long as the turn took. The first turn comes with the heartbeat, and most need no other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container

from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.filter.subscriptiondata import Subscription
from hatwisted.timing.timer import GuardedTimer

SLICE = 0.002
"""Seconds of a turn; one expression more is begun within them."""

RETRY = 0.1
"""Seconds until the next turn after one that failed."""


class WaitingExpressions:
    """Those of all groups, one for each of a group's topics.

    - clock: measures the turns
    - compile: called with a group and its subscription, which waits no more
    """

    def __init__(self, clock: IReactorTime, compile: Callable[[str, Subscription], None]) -> None:
        self._clock = clock
        self._compile = compile
        self._groups: OrderedDict[str, dict[str, Subscription]] = OrderedDict()
        """The group whose turn it is comes first."""
        self._timer = GuardedTimer(clock, "compiling filter expressions", self._turn, RETRY)

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def find(self, group: str, topic: str) -> Subscription | None:
        """What waits there."""
        return self._groups.get(group, {}).get(topic)

    def put(self, group: str, wanted: Subscription) -> None:
        """It waits now. Follow by `go_on`, once for many."""
        self._groups.setdefault(group, {})[wanted.topic] = wanted

    def take(self, group: str, topic: str) -> Subscription | None:
        """What waited there, and doesn't any more."""
        topics = self._groups.get(group, {})
        wanted = topics.pop(topic, None)
        if wanted is not None and not topics:
            del self._groups[group]
        return wanted

    def take_others(self, group: str, topics: Container[str]) -> list[Subscription]:
        """What waited for topics of the group that aren't among these, and doesn't any more."""
        others = [topic for topic in self._groups.get(group, ()) if topic not in topics]
        return [wanted for topic in others if (wanted := self.take(group, topic)) is not None]

    def go_on(self) -> None:
        """A turn now, unless there are some to come."""
        if not self._timer.pending:
            self._turn()

    def _turn(self) -> None:
        began = self._clock.seconds()
        while self._groups:
            group, topics = next(iter(self._groups.items()))
            self._groups.move_to_end(group)
            wanted = self.take(group, next(iter(topics)))
            assert wanted is not None
            self._compile(group, wanted)
            if self._clock.seconds() >= began + SLICE:
                break
        if self._groups:
            self._timer.set(self._clock.seconds() - began)

    def stop(self) -> None:
        """No turn is to come; idempotent."""
        self._timer.cancel()

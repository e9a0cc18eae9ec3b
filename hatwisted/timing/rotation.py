"""Whose turn it is where many wait: hosts go round, and what waits of one host in the order in which it came.

So nobody waits longer for having neighbours with much to do, and a host gains nothing by asking for more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Rotation(Generic[T]):
    """What waits, each once; hashable."""

    def __init__(self) -> None:
        self._hosts: OrderedDict[Hashable, OrderedDict[T, None]] = OrderedDict()
        """The one whose turn it is comes first, and of what waits there likewise."""

    def __len__(self) -> int:
        return sum(map(len, self._hosts.values()))

    def __bool__(self) -> bool:
        return bool(self._hosts)

    def __iter__(self) -> Iterator[tuple[Hashable, T]]:
        """(host, what waits), host by host; take or discard nothing meanwhile."""
        for host, waiting in self._hosts.items():
            for each in waiting:
                yield host, each

    def count(self, host: Hashable) -> int:
        """How much waits of one host."""
        return len(self._hosts.get(host, ()))

    def last(self, host: Hashable) -> T:
        """What came last of a host of which something waits."""
        return next(reversed(self._hosts[host]))

    def add(self, host: Hashable, item: T) -> None:
        """It waits behind all that there is of its host; if it does already, it keeps its place.

        - host: where it is from
        - item: what waits
        """
        self._hosts.setdefault(host, OrderedDict())[item] = None

    def discard(self, host: Hashable, item: T) -> None:
        """It waits no more; idempotent.

        - host: where it is from
        - item: what waited
        """
        waiting = self._hosts.get(host)
        if waiting is not None:
            waiting.pop(item, None)
            if not waiting:
                del self._hosts[host]

    def take(self) -> T:
        """Whose turn it is, and who waits no more; all other hosts come before this one again. KeyError if nobody
        waits."""
        host, waiting = self._hosts.popitem(last=False)
        item, _ = waiting.popitem(last=False)
        if waiting:
            self._hosts[host] = waiting
        return item

    def clear(self) -> None:
        """Nothing waits."""
        self._hosts.clear()

"""How many routes each host has registered: at most half of all there may be, so that none takes all the room.

A route is the host's that registered it last; brokers behind one address are one host's. What is being entered
counts as there already.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

SHARE: Final = 2
"""A host has one in so many of all routes, characters and brokers."""


class Holding:
    """Routes, and the characters of their topics' names."""

    __slots__ = ("characters", "routes")

    def __init__(self) -> None:
        self.routes = 0
        self.characters = 0


NOTHING: Final = Holding()


class RouteShares:
    """Of all hosts, by group. Invariant: a host's is the sum over all groups and promises."""

    def __init__(self) -> None:
        self._hosts: dict[str, Holding] = {}
        self._groups: dict[str, dict[str, Holding]] = {}
        """Group -> host -> what it has registered of the group."""

    def of(self, host: str) -> Holding:
        """What a host has, or is about to have."""
        return self._hosts.get(host, NOTHING)

    def count(self, group: str, host: str, characters: int) -> None:
        """A host has registered a route.

        - group: that it's of
        - host: whose share it takes
        - characters: of its topic's name
        """
        hosts = self._groups.setdefault(group, {})
        _add(hosts, host, 1, characters)
        _add(self._hosts, host, 1, characters)

    def uncount(self, group: str, host: str, characters: int) -> None:
        """One that was counted has gone, or is another host's.

        - group: that it's of
        - host: whose share it took
        - characters: of its topic's name
        """
        hosts = self._groups[group]
        _add(hosts, host, -1, -characters)
        if not hosts:
            del self._groups[group]
        _add(self._hosts, host, -1, -characters)

    def leave(self, group: str) -> None:
        """All routes of the group have gone."""
        for host, held in self._groups.pop(group, {}).items():
            _add(self._hosts, host, -held.routes, -held.characters)

    def promise(self, host: str, topics: Collection[str]) -> Promise:
        """Count the routes for these topics that the host is about to have."""
        return Promise(self._hosts, host, topics)


class Promise:
    """Routes that are about to be there.

    - hosts: what each has
    - host: whose share they take
    - topics: that they are for
    """

    def __init__(self, hosts: dict[str, Holding], host: str, topics: Collection[str]) -> None:
        self._hosts = hosts
        self._host = host
        self._left = Holding()
        self._count(len(topics), sum(map(len, topics)))

    def redeem(self, topics: Collection[str]) -> None:
        """These are there, or will be in a moment, and are counted as such."""
        if self._left.routes:
            self._count(-len(topics), -sum(map(len, topics)))

    def drop(self) -> None:
        """No more of them will be there. Idempotent."""
        self._count(-self._left.routes, -self._left.characters)

    def _count(self, routes: int, characters: int) -> None:
        self._left.routes += routes
        self._left.characters += characters
        _add(self._hosts, self._host, routes, characters)


def _add(holdings: dict[str, Holding], host: str, routes: int, characters: int) -> None:
    held = holdings.get(host)
    if held is None:
        held = holdings[host] = Holding()
    held.routes += routes
    held.characters += characters
    if not held.routes:
        del holdings[host]

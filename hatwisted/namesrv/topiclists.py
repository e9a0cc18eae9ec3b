"""Lists of topics' names, as they are answered: made a thousand names at a time, and kept while the routes stay.

There may be hundreds of thousands of topics, and tools ask for all of them. Who asks for a list that is being made
waits for it with the others, and those of a large one are answered one at a time: ten MiB are copied for each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Hashable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from hatwisted.namesrv.topicqueues import STEP, TopicQueues
from hatwisted.timing.steps import MAX_OF_ONE, Steps, TooMuchWork
from hatwisted.wire import fastjson

MAX_KEPT: Final = 16 << 20
"""Bytes of the lists that are kept: the largest there may be."""

MAX_LISTS: Final = 8
"""Lists that are kept: one of all topics, three by flags, and some clusters'."""


class _Kept(NamedTuple):
    version: int
    body: bytes


class _Waiter:
    """Who waits for a list that has what the routes had when it was asked for."""

    __slots__ = ("connection", "done", "key", "version")

    def __init__(self, connection: Hashable, key: Hashable, version: int) -> None:
        self.connection = connection
        self.key = key
        self.version = version
        self.done: Deferred[bytes] = Deferred()


class TopicLists:
    """Those of one name server.

    - clock: measures the steps
    - queues: the topics
    - groups_of: names of a cluster's groups

    Each list fires as the body of an answer, or fails with TooMuchWork for a connection that waits for many.
    """

    def __init__(
        self, clock: IReactorTime, queues: TopicQueues, groups_of: Callable[[str], Collection[str]]
    ) -> None:
        self._queues = queues
        self._groups_of = groups_of
        self._steps = Steps(clock, "listing topics")
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._waiting: dict[Hashable, dict[_Waiter, None]] = {}
        """List that is being made -> who waits for it."""
        self._of: dict[Hashable, dict[_Waiter, None]] = {}
        """The same by connection."""

    def every(self, connection: Hashable) -> Deferred[bytes]:
        """All topics. connection: of who asks."""
        return self._list(connection, "every", lambda: iter([*self._queues]))

    def of_cluster(self, connection: Hashable, cluster: str) -> Deferred[bytes]:
        """The topics that a group of `cluster` serves. connection: of who asks."""

        def names() -> Iterator[str]:
            seen: set[str] = set()
            for group in self._groups_of(cluster):
                new = [topic for topic in self._queues.topics_of(group) if topic not in seen]
                seen.update(new)
                yield from new

        return self._list(connection, ("cluster", cluster), names)

    def with_flags(self, connection: Hashable, has: int, lacks: int = 0) -> Deferred[bytes]:
        """The topics whose sysFlag, at their first group, has certain bits.

        - connection: of who asks
        - has: all of these bits
        - lacks: none of these
        """

        def chosen(topic: str) -> bool:
            data = next(iter(self._queues.of(topic).values()), None)
            return data is not None and data.topic_sys_flag & has == has and not data.topic_sys_flag & lacks

        return self._list(connection, ("flags", has, lacks), lambda: iter([*self._queues]), chosen)

    def forget(self, connection: Hashable) -> None:
        """The connection is gone: what it waits for never comes."""
        for waiter in self._of.pop(connection, ()):
            self._waiting[waiter.key].pop(waiter, None)

    def _list(
        self,
        connection: Hashable,
        key: Hashable,
        names: Callable[[], Iterator[str]],
        chosen: Callable[[str], bool] | None = None,
    ) -> Deferred[bytes]:
        """The list under `key`: of these names those that are chosen."""
        kept = self._kept.get(key)
        if kept is not None and kept.version == self._queues.version:
            return succeed(kept.body)
        if len(self._of.get(connection, ())) >= MAX_OF_ONE:
            return fail(TooMuchWork(f"{MAX_OF_ONE} lists of topics are being made for you"))
        waiter = _Waiter(connection, key, self._queues.version)
        self._of.setdefault(connection, {})[waiter] = None
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting[waiter] = None
        else:
            waiting = self._waiting[key] = {waiter: None}
            made = self._steps.run(key, self._make(key, names, chosen))
            made.addErrback(self._failed, key)
        return waiter.done

    def _make(
        self, key: Hashable, names: Callable[[], Iterator[str]], chosen: Callable[[str], bool] | None
    ) -> Generator[None, None, None]:
        """Make it, and again as long as somebody waits who has asked since."""
        waiting = self._waiting[key]
        while waiting:
            version, pieces, left = self._queues.version, [], names()
            while some := [*islice(left, STEP)]:
                found = some if chosen is None else [name for name in some if chosen(name)]
                if found:
                    pieces.append(fastjson.dumps_compact(found)[1:-1])
                if len(some) == STEP:
                    yield
            body = b'{"topicList":[%b]}' % b",".join(pieces)
            self._keep(key, _Kept(version, body))
            for number, waiter in enumerate([each for each in waiting if each.version <= version]):
                if number:
                    yield
                if waiter in waiting:  # its client hasn't gone
                    self._leave(waiter)
                    waiter.done.callback(body)
        del self._waiting[key]

    def _failed(self, failure: Failure, key: Hashable) -> None:
        for waiter in [*self._waiting[key]]:
            self._leave(waiter)
            waiter.done.errback(failure)
        del self._waiting[key]

    def _leave(self, waiter: _Waiter) -> None:
        del self._waiting[waiter.key][waiter]
        of_connection = self._of[waiter.connection]
        del of_connection[waiter]
        if not of_connection:
            del self._of[waiter.connection]

    def _keep(self, key: Hashable, made: _Kept) -> None:
        self._kept.pop(key, None)
        self._kept[key] = made
        while len(self._kept) > MAX_LISTS or sum(len(each.body) for each in self._kept.values()) > MAX_KEPT:
            self._kept.popitem(last=False)

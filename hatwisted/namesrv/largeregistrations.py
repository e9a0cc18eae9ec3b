"""Registrations of many topics, a step at a time: the largest take a name server 0.2 s, and nobody waits for them.

One is under way at a time; the others wait as the bytes that have come, and hosts take turns. Those of one
connection are entered in the order in which they came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from hatwisted.remoting.server import RemotingConnection
from hatwisted.timing.rotation import Rotation
from hatwisted.timing.steps import Steps
from hatwisted.wire.networks import counted_as
from hatwisted.wire.remoting import RemotingCommand

MAX_WAITING = 32 << 20
"""Bytes of bodies that wait; beyond that the last of the host that has most of them is refused."""

MAX_OF_CONNECTION = 4
"""Registrations of one connection; brokers wait for the answer to one."""

LEAST_SIZE = 16 << 10
"""Bytes that one counts for at least: compressed bodies are small, and each has a header and its objects."""

Work = Generator[None, None, RemotingCommand]
"""Ends with the answer."""


class TooManyRegistrations(Exception):
    """One isn't begun; it may be tried again."""


class _Registration:
    """connection: whose; size: of its body; work: what is to be done."""

    __slots__ = ("connection", "done", "host", "size", "work")

    def __init__(self, connection: RemotingConnection, size: int, work: Work) -> None:
        self.connection = connection
        self.host = counted_as(connection.address)
        self.size = max(size, LEAST_SIZE)
        self.work = work
        self.done: Deferred[RemotingCommand] = Deferred()


class LargeRegistrations:
    """Those of one name server. clock: measures the steps."""

    def __init__(self, clock: IReactorTime) -> None:
        self._steps = Steps(clock, "entering a registration")
        self._current: _Registration | None = None
        self._waiting = Rotation[_Registration]()
        self._held: Counter[str] = Counter()
        """Bytes that wait, by host."""
        self._of: dict[RemotingConnection, list[_Registration]] = {}

    @property
    def waiting_bytes(self) -> int:
        """Of bodies that wait for their turn."""
        return self._held.total()

    def has(self, connection: RemotingConnection) -> bool:
        """Is one of its registrations under way, or waiting?"""
        return connection in self._of

    def enter(self, connection: RemotingConnection, size: int, work: Work) -> Deferred[RemotingCommand]:
        """Fires with the answer, or fails with what `work` raises, or TooManyRegistrations.

        - connection: on which it came
        - size: bytes of its body
        - work: enters it
        """
        entered = _Registration(connection, size, work)
        if len(self._of.get(connection, ())) >= MAX_OF_CONNECTION:
            entered.done.errback(TooManyRegistrations(f"{MAX_OF_CONNECTION} registrations of yours wait"))
            return entered.done
        self._of.setdefault(connection, []).append(entered)
        self._waiting.add(entered.host, entered)
        self._held[entered.host] += entered.size
        self._begin()
        while self._held.total() > MAX_WAITING:
            refused = self._waiting.last(max(self._held, key=self._held.__getitem__))
            self._leave_queue(refused)
            self._drop(refused)
            refused.done.errback(TooManyRegistrations("too many large registrations wait"))
        return entered.done

    def forget(self, connection: RemotingConnection) -> None:
        """The connection is gone: nobody waits for its answers."""
        for registration in self._of.pop(connection, ()):
            if registration is not self._current:
                self._leave_queue(registration)
                continue
            self._steps.forget(registration)
            registration.work.close()
            self._current = None
        self._begin()

    def _begin(self) -> None:
        if self._current is not None or not self._waiting:
            return
        current = self._current = self._waiting.take()
        self._leave_queue(current)
        self._steps.run(current, _after_others(current.work)).addBoth(self._ended, current)

    def _ended(self, outcome: object, ended: _Registration) -> None:
        self._current = None
        self._drop(ended)
        ended.done.callback(outcome)  # type: ignore[arg-type]  # or a Failure, for its errbacks
        self._begin()

    def _leave_queue(self, registration: _Registration) -> None:
        host = registration.host
        self._waiting.discard(host, registration)
        self._held[host] -= registration.size
        if not self._waiting.count(host):
            del self._held[host]

    def _drop(self, registration: _Registration) -> None:
        of_connection = self._of[registration.connection]
        of_connection.remove(registration)
        if not of_connection:
            del self._of[registration.connection]


def _after_others(work: Work) -> Work:
    """In the next turn: one that is refused at its first step mustn't call who begins the next from there."""
    yield
    return (yield from work)

"""What a slave asks its master, or about it, again and again: one master at a time, until there's another."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from hatwisted.timing.timer import GuardedTimer


class FollowedMaster:
    """Calls `ask` with the master's address, and again after as many seconds as that has fired with.

    - clock: its timer
    - name: what is asked, for the log
    - ask: cancelled when another master is followed; what else it fails with is logged, and asked again
    - first: seconds until a new master is asked
    - retry: seconds from a failure to the next call
    """

    def __init__(
        self,
        clock: IReactorTime,
        name: str,
        ask: Callable[[str], Deferred[float]],
        first: float,
        retry: float,
    ) -> None:
        self._ask = ask
        self._first = first
        self._master: str | None = None
        self._under_way: Deferred[None] = succeed(None)
        self._timer = GuardedTimer(clock, name, self._turn, retry)

    def follow(self, master: str | None) -> bool:
        """Ask the broker at `master` ("host:port") from now on; None: nobody. False if that's so already."""
        if master == self._master:
            return False
        self._master = master
        self._under_way.cancel()
        self._timer.cancel()
        if master is not None:
            self._timer.set(self._first)
        return True

    def _turn(self) -> Deferred[None]:
        assert self._master is not None
        self._under_way = self._ask(self._master).addCallbacks(self._timer.set, _trap_cancelled)
        return self._under_way


def _trap_cancelled(failure: Failure) -> None:
    failure.trap(CancelledError)

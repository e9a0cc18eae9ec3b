"""Tries at several servers that can do the same: who is next, how long to wait before another round, and what
to say when nobody could help.

A round asks each server at most once. When it's over there's a pause, doubled each time, and another round; any
progress begins a new count. It ends early if all refuse for a reason that no pause changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hatwisted.clientcore.errors import BrokerGone, ClientError, Refused, RefusedByAll
from hatwisted.timing.pauses import doubled

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
"""Seconds before the next round after one in which nobody could help; doubled with each."""


def pause_after(tried: int) -> float:
    """Seconds to wait after the round `tried` (from 0)."""
    return doubled(FIRST_PAUSE, tried, LONGEST_PAUSE)


class Rounds:
    """Counted since the last progress.

    - retries: rounds after the first one
    - patience: seconds for which rounds go on after those, while all that is wrong is that servers are away
    """

    def __init__(self, retries: int, patience: float = 0.0) -> None:
        self.failures: dict[str, ClientError] = {}
        """Of the round under way: who was asked without success, and why."""
        self._retries = retries
        self._patience = self._left = patience
        self._over = 0

    def first_of(self, addresses: Iterable[str]) -> str | None:
        """The first that hasn't failed in this round."""
        return next((each for each in addresses if each not in self.failures), None)

    def failed(self, address: str, error: ClientError) -> None:
        """`address` was asked without success."""
        self.failures[address] = error

    def went_on(self) -> None:
        """Somebody could help."""
        self._over = 0
        self._left = self._patience
        self.failures.clear()

    def pause(self) -> float | None:
        """This round is over: seconds to wait before the next one, which begins now; None if there's none, and
        `failures` says why."""
        if self._hopeless or (self._over >= self._retries and not self._wait_on()):
            return None
        pause = pause_after(self._over)
        self._over += 1
        self.failures.clear()
        return pause

    def _wait_on(self) -> bool:
        """Is there patience left for servers that are away?"""
        away = bool(self.failures) and all(isinstance(each, BrokerGone) for each in self.failures.values())
        self._left -= pause_after(self._over) if away else self._left
        return away and self._left >= 0

    @property
    def _hopeless(self) -> bool:
        """Did all refuse for a reason that no pause will change?"""
        failures = self.failures.values()
        return bool(failures) and all(isinstance(each, Refused) and each.lasting for each in failures)

    def error(self, gone: str, refused: str) -> ClientError:
        """What nobody could help against: RefusedByAll, saying `refused`, if all have answered, else BrokerGone,
        saying `gone`."""
        refusals = [error for error in self.failures.values() if isinstance(error, Refused)]
        if refusals and len(refusals) == len(self.failures):
            return RefusedByAll(refused, refusals[-1])
        return BrokerGone(gone)

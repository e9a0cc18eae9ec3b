"""How often a key or a password may be tried: so many failures a second of one address for one account.

Beyond that nothing is compared, and the answer says nothing about what was given. Others aren't touched: not the
account at other addresses, nor other accounts at this one, nor (`RequestGuard`, `livepage`) who has proved before
that he knows the secret. So nobody locks an account out by trying.
"""

from __future__ import annotations

from collections import OrderedDict

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.timing.ratelimit import RateLimit
from hatwisted.timing.throttle import LogThrottle, more_like_it
from hatwisted.wire.networks import counted_as

NOBODY = ""
"""Stands for all accounts that there aren't: no key has this name."""


class FailedLogins:
    """Of one server.

    - rate: per second, of one address for one account; there may be as many more at once
    - clock: of the rate, and of the log's throttle
    """

    _log = Logger()

    def __init__(self, rate: int, clock: IReactorTime) -> None:
        self.refused_total = 0
        """What wasn't looked at."""
        self._rate = rate
        self._clock = clock
        self._limit = RateLimit(clock, rate)
        self._throttle = LogThrottle(clock)
        self._until: OrderedDict[str, float] = OrderedDict()
        """Addresses that have failed too often for some account, and until when that counts."""

    def late(self, address: str) -> bool:
        """Has it failed too often for any account? That's asked for every request."""
        return bool(self._until) and self._until.get(counted_as(address), 0.0) > self._clock.seconds()

    def refuses(self, address: str, account: str) -> bool:
        """Has it failed too often for this one? Then it's counted, and told once a minute."""
        host = counted_as(address)
        if not self._limit.wait((host, account)):
            return False
        self.refused_total += 1
        left_out = self._throttle.admit(host)
        if left_out is not None:
            self._log.warn(
                "{host} has tried more than {rate} wrong signatures or passwords a second for {account}; "
                "what it tries beyond that isn't looked at{more}",
                event="access.tries",
                host=host,
                rate=self._rate,
                account=account or "accounts that there aren't",
                more=more_like_it(left_out),
            )
        return True

    def failed(self, address: str, account: str) -> None:
        """It has given a wrong one."""
        now, source = self._clock.seconds(), (counted_as(address), account)
        self._limit.admits(source)
        wait = self._limit.wait(source)
        while self._until and next(iter(self._until.values())) <= now:
            self._until.popitem(last=False)
        if wait:
            self._until[source[0]] = now + wait
            self._until.move_to_end(source[0])

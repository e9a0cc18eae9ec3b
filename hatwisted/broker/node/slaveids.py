"""Two slaves with one brokerId, as their master sees it.

Nothing on the HA link says who copies, and name servers know one address per id: each of the two takes the other's
place there at every registration, and readers find one of them at a time. Our slaves give id and address when
they ask for offsets; RocketMQ's don't, so only the name servers can tell them apart.
"""

from __future__ import annotations

from collections import OrderedDict

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.timing.throttle import LogThrottle

FORGET_AFTER = 60.0
"""Seconds after which a slave that hasn't asked again is forgotten: it may have moved."""

MAX_SLAVES = 64
"""Slaves remembered (about 300 bytes each); the one that was quiet longest is forgotten."""


class SlaveIds:
    """Who asks under which id."""

    _log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._throttle = LogThrottle(clock)
        self._asked: OrderedDict[tuple[int, str, str], float] = OrderedDict()

    def asked(self, broker_id: int, address: str, host: str) -> None:
        """A slave asked.

        - broker_id, address: what it calls itself ("host:port" as registered)
        - host: where the request came from
        """
        now = self._clock.seconds()
        slave = (broker_id, address, host)
        self._asked.pop(slave, None)
        self._asked[slave] = now
        if len(self._asked) > MAX_SLAVES:
            self._asked.popitem(last=False)
        alike = [
            f"{address} (asks from {host})"
            for (other_id, address, host), at in self._asked.items()
            if other_id == broker_id and now - at < FORGET_AFTER
        ]
        if len(alike) > 1 and self._throttle.admit(broker_id) is not None:
            self._log.warn(
                "{count} slaves of this master have brokerId {id}: {alike}; give each an id of its own, or "
                "readers find one of them at a time",
                event="slave.ids",
                count=len(alike),
                id=broker_id,
                alike=", ".join(sorted(alike)),
            )

"""May this slave copy that master? Asked before it does: what can't work shows at once, not after 67 MB.

The master says how it is configured (26) and since when it runs (28); RocketMQ's say so, too. One that doesn't
answer in time, or tells its configuration to administrators alone, is copied as it always was: what doesn't fit
then shows when it fails.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.broker.node.masterlog import MasterLog
from hatwisted.clientcore.errors import ClientError
from hatwisted.config.live import LiveConfig
from hatwisted.config.pairing import pairing
from hatwisted.config.schema import BrokerConfig
from hatwisted.health import javatext
from hatwisted.wire.quantities import time_text

CLOCK_LIMIT: Final = 30.0
"""Seconds that the clocks of slave and master may differ without a word: how long a message is kept, and when a
delayed one is due, goes by them."""


class JoinCheck:
    """Asks, and judges.

    - clock: ours
    - live: our configuration
    - master: asks it
    """

    _log = Logger()

    def __init__(self, clock: IReactorTime, live: LiveConfig[BrokerConfig], master: MasterLog) -> None:
        self._clock = clock
        self._live = live
        self._master = master
        self._said: set[str] = set()
        """Warnings that the log has."""

    @inlineCallbacks
    def objection(self) -> Generator[Deferred[Any], Any, str | None]:
        """Why the master can't be copied; None: nothing speaks against it, or it doesn't say. Never fails."""
        try:
            config = yield self._master.config()
            found = pairing(self._live.config, config)
            info = yield self._master.runtime()
        except (ClientError, ValueError, KeyError) as error:
            self._log.debug("the master's configuration isn't known: {why}", why=error)
            return None
        for warning in [*found.warnings, *clock_warning(info, self._clock.seconds())]:
            if warning not in self._said:
                self._said.add(warning)
                self._log.warn("{said}", event="slave.pairing", said=warning)
        return "; ".join(found.objections) or None


def clock_warning(info: Mapping[str, str], now: float) -> list[str]:
    """What to say of a master's clock.

    - info: its runtime info
    - now: by our clock
    """
    theirs = javatext.clock(info)
    if theirs is None:
        return []
    gap = now - theirs
    if abs(gap) <= CLOCK_LIMIT:
        return []
    where = "ahead of" if gap > 0 else "behind"
    return [f"this host's clock is {time_text(abs(gap))} {where} the master's: set both by NTP"]

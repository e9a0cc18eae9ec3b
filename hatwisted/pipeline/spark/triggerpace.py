"""How long a stream's triggers wait for enough messages: `minRecordsPerTrigger` and `maxTriggerDelay`.

A trigger with fewer messages than that does nothing, unless the last one that did something was too long ago. So
a topic with little traffic makes few small batches (files, commits), and its messages still aren't late.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

from hatwisted.pipeline.spark.readoptions import Options

LONGEST_DELAY: Final = 900.0
"""Seconds, unless the option says otherwise; as in Spark's source for Kafka."""
_SPAN: Final = re.compile(r"(\d+)\s*(ms|s|m|min|h)?")
_SECONDS: Final = {"ms": 0.001, None: 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


class TriggerPace:
    """Of one stream.

    - least: messages of a trigger; None: any number
    - longest: seconds since the last one, after which there may be fewer
    - clock: seconds, monotonic
    """

    def __init__(
        self, least: int | None, longest: float = LONGEST_DELAY, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._least = least
        self._longest = longest
        self._clock = clock
        self._last: float | None = None

    def is_due(self, waiting: int) -> bool:
        """Does a trigger take these messages? The first does: nobody knows how long ago the last one was."""
        now = self._clock()
        is_early = self._last is not None and now - self._last < self._longest
        if self._least is not None and waiting < self._least and is_early:
            return False
        if waiting:
            self._last = now
        return True

    @classmethod
    def of(cls, options: Options) -> TriggerPace:
        """From the options."""
        least, delay = options.integer("minRecordsPerTrigger", least=1), options.text("maxTriggerDelay")
        if delay is None:
            return cls(least)
        found = _SPAN.fullmatch(delay.lower())
        if least is None or found is None:
            raise options.wrong(
                "maxTriggerDelay", "a time as 500ms, 30s, 15m or 1h, with minRecordsPerTrigger"
            )
        return cls(least, int(found[1]) * _SECONDS[found[2]])

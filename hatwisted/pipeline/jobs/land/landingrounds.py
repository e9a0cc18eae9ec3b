"""The rounds of a landing without Spark: what there is lands, and where it follows, again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable

from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.jobs.land.landoptions import COMPACT_EVERY, LandOptions
from hatwisted.pipeline.jobs.land.stopping import stop_on_signals


def land_in_rounds(
    how: LandOptions,
    land: Callable[[], object],
    compact: Callable[[], Compaction],
    stop: threading.Event,
    seconds: Callable[[], float],
) -> tuple[Compaction, bool]:
    """(what was compacted, whether it was stopped before its end).

    - how: options
    - land: lands all that there is now, or what there's time for before the stop
    - compact: the table; called at the end, and every `COMPACT_EVERY` where it follows
    - stop: ends it, as a signal does
    - seconds: the clock
    """
    done, compacted_at = Compaction(), seconds()
    following = how.mode == "continuous"
    with stop_on_signals(stop.set):
        while True:
            land()
            if not stop.is_set() and (not following or seconds() - compacted_at >= COMPACT_EVERY):
                done, compacted_at = done + compact(), seconds()
            if not following or stop.wait(how.every):
                return done, stop.is_set()

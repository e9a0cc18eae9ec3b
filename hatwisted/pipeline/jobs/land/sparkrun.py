"""A run of the engine `spark`: a query, and another one with more brokers if some appear meanwhile, since what
isn't claimed isn't committed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.land.checkpoint import reached
from hatwisted.pipeline.jobs.land.landingsources import LandingSource
from hatwisted.pipeline.jobs.land.landingstate import LandingState
from hatwisted.pipeline.jobs.land.landoptions import FIRST_BATCH, LandOptions, Progress, tell
from hatwisted.pipeline.jobs.land.sparktable import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


@dataclass
class SparkRun:
    """One of them.

    - table: where it lands, claimed
    - source: what is landed
    - how: options
    - report: the progress
    - seconds: the clock
    """

    table: SparkTable
    source: LandingSource
    how: LandOptions
    report: Progress
    seconds: Callable[[], float]

    def run(
        self, state: LandingState, spark: SparkSession, stop: threading.Event
    ) -> tuple[LandingState, Compaction, bool]:
        """(the progress at its end, what was compacted, whether it was stopped before its end).

        - state: the progress
        - spark: the session
        - stop: ends it
        """
        from hatwisted.pipeline.jobs.land.sparklanding import SparkLanding

        self.table.note_queues()
        while True:
            if (why := self._unfit(state)) is not None:
                _log.warning("%s: %s: going on after the table's last rows", state.folder, why)
                state = state.renewed()
            tell(self.report, FIRST_BATCH)
            query = SparkLanding(self.table, self.source, state, self.how, self.report, self.seconds)
            try:
                return state, *query.run(spark, stop)
            except PipelineError:
                brokers = self.source.writer().brokers
                if not self.table.widen(brokers):
                    raise
                state = state.looked_at_again()
                self.source.check(self.table.tails())
                _log.info("%s: landing the brokers %s", self.table.name, ", ".join(brokers))

    def _unfit(self, state: LandingState) -> str | None:
        """Why this checkpoint isn't followed: somebody else has landed what it would land again, or it says of
        rows that they have landed, and a version without them was restored. None: it is."""
        if state.fresh:
            return None
        if self.table.was_taken_back(state.application):
            return "the table was restored to a version from before this checkpoint"
        last = self.table.last_batch(state.application)
        found = reached(state.spark_folder, lambda batch: last is not None and last >= batch)
        if found is not None and self.source.is_beyond(found, self.table.tails(), self.table.queues):
            return "the table has rows of beyond this checkpoint"
        return None

"""The engine `local`: logs on this machine landed by this process, without Spark and Java.

What it lands into is behind a port, `LandedTable`: a Delta table (deltalanding.py) or an Iceberg table
(iceberglanding.py). There's no checkpoint: a run holds the claim of its brokers, goes on after their last rows in
the table, and commits records in the order of the log, so what the table has is always a log's beginning without
a gap, and a killed run's batch is in it whole or not at all. Of a Delta table the engines may take turns; to
Spark's checkpoint, rows of this one are rows that others have landed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from hatwisted.pipeline.decode.storefolder import Split
from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.tails import Tail
from hatwisted.pipeline.jobs.land.landedbatch import ClaimedTable
from hatwisted.pipeline.jobs.land.landingrounds import land_in_rounds
from hatwisted.pipeline.jobs.land.landingsources import LandingSource, Stores
from hatwisted.pipeline.jobs.land.landoptions import LandOptions, Progress
from hatwisted.pipeline.jobs.land.logsplits import batches, is_lossy, log_splits, size_of
from hatwisted.pipeline.jobs.land.splitrows import split_rows
from hatwisted.pipeline.spark.queueassignment import ASSIGN
from hatwisted.pipeline.spark.rocketmqoptions import CLUSTER_OPTIONS

SPLIT_BYTES: Final = 64 << 20
"""Bytes of log between two looks at whether to stop."""

UNDERSTOOD: Final = ("broker", "failondataloss")
UNDERSTOOD_OF_CLUSTERS: Final = tuple(
    name.lower() for name in (*CLUSTER_OPTIONS, ASSIGN, "failOnDataLoss", "brokerAwayMs")
)
"""Options of the sources that this engine knows."""


def unsupported(source: LandingSource, how: LandOptions) -> str | None:
    """Why this engine can't do it; None: it can."""
    if how.transform is not None:
        return "a transformation is Spark's"
    if how.partitions is not None:
        return "partitions are Spark's"
    known = UNDERSTOOD_OF_CLUSTERS if source.by_queue else UNDERSTOOD
    other = [name for name in source.more if name.lower() not in known]
    return f"it doesn't know the option {other[0]}" if other else None


class LandedTable(ClaimedTable, Protocol):
    """A table into which stores are landed."""

    def tails(self) -> dict[str, Tail]:
        """Where each broker's rows end now. A store that has just appeared is claimed first."""


@dataclass
class LocalLanding:
    """One run.

    - table: where it lands
    - source: the stores
    - how: options
    - progress: called with (bytes done, bytes in all)
    - seconds: the clock
    """

    table: LandedTable
    source: Stores
    how: LandOptions
    progress: Progress
    seconds: Callable[[], float]

    def run(self, stop: threading.Event) -> tuple[Compaction, bool]:
        """(what was compacted, whether it was stopped before its end)."""
        return land_in_rounds(self.how, partial(self._land, stop), self.table.upkeep, stop, self.seconds)

    def _land(self, stop: threading.Event) -> None:
        """All that there is now, or what there's time for before the stop."""
        tails = self.table.tails()
        # Each time, every store has to be the log of which the table has rows: its folder may be another one's.
        self.source.check(tails)
        total, done = self.source.backlog(tails), 0
        most = self.how.max_bytes_per_trigger
        pieces = log_splits(self.source, self.table.brokers, _ends(tails), min(SPLIT_BYTES, most))
        for splits in batches(pieces, most):
            self._land_batch(splits, partial(self._tell, done, total), stop)
            done += size_of(splits)
            if stop.is_set():
                return

    def _land_batch(
        self, splits: Sequence[Split], tell: Callable[[int], object], stop: threading.Event
    ) -> None:
        """One commit: of all of them, or of those before the stop.

        tell: called with the bytes of them that have been written
        """
        batch, done = self.table.batch(), 0
        try:
            for split in splits:
                for rows in split_rows(split, self.table.columns, is_lossy(self.source)):
                    batch.write(rows)
                done += size_of([split])
                tell(done)
                if stop.is_set():
                    break
            batch.commit()
        except BaseException:
            batch.drop()
            raise

    def _tell(self, before: int, total: int, done: int) -> None:
        self.progress(min(before + done, total), total)


def _ends(tails: Mapping[str, Tail]) -> dict[str, int]:
    return {broker: tail.end for broker, tail in tails.items()}

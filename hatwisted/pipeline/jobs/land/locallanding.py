"""The engine `local`: logs on this machine landed by this process, without Spark and Java.

Decoder, files and commits are those of the engine `spark`. There's no checkpoint: a run holds the claim of its
brokers, goes on after their last rows in the table, and commits records in the order of the log, so what the table
has is always a log's beginning without a gap, and a killed run's batch is in it whole or not at all. The engines
may take turns; to Spark's checkpoint, rows of this one are rows that others have landed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from hatwisted.pipeline.decode.logreader import read_split
from hatwisted.pipeline.delta.commits import Claim, widened
from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.landedfiles import (
    LandedFiles,
    columns_to_read,
    commit_next,
    compact_landed,
    landed_files,
    remove_files,
)
from hatwisted.pipeline.delta.landedrows import with_store_date
from hatwisted.pipeline.delta.tails import Tail, landed_tails
from hatwisted.pipeline.jobs.land.landingrounds import land_in_rounds
from hatwisted.pipeline.jobs.land.landingsources import LandingSource, Stores
from hatwisted.pipeline.jobs.land.landingstate import LandingState
from hatwisted.pipeline.jobs.land.landoptions import LandOptions, Progress
from hatwisted.pipeline.jobs.land.logsplits import log_splits
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


@dataclass
class LocalLanding:
    """One run.

    - path: of the table
    - source: the stores
    - state: what the landing is called in the table
    - held: the claim of their brokers
    - how: options
    - progress: called with (bytes done, bytes in all)
    - seconds: the clock
    """

    path: str
    source: Stores
    state: LandingState
    held: Claim
    how: LandOptions
    progress: Progress
    seconds: Callable[[], float]

    def run(self, stop: threading.Event) -> tuple[Compaction, bool]:
        """(what was compacted, whether it was stopped before its end)."""
        return land_in_rounds(self.how, partial(self._land, stop), self._compact, stop, self.seconds)

    def _land(self, stop: threading.Event) -> None:
        """All that there is now, or what there's time for before the stop."""
        tails = self._tails()
        total, done, waiting = self.source.backlog(tails), 0, 0
        names = columns_to_read(self.how.columns, self.how.schemas)
        files = self._files()
        try:
            for split in log_splits(
                self.source, _ends(tails), min(SPLIT_BYTES, self.how.max_bytes_per_trigger)
            ):
                for batch in read_split(split, names):
                    files.write(with_store_date(batch))
                size = split.end - split.begin
                done, waiting = done + size, waiting + size
                self.progress(min(done, total), total)
                if waiting >= self.how.max_bytes_per_trigger:
                    self._commit(files)
                    files, waiting = self._files(), 0
                if stop.is_set():
                    break
            self._commit(files)
        except BaseException:
            # What a commit mentions stays, whatever became of the answer.
            remove_files(self.path, *files.drop())
            raise

    def _tails(self) -> dict[str, Tail]:
        """Where the table ends. A store that has just appeared is claimed first. At every look each one has to be
        the log of which the table has rows: another one may have taken its folder."""
        self.held = widened(self.path, self.held, self.source.writer().brokers)
        tails = landed_tails(self.path, self.held.writer.brokers)
        self.source.check(tails)
        return tails

    def _files(self) -> LandedFiles:
        return landed_files(self.path, self.held, self.how.columns, self.how.schemas)

    def _commit(self, files: LandedFiles) -> None:
        commit_next(self.path, files.close(), application=self.state.application, held=self.held)

    def _compact(self) -> Compaction:
        return compact_landed(self.path, self.how.compact_below)


def _ends(tails: Mapping[str, Tail]) -> dict[str, int]:
    return {broker: tail.end for broker, tail in tails.items()}

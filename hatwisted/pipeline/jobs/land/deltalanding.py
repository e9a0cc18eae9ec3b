"""A Delta table as the engine `local` lands into it: decoder, files and commits are those of the engine
`spark`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa

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
from hatwisted.pipeline.delta.tails import Tail, landed_tails
from hatwisted.pipeline.jobs.land.landingsources import Stores
from hatwisted.pipeline.jobs.land.landingstate import LandingState
from hatwisted.pipeline.jobs.land.landoptions import LandOptions


@dataclass
class DeltaLanding:
    """See LandedTable.

    - path: of the table
    - source: the stores
    - state: what the landing is called in the table
    - held: the claim of their brokers
    - how: options
    """

    path: str
    source: Stores
    state: LandingState
    held: Claim
    how: LandOptions

    @property
    def columns(self) -> tuple[str, ...]:
        """See LandedTable."""
        return columns_to_read(self.how.columns, self.how.schemas)

    @property
    def brokers(self) -> Collection[str]:
        """See LandedTable."""
        return self.held.writer.brokers

    def tails(self) -> dict[str, Tail]:
        """See LandedTable."""
        self.held = widened(self.path, self.held, self.source.writer().brokers)
        return landed_tails(self.path, self.held.writer.brokers)

    def batch(self) -> DeltaBatch:
        """See LandedTable."""
        return DeltaBatch(self, landed_files(self.path, self.held, self.how.columns, self.how.schemas))

    def upkeep(self) -> Compaction:
        """See LandedTable."""
        return compact_landed(self.path, self.how.compact_below)


@dataclass
class DeltaBatch:
    """See Batch.

    - landing: which
    - files: new ones
    """

    landing: DeltaLanding
    files: LandedFiles

    def write(self, rows: pa.RecordBatch) -> None:
        """See Batch."""
        self.files.write(rows)

    def commit(self) -> None:
        """See Batch."""
        landing = self.landing
        commit_next(
            landing.path, self.files.close(), application=landing.state.application, held=landing.held
        )

    def drop(self) -> None:
        """See Batch: the table's log says which those are, whatever became of the answer."""
        remove_files(self.landing.path, *self.files.drop())

"""What a task of a landing into an Iceberg table does and is given. Apart from the landing itself: a worker loads
this and no more."""

from __future__ import annotations

from dataclasses import dataclass

from hatwisted.pipeline.decode.storefolder import Split
from hatwisted.pipeline.iceberg.landedfiles import WrittenFiles
from hatwisted.pipeline.iceberg.tasktables import TaskTables
from hatwisted.pipeline.jobs.land.splitrows import split_rows


@dataclass(frozen=True, slots=True)
class IcebergTask:
    """One task: a piece of a log into whole files.

    - tables: where
    - of: the run's name, for the files' names
    - columns: of the log
    - lossy: is a file that is gone no error?
    """

    tables: TaskTables
    of: str
    columns: tuple[str, ...]
    lossy: bool

    def run(self, split: Split) -> WrittenFiles:
        """The files, which no snapshot mentions yet; none is left of a piece that fails."""
        return self.tables.write(self.of, split_rows(split, self.columns, self.lossy))

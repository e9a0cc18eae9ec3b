"""What a task of a landing does and is given. Apart from the landing itself: a worker loads this and no more."""

from __future__ import annotations

from dataclasses import dataclass

from hatwisted.pipeline.decode.storefolder import Split
from hatwisted.pipeline.delta.landedfiles import LandedFiles, Shape, WrittenFiles
from hatwisted.pipeline.jobs.land.splitrows import split_rows


@dataclass(frozen=True, slots=True)
class LandingTask:
    """One task: a piece of a log into whole files.

    - shape: what is written where
    - writer: digest of who writes, for the files' names
    - epoch: of the run, for the files' names
    - columns: of the log
    - lossy: is a file that is gone no error?
    """

    shape: Shape
    writer: str
    epoch: int
    columns: tuple[str, ...]
    lossy: bool

    def run(self, split: Split) -> WrittenFiles:
        """The files, which no commit mentions yet; none is left of a piece that fails."""
        files = LandedFiles(self.shape, writer=self.writer, epoch=self.epoch)
        try:
            for rows in split_rows(split, self.columns, self.lossy):
                files.write(rows)
            return files.close()
        except BaseException:
            files.abandon()
            raise

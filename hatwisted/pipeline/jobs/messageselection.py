"""Which messages a job looks at: topics and store times, as conditions that the sources take over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@dataclass(frozen=True)
class Selection:
    """Of these topics (all, if none is named), stored within [since, until)."""

    topics: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that `of` needs."""
        times = () if self.since is None and self.until is None else ("store_timestamp",)
        return (*(("topic",) if self.topics else ()), *times)

    def of(self, records: DataFrame) -> DataFrame:
        """The records that count."""
        if self.topics:
            records = records.where(F.col("topic").isin(list(self.topics)))
        if self.since is not None:
            records = records.where(F.col("store_timestamp") >= F.lit(self.since))
        if self.until is not None:
            records = records.where(F.col("store_timestamp") < F.lit(self.until))
        return records


EVERYTHING: Final = Selection()

"""One version of a landed table, as a query needs it: its rows, and where they end. It stays what it is, whatever
is committed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from hatwisted.pipeline.delta.queuetails import QueueTails
from hatwisted.pipeline.delta.tails import Tail

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class LandedVersion(Protocol):
    """name: of the table, for errors; columns: of its rows."""

    @property
    def name(self) -> str: ...

    @property
    def columns(self) -> pa.Schema: ...

    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Its rows. columns: of `columns`."""

    def schema_json(self) -> str:
        """The columns as Spark's JSON."""

    def frames(self, spark: SparkSession, schema: StructType) -> list[DataFrame]:
        """Its rows in parts.

        - spark: the session
        - schema: `schema_json` as Spark's own
        """

    def topics(self) -> set[str]:
        """Of its rows."""

    def tails(self, brokers: Iterable[str]) -> dict[str, Tail]:
        """Where the rows of these brokers end in their logs, of those that have any."""

    def by_queue(self, brokers: Iterable[str]) -> set[str]:
        """Those of these brokers whose rows came queue by queue, so that their logs' ends say nothing."""

    def queues(self, brokers: Iterable[str]) -> QueueTails:
        """Where each of their queues ends."""

    def former(self) -> set[str]:
        """The brokers of the last landing of a cluster."""

"""What the engine `spark` asks of a table, whatever kind it is (deltaquery.py, icebergquery.py)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.queuetails import QueueTails
from hatwisted.pipeline.delta.tails import Tail

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class SparkTable(Protocol):
    """A table, and this run's claim of the brokers that are landed there."""

    @property
    def name(self) -> str:
        """The table's."""

    def widen(self, brokers: Collection[str]) -> bool:
        """Claim these brokers as well; False if they all are."""

    def tails(self) -> Mapping[str, Tail]:
        """Where the rows of the claimed brokers end."""

    def queues(self, brokers: Collection[str]) -> QueueTails:
        """Where each queue of these brokers ends."""

    def note_queues(self) -> None:
        """Let the table say where each queue of the claimed brokers ends, if queues are landed."""

    def last_batch(self, application: str) -> int | None:
        """Number of the last batch that the table has; None if it has none. application: the landing's name."""

    def was_taken_back(self, application: str) -> bool:
        """Was a version from before a landing's last batch restored? application: the landing's name."""

    def write(self, frame: DataFrame, application: str, planned: Sequence[str] | None) -> DataStreamWriter:
        """The stream into the table, each batch once.

        - frame: rows, or plans of them
        - application: the landing's name
        - planned: columns of the log that plans yield; None: these are rows
        """

    def log_bytes(self, application: str) -> int:
        """Of log that this run's batches have brought so far. application: the landing's name."""

    def upkeep(self) -> Compaction:
        """Merge small files; may be called while batches are committed."""

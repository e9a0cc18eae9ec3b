"""A Delta table as the engine `spark` lands into it: by the sink `hatwisted-delta` (spark/deltasink.py)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hatwisted.pipeline.delta.commits import Claim, landed_since, note_queues, widened
from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.deltatable import open_table
from hatwisted.pipeline.delta.landedfiles import compact_landed
from hatwisted.pipeline.delta.notes import Notes
from hatwisted.pipeline.delta.queuetails import QueueTails, landed_queues
from hatwisted.pipeline.delta.tails import Tail, landed_tails
from hatwisted.pipeline.jobs.land.landoptions import LandOptions
from hatwisted.pipeline.schemas.topicschemas import encode_schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass
class DeltaQuery:
    """See SparkTable.

    - name: path of the table
    - held: the claim of the brokers
    - how: options
    - before: its version when the run began
    """

    name: str
    held: Claim
    how: LandOptions
    before: int

    def widen(self, brokers: Collection[str]) -> bool:
        """See SparkTable."""
        before, self.held = self.held, widened(self.name, self.held, brokers)
        return before != self.held

    def tails(self) -> Mapping[str, Tail]:
        """See SparkTable."""
        return landed_tails(self.name, self.held.writer.brokers)

    def queues(self, brokers: Collection[str]) -> QueueTails:
        """See SparkTable."""
        return landed_queues(Notes(self.name), brokers)

    def note_queues(self) -> None:
        """See SparkTable."""
        if self.held.by_queue:
            note_queues(self.name, self.held)

    def last_batch(self, application: str) -> int | None:
        """See SparkTable."""
        return open_table(self.name).transaction_version(application)

    def was_taken_back(self, application: str) -> bool:
        """See SparkTable."""
        return Notes(self.name).was_taken_back(application)

    def write(self, frame: DataFrame, application: str, planned: Sequence[str] | None) -> DataStreamWriter:
        """See SparkTable."""
        from hatwisted.pipeline.spark.deltasink import FORMAT, DeltaSink, encode_claim

        frame.sparkSession.dataSource.register(DeltaSink)
        sink = frame.writeStream.format(FORMAT).option("path", self.name).option("txnAppId", application)
        sink = sink.option("claim", encode_claim(self.held))
        if planned is None:
            return sink
        sink = sink.option("rows", "plans").option("columns", ",".join(planned))
        return sink.option("schemas", encode_schemas(self.how.schemas)) if self.how.schemas else sink

    def log_bytes(self, application: str) -> int:
        """See SparkTable."""
        return landed_since(self.name, self.before, application).log_bytes

    def upkeep(self) -> Compaction:
        """See SparkTable."""
        return compact_landed(self.name, self.how.compact_below, self.held, self.how.vacuum)

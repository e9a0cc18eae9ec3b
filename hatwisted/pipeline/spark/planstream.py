"""A stream of plans instead of rows: what a task of another source would read is read where the rows are needed.

Rows that go from a source written in Python to a sink written in Python pass through the JVM: from Arrow to
Spark's rows and back, with every key and property of every message copied twice. That took two thirds of the time
of landing a log. Here a micro-batch has one row for each partition of the source, a pickle of its reader and
the partition, and the sink reads the partition in its own task. Offsets, limits, checkpoints and retries stay
Spark's: this source passes every call on to the one it stands for.

    spark.readStream.format("hatwisted-plan").option("planOf", "commitlog").options(...).load()
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterator
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

FORMAT: Final = "hatwisted-plan"
PLAN_OF: Final = "planOf"
SCHEMA: Final = pa.schema([("plan", pa.binary())])


class PlanSource(DataSource):
    """Stands for the source whose name is the option `planOf`; the other options are for that one."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "plan binary"

    def streamReader(self, schema: StructType) -> PlanReader:
        return PlanReader(self._planned())

    def _planned(self) -> DataSourceStreamReader:
        options = dict(self.options)
        module = importlib.import_module("pyspark_" + options.pop(PLAN_OF.lower()))
        source: DataSource = module.DefaultSource(options)
        schema = source.schema()
        return source.streamReader(
            cast(StructType, schema if isinstance(schema, StructType) else StructType.fromDDL(schema))
        )


class PlanReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of the other source, but for what it reads."""

    def __init__(self, planned: DataSourceStreamReader) -> None:
        self._planned = planned

    def initialOffset(self) -> dict[str, Any]:
        return self._planned.initialOffset()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._planned.latestOffset(start, limit)

    def getDefaultReadLimit(self) -> ReadLimit:
        return self._planned.getDefaultReadLimit()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._planned.reportLatestOffset()

    def prepareForTriggerAvailableNow(self) -> None:
        cast(SupportsTriggerAvailableNow, self._planned).prepareForTriggerAvailableNow()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return list(self._planned.partitions(start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        plan = pickle.dumps((self._planned, partition))
        yield pa.record_batch([pa.array([plan], pa.binary())], schema=SCHEMA)

    def commit(self, end: dict[str, Any]) -> None:
        self._planned.commit(end)

    def stop(self) -> None:
        self._planned.stop()


def planned_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task of the sink: the rows of every plan in `batches`."""
    for batch in batches:
        for plan in batch.column("plan").to_pylist():
            reader, partition = pickle.loads(plan)
            yield from reader.read(partition)

"""One query over a landed table and what is still only in the log.

    rows = union_read(spark, "/lake/messages", "/data/broker-a/store")
    rows.groupBy("topic").count().show()

The columns are the table's. Those of the user's own are null in rows of the log, which no landing has seen. Where
the table and the log end is fixed by the call, so a frame gives the same rows however often it's used; the next
call sees what has come since.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hatwisted.pipeline.decode.arrowschema import COLUMNS
from hatwisted.pipeline.delta.landedrows import STORE_DATE, landed_names, with_store_date
from hatwisted.pipeline.delta.tablefolder import table_path
from hatwisted.pipeline.errors import PipelineError, WrongSchema
from hatwisted.pipeline.iceberg.catalogs import is_iceberg
from hatwisted.pipeline.jobs.land.landoptions import DEFAULTS
from hatwisted.pipeline.jobs.land.locallanding import unsupported
from hatwisted.pipeline.jobs.union.deltaversion import DeltaVersion
from hatwisted.pipeline.jobs.union.landedversion import LandedVersion
from hatwisted.pipeline.jobs.union.logtail import (
    Log,
    QueueTails,
    StoreTail,
    is_lossy,
    log_source,
    log_tail,
)
from hatwisted.pipeline.spark.queueoffsets import offsets_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def union_read(spark: SparkSession, table: str, log: Log) -> DataFrame:
    """The rows of a landed table and those that are still only in its log, each once.

    - spark: the session
    - table: folder of the table, or `iceberg:CATALOG.NAMESPACE.TABLE`
    - log: store folders (one per broker, or patterns), a Cluster, or name servers, of which then the table's
      topics are read

    Raises PipelineError and ClientError: WrongTable, WrongStore, and LostRange or OffsetsGone for what is in
    neither.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    version = _version(table)
    schema = StructType.fromJson(json.loads(version.schema_json()))
    tail = log_tail(version, log_source(log, version))
    frames = [*version.frames(spark, schema), *_log_frames(spark, tail, schema)]
    if not frames:
        return spark.createDataFrame([], schema)
    return reduce(DataFrame.union, frames)


def union_arrow(table: str, log: Log, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
    """The same without Spark, as one stream of record batches: first the table's rows, then the log's. Options of
    the log that choose rows or say what to do about damage are Spark's: PipelineError.

    - table: folder of the table, or `iceberg:CATALOG.NAMESPACE.TABLE`
    - log: as `union_read` has it
    - columns: of the table; None: all
    """
    version = _version(table)
    there = version.columns
    for name in columns or ():
        if name not in there.names:
            raise WrongSchema(f"{version.name}: has no column {name}; it has {', '.join(there.names)}")
    schema = pa.schema([there.field(name) for name in columns or there.names])
    source = log_source(log, version)
    if reason := unsupported(source, DEFAULTS):
        raise PipelineError(f"{version.name}: the log can't be read without Spark: {reason}; use union_read")
    tail = log_tail(version, source)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from version.rows(schema.names)
        for part in [tail] if isinstance(tail, QueueTails) else tail:
            for batch in part.read(_log_columns(schema.names)):
                yield _shaped(with_store_date(batch), schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _version(table: str) -> LandedVersion:
    """The newest one."""
    if not is_iceberg(table):
        return DeltaVersion(table_path(table))
    from hatwisted.pipeline.jobs.union.icebergversion import IcebergVersion

    return IcebergVersion(table)


def _log_columns(wanted: Sequence[str]) -> tuple[str, ...]:
    """Those that have to be read for some columns of a table."""
    own = [name for name in wanted if name in COLUMNS]
    return landed_names(own or ["queue_id"])


def _shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        batch.column(each.name).cast(each.type) if each.name in batch.schema.names else _nulls(batch, each)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _nulls(batch: pa.RecordBatch, column: pa.Field) -> pa.Array:
    return pa.nulls(batch.num_rows, column.type)


# ---- Spark: the log


def _log_frames(
    spark: SparkSession, tail: list[StoreTail] | QueueTails, schema: StructType
) -> list[DataFrame]:
    names = ",".join(_log_columns(schema.fieldNames()))
    if isinstance(tail, QueueTails):
        return [_of_log(_queues(spark, tail, names), schema)] if tail.ranges else []
    return [_of_log(_store(spark, each, names), schema) for each in tail]


def _store(spark: SparkSession, part: StoreTail, names: str) -> DataFrame:
    return (
        spark.read.format("commitlog")
        .options(**part.more)
        .option("failOnDataLoss", str(not is_lossy(part.more)).lower())
        .option("columns", names)
        .option("broker", part.store.broker)
        .option("physicalOffsetFrom", part.begin)
        .option("physicalOffsetTo", part.end)
        .load(part.store.path)
    )


def _queues(spark: SparkSession, tail: QueueTails, names: str) -> DataFrame:
    begins = {each.queue: each.begin for each in tail.ranges}
    ends = {each.queue: each.end for each in tail.ranges}
    assigned: dict[str, Any] = {}
    for queue in begins:
        assigned.setdefault(queue.topic, {}).setdefault(queue.broker_name, []).append(queue.queue_id)
    options = {
        name: value
        for name, value in tail.source.options().items()
        if name.lower() not in ("topics", "topicspattern", "assign")
    }
    options |= {"assign": json.dumps(assigned), "columns": names}
    options |= {"startingOffsets": json.dumps(offsets_json(begins))}
    options |= {"endingOffsets": json.dumps(offsets_json(ends))}
    return spark.read.format("rocketmq").options(**options).load()


def _of_log(messages: DataFrame, schema: StructType) -> DataFrame:
    """Messages as rows of the table."""
    from pyspark.sql import functions as F

    from hatwisted.pipeline.jobs.columnexpressions import store_date

    there = set(messages.columns)
    return messages.select(
        *(
            (
                store_date(F.col("store_timestamp"))
                if field.name == STORE_DATE
                else F.col(field.name)
                if field.name in there
                else F.lit(None)
            )
            .cast(field.dataType)
            .alias(field.name)
            for field in schema
        )
    )

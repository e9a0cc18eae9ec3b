"""One query over a landed table and what is still only in the log.

    rows = union_read(spark, "/lake/messages", "/data/broker-a/store")
    rows.groupBy("topic").count().show()

The columns are the table's. Those of the user's own are null in rows of the log, which no landing has seen. Where
the table and the log end is fixed by the call, so a frame gives the same rows however often it's used; the next
call sees what has come since.

Spark reads the version's own files: by Delta's reader where the session has it, else as the Parquet files that
they are. Topic and day are in their folders' names, and where a name can't say it, in Delta's log.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from hatwisted.pipeline.decode.arrowschema import COLUMNS
from hatwisted.pipeline.delta.deltatable import open_table, table_rows
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.landedrows import PARTITION_BY, STORE_DATE, landed_names, with_store_date
from hatwisted.pipeline.delta.names import NULL_FOLDER
from hatwisted.pipeline.delta.tablefolder import table_path
from hatwisted.pipeline.errors import PipelineError, WrongSchema
from hatwisted.pipeline.iceberg.catalogs import is_iceberg
from hatwisted.pipeline.jobs.land.landoptions import DEFAULTS
from hatwisted.pipeline.jobs.land.locallanding import unsupported
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

DELETIONS: Final = "deletionVectors"
"""The feature of Delta tables whose files have rows that don't count any more."""


def union_read(spark: SparkSession, table: str, log: Log) -> DataFrame:
    """The rows of a landed table and those that are still only in its log, each once.

    - spark: the session
    - table: folder of the table
    - log: store folders (one per broker, or patterns), a Cluster, or name servers, of which then the table's
      topics are read

    Raises PipelineError and ClientError: WrongTable, WrongStore, and LostRange or OffsetsGone for what is in
    neither.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    path = _checked(table)
    version = open_table(path)
    schema = StructType.fromJson(json.loads(version.schema().to_json()))
    tail = log_tail(path, version, log_source(log, version))
    frames = [*_table_frames(spark, path, version, schema), *_log_frames(spark, tail, schema)]
    if not frames:
        return spark.createDataFrame([], schema)
    return reduce(DataFrame.union, frames)


def union_arrow(table: str, log: Log, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
    """The same without Spark, as one stream of record batches: first the table's rows, then the log's. Options of
    the log that choose rows or say what to do about damage are Spark's: PipelineError.

    - table: folder of the table
    - log: as `union_read` has it
    - columns: of the table; None: all
    """
    path = _checked(table)
    version = open_table(path)
    rows = table_rows(version, path)
    for name in columns or ():
        if name not in rows.schema.names:
            raise WrongSchema(f"{path}: has no column {name}; it has {', '.join(rows.schema.names)}")
    schema = pa.schema([rows.schema.field(name) for name in columns or rows.schema.names])
    source = log_source(log, version)
    if reason := unsupported(source, DEFAULTS):
        raise PipelineError(f"{path}: the log can't be read without Spark: {reason}; use union_read")
    tail = log_tail(path, version, source)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows.to_batches(columns=schema.names)
        for part in [tail] if isinstance(tail, QueueTails) else tail:
            for batch in part.read(_log_columns(schema.names)):
                yield _shaped(with_store_date(batch), schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _checked(table: str) -> str:
    """The table's path; PipelineError if it's no Delta table's."""
    if is_iceberg(table):
        raise PipelineError(f"{table}: a query over table and log takes Delta tables; land into one")
    return table_path(table)


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


# ---- Spark: the table


def _table_frames(spark: SparkSession, path: str, version: DeltaTable, schema: StructType) -> list[DataFrame]:
    if "io.delta" in (spark.conf.get("spark.sql.extensions", "") or ""):
        return [spark.read.format("delta").option("versionAsOf", version.version()).load(path)]
    if DELETIONS in (version.protocol().reader_features or ()):
        raise WrongTable(
            f"{path}: has deletion vectors, which only Delta's own reader understands: give the session Delta's"
            " package (spark.sql.extensions), or rewrite the table (REORG TABLE ... APPLY (PURGE))"
        )
    plain, odd = _files(path, version)
    read = spark.read.schema(schema).option("basePath", path)
    frames = [read.parquet(*plain)] if plain else []
    return [_select(frame, schema, {}) for frame in frames] + [
        _select(spark.read.schema(_without_partition(schema)).parquet(*files), schema, dict(values))
        for values, files in odd.items()
    ]


def _files(
    path: str, version: DeltaTable
) -> tuple[list[str], dict[tuple[tuple[str, str | None], ...], list[str]]]:
    """(files whose folders' names tell their partition, the others by partition)."""
    plain: list[str] = []
    odd: dict[tuple[tuple[str, str | None], ...], list[str]] = defaultdict(list)
    for action in pa.table(version.get_add_actions(flatten=True)).to_pylist():
        place = unquote(action["path"])
        values = tuple((name, _text(action[f"partition.{name}"])) for name in PARTITION_BY)
        folders = place.split("/")[:-1]
        is_told = len(folders) == len(values) and all(map(_tells, folders, values))
        (plain if is_told else odd[values]).append(f"{path}/{place}")
    return plain, odd


def _tells(folder: str, partition: tuple[str, str | None]) -> bool:
    """Does Spark take the partition's value from the folder's name?"""
    name, value = partition
    column, _, text = folder.partition("=")
    if value is None:
        return column == name and text == NULL_FOLDER
    return column == name and unquote(text) == value and value not in ("", NULL_FOLDER)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _without_partition(schema: StructType) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([field for field in schema if field.name not in PARTITION_BY])


def _select(frame: DataFrame, schema: StructType, values: dict[str, str | None]) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.select(
        *(
            F.lit(values[field.name]).cast(field.dataType).alias(field.name)
            if field.name in values
            else F.col(field.name)
            for field in schema
        )
    )

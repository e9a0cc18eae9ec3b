"""The source `commitlog`: RocketMQ store folders as a table.

    spark.read.format("commitlog").option("columns", "topic,body").load("/data/broker-a/store")

A read is planned by the files' sizes alone: the log is cut at any byte, and each task finds its first record
(see `decode.storefolder`). What a batch read covers is determined when it is planned: the records up to where the
log ended then. Cutting at the queues' offsets instead was rejected: it reads all queues' files to save each
task one search, and a store may have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from hatwisted.pipeline.decode.arrowschema import check_columns
from hatwisted.pipeline.errors import LostRange
from hatwisted.pipeline.spark.commitlogstream import LogStreamReader, starting_offsets
from hatwisted.pipeline.spark.filters import (
    FilterPushdown,
    is_given_filters,
    offset_bounds,
)
from hatwisted.pipeline.spark.logplaces import TIME_GRAIN, time_bounds
from hatwisted.pipeline.spark.logtask import SOURCE, LogPartition, ReadTask
from hatwisted.pipeline.spark.readoptions import Limits, Options
from hatwisted.pipeline.spark.refusedstream import reader_or_refusal
from hatwisted.pipeline.spark.sourcecolumns import spark_schema
from hatwisted.pipeline.spark.storelist import LOG_OPTIONS, StoreList


class CommitLogSource(DataSource):
    """`spark.read.format("commitlog")` and `spark.readStream`'s; see docs/pipeline/files.md."""

    @classmethod
    def name(cls) -> str:
        return SOURCE

    def schema(self) -> StructType:
        columns = self._options().items("columns")
        return spark_schema(check_columns(columns) if columns else None)

    def reader(self, schema: StructType) -> LogReader:
        options = self._options()
        kind = PushingLogReader if is_given_filters() else LogReader
        found = kind(StoreList.of(options), ReadTask.of(options, schema), options.size("splitBytes"))
        found.is_whole = options.flag("failOnDataLoss", False)
        return found

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return reader_or_refusal(lambda: self._stream_reader(schema))

    def _stream_reader(self, schema: StructType) -> LogStreamReader:
        options = self._options()
        lossy = not options.flag("failOnDataLoss", True)
        task = replace(ReadTask.of(options, schema), lossy=lossy)
        stores, split_bytes = StoreList.of(options), options.size("splitBytes")
        return LogStreamReader(stores, task, split_bytes, Limits.of(options, starting_offsets(options)))

    def _options(self) -> Options:
        return Options(SOURCE, cast("dict[str, str]", self.options), LOG_OPTIONS)


class LogReader(DataSourceReader):
    """A batch read.

    - stores: which
    - read_task: what each task needs
    - split_bytes: of a task; None: by the amount there is
    - time_grain: as `time_bounds` takes it
    """

    is_whole = False
    """Is it an error if the log doesn't reach back any more to the offset from which on it's to be read?"""

    def __init__(
        self, stores: StoreList, read_task: ReadTask, split_bytes: int | None, time_grain: int = TIME_GRAIN
    ) -> None:
        self._stores = stores
        self._read_task = read_task
        self._split_bytes = split_bytes
        self._time_grain = time_grain

    def partitions(self) -> list[InputPartition]:
        where = self._read_task.where
        first, last = offset_bounds(where)
        found: list[InputPartition] = []
        for store in self._stores.stores().values():
            begin, end = time_bounds(store, where, self._time_grain)
            begin = begin if first is None else max(begin, first)
            end = end if last is None else min(end, last)
            found += map(LogPartition, store.splits(begin, end, self._split_bytes))
            if self.is_whole and first is not None and first < store.min_offset:
                raise LostRange(
                    f"{store.path}: broker {store.broker}: offsets {first} to {store.min_offset} were deleted"
                    " before they were read: set failOnDataLoss=false to continue with what is left"
                )
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._read_task.rows(partition)


class PushingLogReader(FilterPushdown, LogReader):
    """The same with Spark's filters."""

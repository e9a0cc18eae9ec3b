"""The source `rocketmq`: messages of a RocketMQ cluster, read over its own protocol, as a table.

    spark.read.format("rocketmq").option("namesrvAddr", "10.0.0.1:9876").option("topics", "Orders").load()

The columns are those of `commitlog` (`file` is null). What a batch read covers is determined when it is
planned: the queues and where each ends then; each task reads ranges of queues, whole or not at all. Reading
joins no group and commits no offset.
"""

from __future__ import annotations

from typing import cast

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from hatwisted.pipeline.decode.arrowschema import check_columns
from hatwisted.pipeline.spark.filters import is_given_filters
from hatwisted.pipeline.spark.kafkaschema import is_kafka, kafka_schema
from hatwisted.pipeline.spark.queuereads import PushingQueueReader, QueueReader, ReadTask
from hatwisted.pipeline.spark.readoptions import BadOption, Limits, OffsetBound, Options
from hatwisted.pipeline.spark.refusedstream import reader_or_refusal
from hatwisted.pipeline.spark.rocketmqoptions import NAME, broker_away, place, rocketmq_options
from hatwisted.pipeline.spark.rocketmqsink import MessageSink
from hatwisted.pipeline.spark.rocketmqstream import QueueStreamReader
from hatwisted.pipeline.spark.sourcecolumns import spark_schema
from hatwisted.pipeline.spark.triggerpace import TriggerPace


class RocketMQSource(MessageSink):
    """The format `rocketmq`, to read from and to write to, in batches and streams; see docs/pipeline/topics.md."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        options = self._options()
        if is_kafka(options):
            return kafka_schema(options)
        columns = options.items("columns")
        return spark_schema(check_columns(columns) if columns else None)

    def reader(self, schema: StructType) -> QueueReader:
        options = self._options()
        start = place(options, "startingOffsets", OffsetBound.EARLIEST)
        if start is OffsetBound.LATEST:
            raise BadOption(f"{NAME}: startingOffsets=latest of a batch read would find nothing")
        kind = PushingQueueReader if is_given_filters() else QueueReader
        return kind(ReadTask.of(options, schema), start, place(options, "endingOffsets", OffsetBound.LATEST))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return reader_or_refusal(lambda: self._stream_reader(schema))

    def _stream_reader(self, schema: StructType) -> QueueStreamReader:
        options = self._options()
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if options.text(name) is not None:
                raise BadOption(f"{NAME}: a stream has no {name}; use trigger(availableNow=True)")
        task, start = ReadTask.of(options, schema), place(options, "startingOffsets", OffsetBound.EARLIEST)
        limits, pace = Limits.of(options, start), TriggerPace.of(options)
        return QueueStreamReader(task, limits, broker_away(options), pace)

    def _options(self) -> Options:
        return rocketmq_options(cast("dict[str, str]", self.options))

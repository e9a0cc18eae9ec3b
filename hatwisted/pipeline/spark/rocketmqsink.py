"""The sink `rocketmq`: rows of a batch or a stream as messages of a RocketMQ cluster.

    rows.write.format("rocketmq").option("namesrvAddr", "10.0.0.1:9876").option("topic", "Orders") \\
        .mode("append").save()

Each task sends its rows and returns when all are stored: at least once, since Spark repeats tasks and batches,
and a message that is stored stays. A repeated row has the same UNIQ_KEY (`remote.rowkeys`), by which
`repeats.without_repeats` finds it again: then each row is read once. Transactions of RocketMQ were rejected: they
cover one message each, and a half message whose driver has died is rolled back or kept by the broker's check.

Spark tells a task which batch of which query it works for by local properties alone, which is how foreachBatch's
programs learn it, too.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import BadMessage
from hatwisted.clientcore.message import checked_group
from hatwisted.pipeline.remote.rowcolumns import row_columns
from hatwisted.pipeline.remote.rowmessages import RowMessages, RowOptions, checked_target
from hatwisted.pipeline.remote.rowsending import TaskCounts, send_rows, total
from hatwisted.pipeline.spark.readoptions import BadOption, Options
from hatwisted.pipeline.spark.rocketmqoptions import CLUSTER_OPTIONS, NAME, cluster_settings

GROUP: Final = "hatwisted-spark"
"""The producer group, unless the option names another."""
QUEUES: Final = ("keep", "any")
SPARK_OPTIONS: Final = ("checkpointLocation", "queryName", "path")
OPTIONS: Final = (
    *(name for name in CLUSTER_OPTIONS if name != "readFrom"),
    *("topic", "delayLevel", "queues", "hashBy", "writeId"),
    *SPARK_OPTIONS,
)
MAX_DELAY_LEVEL: Final = 18
"""Of RocketMQ's default table; brokers with a shorter one take the last."""
QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
"""Local properties that Spark sets for the tasks of a stream's batch."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class SinkOptions:
    """What every task of a write needs to know."""

    settings: ClusterSettings
    group: str
    rows: RowOptions
    write_id: str | None

    @classmethod
    def parse(cls, given: Mapping[str, str], schema: StructType) -> SinkOptions:
        """Raises BadOption, BadSetting and WrongSchema."""
        options = Options(NAME, given, OPTIONS)
        topic, hash_by = options.text("topic"), options.items("hashBy")
        if topic is not None:
            try:
                checked_target(topic)
            except (BadMessage, ValueError) as error:
                raise BadOption(f"{NAME}: {error}") from None
        delay = options.integer("delayLevel")
        if delay is not None and delay > MAX_DELAY_LEVEL:
            raise options.wrong("delayLevel", f"a number up to {MAX_DELAY_LEVEL}")
        columns = row_columns(to_arrow_schema(schema, timezone="UTC"), topic=topic, hash_by=hash_by)
        return cls(
            settings=cluster_settings(options),
            group=checked_group(options.text("group") or GROUP),
            rows=RowOptions(
                columns=columns,
                topic=topic,
                delay_level=delay,
                keep_queues=options.choice("queues", QUEUES, "keep") == "keep",
            ),
            write_id=options.text("writeId"),
        )

    def send(self, batches: Iterator[pa.RecordBatch], write: str) -> Sent:
        """A task's rows."""
        context = TaskContext.get()
        assert context is not None, "only a task writes"
        messages = RowMessages(self.rows, write, context.partitionId())
        return Sent(send_rows(self.settings, self.group, messages, batches))


@dataclass
class Sent(WriterCommitMessage):
    """What a task hands to the commit."""

    counts: TaskCounts


class MessageBatchWriter(DataSourceArrowWriter):
    """One write. Its id is given by the user, or made for it alone: then tasks that Spark repeats use the same
    keys, and a write that the user repeats uses others."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._write = options.write_id or str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        return self._options.send(iterator, self._write)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _tell_commit("a write", messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _tell_abort("a write", messages)


class MessageStreamWriter(DataSourceStreamArrowWriter):
    """Micro-batches of a query; keys come from the query, which its checkpoint remembers, and the batch."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        context = TaskContext.get()
        assert context is not None, "only a task writes"
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise BadOption(
                f"{NAME}: Spark doesn't say which batch this is; a trigger of micro-batches is needed"
            )
        return self._options.send(iterator, f"{query}/{batch}")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _tell_commit(f"batch {batchId}", messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _tell_abort(f"batch {batchId}", messages)


class MessageSink(DataSource):
    """What writing adds to the source `rocketmq`."""

    def writer(self, schema: StructType, overwrite: bool) -> MessageBatchWriter:
        _only_append(overwrite)
        return MessageBatchWriter(SinkOptions.parse(self.options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> MessageStreamWriter:
        _only_append(overwrite)
        options = SinkOptions.parse(self.options, schema)
        if options.write_id is not None:
            raise BadOption(f"{NAME}: a stream has no writeId; its checkpoint remembers which query it is")
        return MessageStreamWriter(options)


def _only_append(overwrite: bool) -> None:
    if overwrite:
        raise BadOption(f'{NAME}: a topic only grows; use mode("append")')


def _tell_commit(what: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    found = _total(messages)
    resent = f", {found.resent} of them sent again" if found.resent else ""
    # Nobody configures the loggers of the process that Spark starts for a commit.
    _log.setLevel(_log.level or logging.INFO)
    _log.info("%s: %s is stored: %d messages, %d bytes%s", NAME, what, found.messages, found.bytes, resent)
    for status, count in found.incomplete.items():
        _log.warning("%s: %s: %d messages were stored with %s", NAME, what, count, status)


def _tell_abort(what: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    found = _total(messages)
    _log.warning(
        "%s: %s failed; %d messages (%d bytes) of tasks that had finished are stored and stay, "
        "with the keys that a repetition gives them again",
        *(NAME, what, found.messages, found.bytes),
    )


def _total(messages: Sequence[WriterCommitMessage | None]) -> TaskCounts:
    """A task that failed has no message."""
    return total(cast(Sent, message).counts for message in messages if message is not None)

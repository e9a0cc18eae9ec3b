"""The sink `hatwisted-delta`: rows of a stream or a batch into a Delta table, each batch exactly once.

    query = rows.writeStream.format("hatwisted-delta").option("path", "/lake/messages") \\
        .option("txnAppId", "orders-to-lake").option("checkpointLocation", "/lake/checkpoints/orders").start()

Tasks write Parquet with pyarrow into the table's partition folders; the driver adds all files of a batch in one
commit that carries (txnAppId, number of the batch). A batch that Spark repeats after a crash is recognised and
its new files are removed. So a reader of the Delta table sees whole batches only, each once. Spark's own Parquet
sink was rejected: it is exactly once only for readers that know its `_spark_metadata`, it is half as fast, and a
killed run leaves unreadable files in the folder.

Options: `path`; `txnAppId`, required for streams, since the same name must come back after a restart;
`txnVersion` with it makes a batch write idempotent; `partitionBy` (`topic,store_date`). The job `land` sets
`claim`, and `rows=plans` with `columns` for a stream of plans (planstream.py): then the sink reads the messages
itself and files them by `store_date`. With `schemas` it decodes their bodies, too, and each batch is one commit
here, and one in the table of dead letters if it has some (delta/deadletters.py).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from hatwisted.pipeline.delta.commits import Claim
from hatwisted.pipeline.delta.landedfiles import LandedFiles, Shape, WrittenFiles, commit_landed, typed_schema
from hatwisted.pipeline.delta.landedrows import PARTITION_BY, with_store_date
from hatwisted.pipeline.delta.names import Writer
from hatwisted.pipeline.delta.queuetails import QueueTails, last_of_queues
from hatwisted.pipeline.delta.tablefolder import table_path
from hatwisted.pipeline.delta.tails import further
from hatwisted.pipeline.errors import WrongSchema
from hatwisted.pipeline.schemas.topicschemas import TopicSchema, decode_schemas
from hatwisted.pipeline.spark.planstream import planned_rows
from hatwisted.pipeline.spark.readoptions import BadOption, Options

FORMAT: Final = "hatwisted-delta"
LAND_OPTIONS: Final = ("claim", "rows", "columns", "schemas")
SPARK_OPTIONS: Final = ("checkpointLocation", "queryName")
OPTIONS: Final = ("path", "txnAppId", "txnVersion", "partitionBy", *LAND_OPTIONS, *SPARK_OPTIONS)
NO_CLAIM: Final = Claim(Writer(()), 0)
"""The epoch in file names of a user's own write: no run ever takes those for its own."""


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """Where a write goes and under which name; picklable, as tasks need it."""

    path: str
    application: str | None
    number: int | None
    partition_by: tuple[str, ...]
    claim: Claim | None
    planned: tuple[str, ...] | None
    """Columns of the log that land of what plans yield; None if the rows come as rows."""
    schemas: tuple[TopicSchema, ...]
    """Of topics, whose bodies plans yield."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SinkOptions:
        options = Options(FORMAT, given, OPTIONS)
        path = options.text("path")
        if path is None:
            raise BadOption(f"{FORMAT}: option path is missing; give the folder of the table")
        plans = options.choice("rows", ("rows", "plans"), "rows") == "plans"
        return cls(
            path=table_path(path),
            application=options.text("txnAppId"),
            number=options.integer("txnVersion"),
            partition_by=options.items("partitionBy") or PARTITION_BY,
            claim=decode_claim(options.text("claim")),
            planned=options.items("columns") if plans else None,
            schemas=decode_schemas(options.text("schemas")),
        )


def encode_claim(claim: Claim) -> str:
    """A claim as the option `claim`."""
    brokers = list(claim.writer.brokers)
    return json.dumps({"epoch": claim.epoch, "brokers": brokers, "byQueue": claim.by_queue})


def decode_claim(text: str | None) -> Claim | None:
    if text is None:
        return None
    found = json.loads(text)
    return Claim(Writer.of(found["brokers"]), found["epoch"], found["byQueue"])


@dataclass
class Written(WriterCommitMessage):
    """What a task hands to the commit. brokers: whose rows it wrote for a claim; queues: where they end."""

    whole: WrittenFiles
    brokers: frozenset[str] = frozenset()
    queues: QueueTails = field(default_factory=dict)


class _TableWriter:
    """What batch and stream share: a task's files, the commit of all of them, and their removal."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        planned = options.planned
        if planned is None:
            rows = to_arrow_schema(schema, timezone="UTC")
        else:
            rows = typed_schema(planned, options.schemas)
        for column in options.partition_by:
            if column not in rows.names:
                raise WrongSchema(f"{options.path}: is partitioned by {column}, which the rows don't have")
        self._shape = Shape.prepare(options.path, rows, options.partition_by, options.schemas)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """In a task: every row into files of its own, finished or removed."""
        claim = self._options.claim or NO_CLAIM
        files = LandedFiles(
            self._shape, writer=claim.writer.digest, epoch=claim.epoch, by_queue=claim.by_queue
        )
        brokers: set[str] = set()
        queues: QueueTails = {}
        try:
            for batch in self._rows(iterator):
                files.write(batch)
                if self._options.claim is not None:
                    brokers |= set(pc.unique(batch.column("broker")).to_pylist())
                    if claim.by_queue:
                        further(queues, last_of_queues(batch), "end")
            return Written(files.close(), frozenset(brokers), queues)
        except BaseException:
            files.abandon()
            raise

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches if self._options.planned is None else map(with_store_date, planned_rows(batches))

    def _commit(self, messages: Sequence[WriterCommitMessage | None], application: str, number: int) -> None:
        whole, held = _whole(messages), self._options.claim
        if not whole.files:
            return  # nothing was written, so there's nothing to commit
        queues: QueueTails = {}
        for written in _written(messages):
            if held is not None:
                held.check_brokers(written.brokers, self._options.path)
            further(queues, written.queues, "end")
        made = commit_landed(
            self._options.path, whole, application=application, number=number, held=held, queues=queues
        )
        if not made:
            self._remove(whole)

    def _remove(self, written: WrittenFiles) -> None:
        """Remove the files of a failed attempt, except those that a commit did mention."""
        written.remove(self._options.path)


class DeltaStreamWriter(_TableWriter, DataSourceStreamArrowWriter):
    """Micro-batches: the number of a commit is Spark's batch id."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        assert self._options.application is not None
        self._commit(messages, self._options.application, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._remove(_whole(messages))


class DeltaBatchWriter(_TableWriter, DataSourceArrowWriter):
    """One write, one commit; idempotent if the user numbers it."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        application = self._options.application or f"{FORMAT}-{uuid.uuid4()}"
        self._commit(messages, application, self._options.number or 0)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._remove(_whole(messages))


def _whole(messages: Sequence[WriterCommitMessage | None]) -> WrittenFiles:
    """All tasks' files; a task that failed has no message."""
    found = WrittenFiles()
    for written in _written(messages):
        found += written.whole
    return found


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    return [cast(Written, message) for message in messages if message is not None]


class DeltaSink(DataSource):
    """Register it with `spark.dataSource.register(DeltaSink)`; the job `land` does."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DeltaBatchWriter:
        if overwrite:
            raise BadOption(f'{FORMAT}: only appends; use mode("append")')
        options = SinkOptions.parse(self.options)
        if options.application is not None and options.number is None:
            raise BadOption(f"{FORMAT}: txnAppId of a batch write needs txnVersion, the number of this write")
        return DeltaBatchWriter(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DeltaStreamWriter:
        options = SinkOptions.parse(self.options)
        if options.application is None:
            raise BadOption(f"{FORMAT}: a stream needs the option txnAppId, the same after every restart")
        return DeltaStreamWriter(options, schema)

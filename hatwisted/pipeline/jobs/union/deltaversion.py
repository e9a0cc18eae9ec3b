"""A version of a Delta table.

Spark reads its own files: by Delta's reader where the session has it, else as the Parquet files that they are.
Topic and day are in their folders' names, and where a name can't say it, in Delta's log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as pads

from hatwisted.pipeline.decode.storebytes import is_remote
from hatwisted.pipeline.delta.deletions import counting_rows, has_deleted
from hatwisted.pipeline.delta.deltatable import open_table, table_rows
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.features import arrow_reads, has_mapping
from hatwisted.pipeline.delta.landedrows import PARTITION_BY
from hatwisted.pipeline.delta.names import NULL_FOLDER
from hatwisted.pipeline.delta.notes import Notes
from hatwisted.pipeline.delta.queuetails import QueueTails, landed_queues, noted_queues
from hatwisted.pipeline.delta.tails import Tail, landed_tails
from hatwisted.pipeline.jobs.union.sparkfiles import hadoop_path, naming_table

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class DeltaVersion:
    """See LandedVersion: the newest one. path: of the table."""

    def __init__(self, path: str) -> None:
        self.name = path
        self._table = open_table(path)
        self._notes = Notes(path, self._table)

    @cached_property
    def _odd(self) -> bool:
        """Has it what delta-rs alone reads as it counts?"""
        return not arrow_reads(self._table)

    @cached_property
    def _rows(self) -> pads.Dataset:
        return table_rows(self._table, self.name)

    @cached_property
    def columns(self) -> pa.Schema:
        """See LandedVersion."""
        if self._odd:
            return pa.schema(self._table.schema().to_arrow())
        return self._rows.schema

    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """See LandedVersion."""
        if self._odd:
            schema = pa.schema([self.columns.field(name) for name in columns])
            for batch in counting_rows(self._table, self.name, columns):
                yield batch.cast(schema)
        else:
            yield from self._rows.to_batches(columns=list(columns))

    def schema_json(self) -> str:
        """See LandedVersion."""
        return str(self._table.schema().to_json())

    def frames(self, spark: SparkSession, schema: StructType) -> list[DataFrame]:
        """See LandedVersion."""
        return _frames(spark, self.name, self._table, schema)

    def topics(self) -> set[str]:
        """See LandedVersion."""
        actions = pa.table(self._table.get_add_actions(flatten=True))
        topics = set(actions.column("partition.topic").to_pylist()) if actions.num_rows else set()
        return topics - {None}

    def tails(self, brokers: Iterable[str]) -> dict[str, Tail]:
        """See LandedVersion."""
        return landed_tails(self.name, brokers, self._notes)

    def by_queue(self, brokers: Iterable[str]) -> set[str]:
        """See LandedVersion."""
        noted, unknown = noted_queues(self._notes, brokers)
        return {queue.broker_name for queue in noted} - unknown

    def queues(self, brokers: Iterable[str]) -> QueueTails:
        """See LandedVersion."""
        return landed_queues(self._notes, brokers)

    def former(self) -> set[str]:
        """See LandedVersion."""
        notes = (note for note in self._notes if "queues" in note)
        return set(next(notes, {}).get("brokers", ()))


# ---- Spark


def _frames(spark: SparkSession, path: str, version: DeltaTable, schema: StructType) -> list[DataFrame]:
    root = hadoop_path(unquote(path) if is_remote(path) else path)
    if "io.delta" in (spark.conf.get("spark.sql.extensions", "") or ""):
        with naming_table(path, root):
            return [spark.read.format("delta").option("versionAsOf", version.version()).load(root)]
    if has_mapping(version):
        raise WrongTable(
            f"{path}: its columns are mapped, which Spark's Parquet reader doesn't know: use union_arrow, or give"
            " the session Delta's package (spark.sql.extensions)"
        )
    if has_deleted(version):
        raise WrongTable(
            f"{path}: has deletion vectors, which Spark's Parquet reader doesn't know: use union_arrow, give the"
            " session Delta's package (spark.sql.extensions), or rewrite the table (REORG TABLE ... APPLY (PURGE))"
        )
    plain, odd = _files(root, version)
    with naming_table(path, root):
        read = spark.read.schema(schema).option("basePath", root)
        frames = [read.parquet(*plain)] if plain else []
        return [_select(frame, schema, {}) for frame in frames] + [
            _select(spark.read.schema(_without_partition(schema)).parquet(*files), schema, dict(values))
            for values, files in odd.items()
        ]


def _files(
    root: str, version: DeltaTable
) -> tuple[list[str], dict[tuple[tuple[str, str | None], ...], list[str]]]:
    """(files whose folders' names tell their partition, the others by partition)."""
    plain: list[str] = []
    odd: dict[tuple[tuple[str, str | None], ...], list[str]] = defaultdict(list)
    for action in pa.table(version.get_add_actions(flatten=True)).to_pylist():
        place = unquote(action["path"])
        values = tuple((name, _text(action[f"partition.{name}"])) for name in PARTITION_BY)
        folders = place.split("/")[:-1]
        is_told = len(folders) == len(values) and all(map(_tells, folders, values))
        (plain if is_told else odd[values]).append(f"{root}/{place}")
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

"""A snapshot of an Iceberg table, as it was when the table was loaded.

Spark reads its data files as the Parquet files that they are, since there's no Iceberg runtime for the PySpark
that the sources need. What only a reader of Iceberg's own could do right is refused: deletions, and columns that a
name doesn't tell. `union_arrow` reads those, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Schema
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import FileFormat
from pyiceberg.transforms import IdentityTransform

from hatwisted.pipeline.delta.errors import ByQueue, WrongTable
from hatwisted.pipeline.delta.queuetails import QueueTails
from hatwisted.pipeline.delta.tails import Tail
from hatwisted.pipeline.iceberg.arrowtypes import plain_schema
from hatwisted.pipeline.iceberg.catalogs import IcebergName, plainly
from hatwisted.pipeline.iceberg.queuenotes import landed_queues
from hatwisted.pipeline.iceberg.snapshots import check_whole, landed_tails, line, summary_of
from hatwisted.pipeline.jobs.land.icebergbatches import LANDED_BROKERS
from hatwisted.pipeline.jobs.union.sparkfiles import hadoop_path, naming_table

if TYPE_CHECKING:
    from pyiceberg.schema import Schema as IcebergSchema
    from pyiceberg.table import FileScanTask
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ROWS: Final = 8192
"""Of a batch."""
NAME_MAPPING: Final = "schema.name-mapping.default"
"""Property of a table that has files which were added as they were: their columns have no numbers, and what their
folders' names say they may lack."""


class IcebergVersion:
    """See LandedVersion. name: of the table."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._table = IcebergName.parse(name).load()

    @cached_property
    def columns(self) -> pa.Schema:
        """See LandedVersion."""
        return plain_schema(self._table.schema())

    @cached_property
    def _files(self) -> list[FileScanTask]:
        with plainly(self.name):
            return list(self._table.scan().plan_files())

    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """See LandedVersion. A file is in memory as a whole while its rows are read."""
        schema = pa.schema([self.columns.field(name) for name in columns])
        wanted = self._table.schema().select(*columns)
        for file in self._files:
            with plainly(self.name):
                scan = ArrowScan(self._table.metadata, self._table.io, wanted, AlwaysTrue())
                for batch in scan.to_record_batches([file]):
                    for begin in range(0, batch.num_rows, ROWS):
                        yield batch.slice(begin, ROWS).select(schema.names).cast(schema)

    def schema_json(self) -> str:
        """See LandedVersion."""
        return str(Schema.from_arrow(self.columns).to_json())

    def frames(self, spark: SparkSession, schema: StructType) -> list[DataFrame]:
        """See LandedVersion."""
        self._check_plain()
        paths = [hadoop_path(task.file.file_path) for task in self._files]
        if not paths:
            return []
        with naming_table(self.name, paths[0]):
            return [spark.read.schema(schema).parquet(*paths)]

    def topics(self) -> set[str]:
        """See LandedVersion."""
        found: set[str] = set()
        for task in self._files:
            at = self._topic_at(task.file.spec_id)
            if at is not None:
                found |= {task.file.partition[at]}
                continue
            with plainly(self.name):
                scan = ArrowScan(
                    self._table.metadata, self._table.io, self._table.schema().select("topic"), AlwaysTrue()
                )
                for batch in scan.to_record_batches([task]):
                    found |= {*pc.unique(batch.column("topic")).to_pylist()}
        return {topic for topic in found if topic is not None}

    def tails(self, brokers: Iterable[str]) -> dict[str, Tail]:
        """See LandedVersion."""
        return landed_tails(self._table, self.name, brokers)

    def by_queue(self, brokers: Iterable[str]) -> set[str]:
        """See LandedVersion."""
        found = set()
        for broker in brokers:
            try:
                check_whole(self._table, self.name, [broker])
            except ByQueue:
                found.add(broker)
        return found

    def queues(self, brokers: Iterable[str]) -> QueueTails:
        """See LandedVersion."""
        return landed_queues(self._table, self.name, brokers)[0]

    def former(self) -> set[str]:
        """See LandedVersion."""
        said = (summary_of(snapshot).get(LANDED_BROKERS) for snapshot in line(self._table))
        return {str(broker) for broker in json.loads(next((each for each in said if each), "[]"))}

    def _topic_at(self, spec_id: int) -> int | None:
        """Where a partition says the topic; None: nowhere."""
        topic = self._table.schema().find_field("topic").field_id
        for at, item in enumerate(self._table.specs()[spec_id].fields):
            if item.source_id == topic and isinstance(item.transform, IdentityTransform):
                return at
        return None

    def _check_plain(self) -> None:
        """Raises WrongTable if a name in a file isn't all that it takes."""
        reason = None
        if any(task.delete_files for task in self._files):
            reason = (
                "has rows that were deleted by merge on read; rewrite its data files (rewrite_data_files)"
            )
        elif any(task.file.file_format != FileFormat.PARQUET for task in self._files):
            reason = "has files that aren't Parquet"
        elif NAME_MAPPING in self._table.properties:
            reason = "has files that were added as they were"
        elif renamed := self._renamed():
            reason = f"its column {renamed} had another name, or another one had its name"
        if reason is not None:
            raise WrongTable(
                f"{self.name}: can't be read by Spark's Parquet reader: {reason}; union_arrow reads it"
            )

    def _renamed(self) -> str | None:
        """A column whose name in some file of before may be another one's."""
        now = _numbers(self._table.schema())
        names = {number: name for name, number in now.items()}
        for schema in self._table.schemas().values():
            for name, number in _numbers(schema).items():
                if names.get(number, name) != name or now.get(name, number) != number:
                    return names.get(number, name)
        return None


def _numbers(schema: IcebergSchema) -> dict[str, int]:
    """Of columns and the fields in them, by their full names."""
    return {name: schema.find_field(name).field_id for name in schema.column_names}

"""What one task does: read a piece of a log into the batches Spark wants, and report what it skipped."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from hatwisted.pipeline.decode.batches import BATCH_ROWS
from hatwisted.pipeline.decode.conditions import Condition
from hatwisted.pipeline.decode.logreader import MODES, Damage, Mode, read_split
from hatwisted.pipeline.decode.storefolder import Split
from hatwisted.pipeline.errors import WrongLogFile
from hatwisted.pipeline.spark.damagetable import write_damages
from hatwisted.pipeline.spark.filters import conditions
from hatwisted.pipeline.spark.readoptions import BadOption, Options
from hatwisted.pipeline.spark.sourcecolumns import shaped, wire_schema

SOURCE: Final = "commitlog"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogPartition(InputPartition):
    """What one task reads."""

    split: Split


@dataclass(frozen=True, slots=True)
class ReadTask:
    """What every task of a read needs to know. lossy: a file that is gone isn't an error."""

    schema: pa.Schema
    where: tuple[Condition, ...]
    mode: Mode
    damage_path: str | None
    batch_rows: int
    lossy: bool = False

    @classmethod
    def of(cls, options: Options, schema: StructType) -> ReadTask:
        """From the options; raises WrongSchema and BadOption."""
        mode = cast(Mode, options.choice("mode", MODES, "failfast"))
        damage_path = options.text("damagePath")
        if mode == "skip-and-report" and damage_path is None:
            raise BadOption(
                f"{SOURCE}: mode=skip-and-report needs damagePath, a folder for the ranges it leaves out"
            )
        if damage_path is not None and "://" not in damage_path:
            damage_path = os.path.abspath(damage_path)
        return cls(
            schema=wire_schema(schema),
            where=conditions(options),
            mode=mode,
            damage_path=damage_path,
            batch_rows=options.integer("batchRows", least=1) or BATCH_ROWS,
        )

    def rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches of one task; damage is written to the side table after the last of them."""
        if not isinstance(partition, LogPartition):
            return  # Spark's stand-in for a plan of no partitions
        split = partition.split
        damages: list[Damage] = []
        try:
            for batch in read_split(
                split,
                self.schema.names,
                where=self.where,
                mode=self.mode,
                damages=damages.append,
                batch_rows=self.batch_rows,
            ):
                yield shaped(batch, self.schema)
        except WrongLogFile as error:
            if not (self.lossy and isinstance(error.__context__, FileNotFoundError)):
                raise
            _log.warning("offsets %d to %d are lost: %s", split.begin, split.end, error)
            return
        if self.damage_path is not None:
            write_damages(self.damage_path, split, damages)

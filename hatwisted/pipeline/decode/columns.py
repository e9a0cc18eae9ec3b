"""The columns of a table from the records of a chunk, each built only when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hatwisted.logcodec.scan import Records
from hatwisted.pipeline.decode.arrowschema import arrow_schema
from hatwisted.pipeline.decode.bodies import Bodies, bodies, crcs_right, stored_bodies
from hatwisted.pipeline.decode.hosttext import born_hosts, store_hosts
from hatwisted.pipeline.decode.plainproperties import PlainProperties, plain_properties
from hatwisted.pipeline.decode.propertycolumns import PropertyColumns
from hatwisted.pipeline.decode.ragged import constant

TRANSACTIONS: Final = ("none", "prepared", "commit", "rollback")
"""By the two transaction bits of sysFlag."""
_MICROSECONDS: Final = 1000  # in a ms
_LONGEST: Final = (1 << 63) // _MICROSECONDS
_TIME: Final = arrow_schema(("store_timestamp",)).field(0).type


class Columns:
    """The records' columns as Arrow arrays; none refers to the chunk's buffer.

    - records: whole ones
    - broker: for the column
    - file: for the column
    """

    def __init__(self, records: Records, broker: str, file: str) -> None:
        self.records = records
        self._broker = broker
        self._file = file

    def head(self, count: int) -> Columns:
        """Those of the first `count` records, which are all that `bodies` are of."""
        found = Columns(self.records.take(slice(count)), self._broker, self._file)
        found.bodies = self.bodies
        return found

    def without(self, rows: Sequence[int]) -> Columns:
        """Those of the other records; bodies aren't decompressed again."""
        kept = np.setdiff1d(np.arange(len(self.records)), rows)
        found = Columns(self.records.take(kept), self._broker, self._file)
        found.bodies = Bodies(self.bodies.values.take(pa.array(kept)), {})
        return found

    def array(self, name: str) -> pa.Array:
        """One column, with its type of the schema."""
        return _BUILDERS[name](self)

    def batch(self, names: Sequence[str]) -> pa.RecordBatch:
        """These columns as a batch."""
        return pa.RecordBatch.from_arrays([self.array(name) for name in names], schema=arrow_schema(names))

    @cached_property
    def bodies(self) -> Bodies:
        """May be of the first records only: see there."""
        return bodies(self.records, self.stored_bodies)

    @cached_property
    def stored_bodies(self) -> pa.Array:
        """binary[n], compressed if they are."""
        return stored_bodies(self.records)

    @cached_property
    def properties(self) -> PropertyColumns | PlainProperties:
        """Taken apart once, whichever columns need it."""
        records = self.records
        areas = (records.octets, records.properties_at, records.ends)
        return plain_properties(*areas) or PropertyColumns(*areas)

    def number(self, name: str, kind: str) -> pa.Array:
        """A field of the head."""
        return pa.array(self.records.heads[name].astype(kind))

    def time(self, name: str) -> pa.Array:
        """A time of the head, in ms, as a timestamp; null if it is beyond what a timestamp holds."""
        times: npt.NDArray[np.int64] = self.records.heads[name].astype(np.int64)
        beyond = (times >= _LONGEST) | (times <= -_LONGEST)
        mask = beyond if beyond.any() else None
        return pa.array(times * _MICROSECONDS, mask=mask).view(_TIME)

    def transaction(self) -> pa.Array:
        """string[n]."""
        codes: Any = self.records.heads["sys_flag"] >> 2 & 3
        if not codes.any():
            return constant(TRANSACTIONS[0], len(codes))
        return pa.array(TRANSACTIONS).take(pa.array(codes.astype(np.int32)))

    def topics(self) -> pa.Array:
        """string[n]."""
        records = self.records
        return pa.array(records.topics, pa.string()).take(pa.array(records.topic_rows))

    def constant(self, text: str) -> pa.Array:
        """The same for all records."""
        return constant(text, len(self.records))


_BUILDERS: Final[dict[str, Callable[[Columns], pa.Array]]] = {
    "topic": lambda columns: columns.topics(),
    "queue_id": lambda columns: columns.number("queue_id", "<i4"),
    "queue_offset": lambda columns: columns.number("queue_offset", "<i8"),
    "physical_offset": lambda columns: columns.number("physical_offset", "<i8"),
    "size": lambda columns: columns.number("size", "<i4"),
    "store_timestamp": lambda columns: columns.time("store_timestamp"),
    "born_timestamp": lambda columns: columns.time("born_timestamp"),
    "store_host": lambda columns: store_hosts(columns.records),
    "born_host": lambda columns: born_hosts(columns.records),
    "tags": lambda columns: columns.properties.tags(),
    "keys": lambda columns: columns.properties.keys(),
    "unique_key": lambda columns: columns.properties.unique_keys(),
    "properties": lambda columns: columns.properties.maps(),
    "flag": lambda columns: columns.number("flag", "<i4"),
    "sys_flag": lambda columns: columns.number("sys_flag", "<i4"),
    "reconsume_times": lambda columns: columns.number("reconsume_times", "<i4"),
    "transaction": lambda columns: columns.transaction(),
    "prepared_transaction_offset": lambda columns: columns.number("prepared_transaction_offset", "<i8"),
    "body": lambda columns: columns.bodies.values,
    "body_crc": lambda columns: columns.number("body_crc", "<i4"),
    "body_crc_ok": lambda columns: crcs_right(columns.records, lambda: columns.stored_bodies),
    "broker": lambda columns: columns.constant(columns._broker),
    "file": lambda columns: columns.constant(columns._file),
}

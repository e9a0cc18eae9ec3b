"""Where each broker's rows end in a table: the last landed record, found by the files' statistics.

Two things depend on it. A landing whose checkpoint is new continues after these records instead of landing them
twice. And a store is only accepted if it holds exactly the record that the table has last: the broker's name alone
doesn't distinguish one log from another, while a log's first record, or its folder, doesn't stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from hatwisted.pipeline.delta.deltatable import open_table
from hatwisted.pipeline.delta.tablefolder import TableFolder

COLUMNS: Final = ("broker", "physical_offset", "size", "store_timestamp", "body_crc")


@dataclass(frozen=True)
class Tail:
    """The record with a broker's highest physical offset in a table. store_timestamp: microseconds since 1970."""

    broker: str
    physical_offset: int
    size: int
    store_timestamp: int | None
    body_crc: int | None

    @property
    def is_damage(self) -> bool:
        """Does the row stand for a damaged range, as a permissive landing has them?"""
        return self.store_timestamp is None and self.body_crc is None

    @property
    def end(self) -> int:
        """The offset after the record: where its log goes on."""
        return self.physical_offset + self.size


def landed_tails(path: str, brokers: Iterable[str], table: DeltaTable | None = None) -> dict[str, Tail]:
    """The tail of each broker that has rows in the table; reads one file per broker, mostly.

    - path: of the table
    - brokers: which
    - table: a version of it; None: the newest
    """
    table = open_table(path) if table is None else table
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    files = sorted((_bounds(action) for action in actions), key=lambda found: found.last, reverse=True)
    found = {broker: _tail(path, files, broker) for broker in brokers}
    return {broker: tail for broker, tail in found.items() if tail is not None}


def plain_rows(rows: pa.Table) -> pa.Table:
    """Rows with COLUMNS in types that everything takes: other writers have texts as views, and Python has no times
    outside the years 1 to 9999."""
    types = {"broker": pa.string(), "store_timestamp": pa.timestamp("us", "UTC")}
    for number, field in enumerate(rows.schema):
        if field.name in types:
            column = rows.column(number).cast(types[field.name])
            column = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
            rows = rows.set_column(number, field.name, column)
    return rows


@dataclass(frozen=True)
class _Bounds:
    """What the log says of a file; a file without statistics may hold anything."""

    path: str
    last: float
    brokers: tuple[str, str] | None

    def may_hold(self, broker: str) -> bool:
        return self.brokers is None or self.brokers[0] <= broker <= self.brokers[1]


def _bounds(action: dict[str, Any]) -> _Bounds:
    last = action.get("max.physical_offset")
    low, high = action.get("min.broker"), action.get("max.broker")
    brokers = None if low is None or high is None else (low, high)
    path = unquote(action["path"])  # actions name files as URLs
    return _Bounds(path, float("inf") if last is None else last, brokers)


def _tail(path: str, files: Iterable[_Bounds], broker: str) -> Tail | None:
    best: Tail | None = None
    for file in files:
        if best is not None and file.last <= best.physical_offset:
            break
        if file.may_hold(broker):
            found = _tail_of_file(TableFolder(path), file.path, broker)
            if found and (best is None or found.physical_offset > best.physical_offset):
                best = found
    return best


def _tail_of_file(folder: TableFolder, path: str, broker: str) -> Tail | None:
    with folder.open(path) as opened:
        file = pq.ParquetFile(opened)
        there = set(file.schema_arrow.names)
        if not {"broker", "physical_offset", "size"} <= there:
            return None
        rows = plain_rows(file.read(columns=[name for name in COLUMNS if name in there]))
    rows = rows.filter(pc.equal(rows.column("broker"), broker))
    if not rows.num_rows:
        return None
    last = pc.index(rows.column("physical_offset"), pc.max(rows.column("physical_offset"))).as_py()
    record = rows.slice(last, 1).to_pylist()[0]
    return Tail(*(record.get(name) for name in COLUMNS))

"""Where each broker's rows end in a table: the last landed record.

Commits of landings say it, claims among them, each for all brokers of the table of which anything is said, so that
it stays what it is when somebody deletes the last rows or changes them, and goes back when an earlier version is
restored. The rows count as well, found by the files' statistics: in tables of before, up to the first claim, where
somebody else has put rows of beyond the place into the table, and where no commit that is left says anything.

Two things depend on it. A landing whose checkpoint is new continues after these records instead of landing them
twice. And a store is only accepted if it holds exactly the record that the table has last: the broker's name alone
doesn't distinguish one log from another, while a log's first record, or its folder, doesn't stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hatwisted.pipeline.delta.notes import Notes
from hatwisted.pipeline.delta.tablefolder import TableFolder

Whose = TypeVar("Whose")
Place = TypeVar("Place")

TAILS: Final = "tails"
"""Within the note of a landing's commit: by broker, what `Tail` has besides."""
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


def landed_tails(path: str, brokers: Iterable[str], notes: Notes | None = None) -> dict[str, Tail]:
    """The tail of each broker of which rows have landed in the table; reads one file per broker, mostly.

    - path: of the table
    - brokers: which
    - notes: of a version of it; None: the newest
    """
    notes = Notes(path) if notes is None else notes
    actions = pa.table(notes.table.get_add_actions(flatten=True)).to_pylist()
    files = sorted((_bounds(action) for action in actions), key=lambda found: found.last, reverse=True)
    wanted = tuple(brokers)
    found = {broker: tail for broker in wanted if (tail := _tail(path, files, broker)) is not None}
    said = noted_tails(notes) if wanted else {}
    noted = {broker: said[broker] for broker in wanted if broker in said}
    return further(noted, found, "physical_offset")


def noted_tails(notes: Iterable[Mapping[str, Any]]) -> dict[str, Tail]:
    """The tails of all brokers of which they are said. notes: what the table's commits say, the newest first"""
    moved: set[str] = set()
    for note in notes:
        if TAILS in note:
            return {broker: tail for broker, tail in _understood(note[TAILS]).items() if broker not in moved}
        if "application" in note:
            moved.update(note.get("brokers", ()))  # by a landing of before, which doesn't say where to
    return {}


def tails_note(tails: Mapping[str, Tail]) -> dict[str, Any]:
    """What a commit says. tails: of all brokers"""
    return {
        TAILS: {
            broker: [getattr(tail, name) for name in COLUMNS if name != "broker"]
            for broker, tail in sorted(tails.items())
        }
    }


def further(ones: dict[Whose, Place], others: Mapping[Whose, Place], by: str) -> dict[Whose, Place]:
    """The ones, changed: of each the other one instead, where that is further on or the only one.

    - ones: by whose they are
    - others: likewise
    - by: the attribute that says how far they are
    """
    far = attrgetter(by)
    for whose, place in others.items():
        if whose not in ones or far(ones[whose]) < far(place):
            ones[whose] = place
    return ones


def _understood(said: Any) -> dict[str, Tail]:
    """Nothing, if somebody has written what can't be understood."""
    try:
        tails = {str(broker): Tail(broker, *place) for broker, place in said.items()}
    except (AttributeError, TypeError):
        return {}
    needed = (value for tail in tails.values() for value in (tail.physical_offset, tail.size))
    return tails if all(isinstance(value, int) for value in needed) else {}


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

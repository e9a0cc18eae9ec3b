"""Which row is a key's last one.

The one that lies last in its broker's log. Producers that choose queues by key have each key at one broker; where
a key has moved to another one, it has a row of each. Which of them is later is left to who reads: only the
brokers' clocks say it, which can be set back, and of rows that are compared by offset here and by time there, none
is the greatest. So rows may be merged in any order, and again after a crash.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.pipeline.errors import WrongSchema

KEY: Final = "key"
"""Column of a keyed table; with the topic and the broker it's what a row is known by."""
KEYS: Final = "keys"


def check_key(name: str, there: pa.Schema) -> None:
    """Can this column be the key? Raises WrongSchema.

    - name: of the column
    - there: the table's columns
    """
    kind = there.field(name).type if name in there.names else None
    if kind is None or not (name == KEYS or _is_plain(kind)):
        fit = ", ".join(item.name for item in there if item.name == KEYS or _is_plain(item.type))
        raise WrongSchema(f"column {name} can't be the key: give one of {fit}")


def with_key(rows: pa.Table, name: str) -> pa.Table:
    """Rows that have a key and say where they lie, with the column KEY in front; a body without bytes is null.

    - rows: of a landed table
    - name: the column that is the key
    """
    column = rows.column(name).combine_chunks()
    if name == KEYS:
        texts = column.cast(pa.list_(pa.string()))
        column = pc.binary_join(texts, " ")
    rows = rows.add_column(0, KEY, column.cast(pa.string()))
    named = pc.and_kleene(
        pc.greater(pc.utf8_length(rows.column(KEY)), 0), pc.greater(pc.utf8_length(_topics(rows)), 0)
    )
    for name in ("broker", "physical_offset"):  # a row of the user's own may lack them, and would match none
        named = pc.and_kleene(named, rows.column(name).is_valid())
    rows = rows.filter(pc.fill_null(named, False))
    if "body" in rows.column_names:
        body = rows.column("body").cast(pa.binary())
        gone = pc.equal(pc.binary_length(body), 0)
        at = rows.column_names.index("body")
        rows = rows.set_column(at, "body", pc.if_else(gone, pa.scalar(None, pa.binary()), body))
    return rows


def last_rows(rows: pa.Table) -> pa.Table:
    """The last row of each key. rows: with the column KEY."""
    known_by = {
        "topic": _topics(rows),
        KEY: rows.column(KEY),
        "broker": rows.column("broker").cast(pa.string()),
    }
    numbered = pa.table(known_by | {"at": rows.column("physical_offset"), "row": np.arange(len(rows))})
    grouped = numbered.sort_by("at").group_by(list(known_by), use_threads=False)
    return rows.take(grouped.aggregate([("row", "last")]).column("row_last"))


def _topics(rows: pa.Table) -> pa.ChunkedArray:
    return rows.column("topic").cast(pa.string())


def _is_plain(kind: pa.DataType) -> bool:
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return bool(texts or pa.types.is_integer(kind))

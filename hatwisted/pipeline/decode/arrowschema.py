"""The columns of a log as a table, their order and their Arrow types; everything else takes them from here.

The types are those Spark requires (`to_arrow_schema(..., timezone="UTC")`): no views, no large types, no
dictionaries, and `element`, `key`, `value` as the names inside lists and maps. Every column may be null, because a
reader in permissive mode shows a damaged range as a row that has little more than its offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

import pyarrow as pa

from hatwisted.pipeline.errors import WrongSchema

_TIME: Final = pa.timestamp("us", tz="UTC")

_TYPES: Final[dict[str, pa.DataType]] = {
    "topic": pa.string(),
    "queue_id": pa.int32(),
    "queue_offset": pa.int64(),
    "physical_offset": pa.int64(),
    "size": pa.int32(),  # bytes of the whole record
    "store_timestamp": _TIME,
    "born_timestamp": _TIME,
    "store_host": pa.string(),  # 1.2.3.4:5 or [::1]:5
    "born_host": pa.string(),
    "tags": pa.string(),
    "keys": pa.list_(pa.field("element", pa.string())),
    "unique_key": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "flag": pa.int32(),
    "sys_flag": pa.int32(),
    "reconsume_times": pa.int32(),
    "transaction": pa.string(),  # none, prepared, commit, rollback
    "prepared_transaction_offset": pa.int64(),
    "body": pa.binary(),  # decompressed
    "body_crc": pa.int32(),  # as stored, of the body as stored
    "body_crc_ok": pa.bool_(),
    "broker": pa.string(),
    "file": pa.string(),  # name of the log file
}

COLUMNS: Final[tuple[str, ...]] = tuple(_TYPES)
"""All columns, in the order of a table that has all."""


def check_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """The columns as a tuple; WrongSchema, with the nearest known name, if there is no such column."""
    names = tuple(columns)
    if not names:
        raise WrongSchema("no column requested; to count rows, read one such as queue_id")
    for name in names:
        if name not in _TYPES:
            near = get_close_matches(name, COLUMNS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(COLUMNS)}"
            raise WrongSchema(f"a log has no column {name!r}; {hint}")
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise WrongSchema(f"column {twice} is requested twice")
    return names


def arrow_schema(columns: Sequence[str] | None = None) -> pa.Schema:
    """The schema of these columns in this order; of all, if None."""
    return pa.schema(
        [pa.field(name, _TYPES[name]) for name in check_columns(COLUMNS if columns is None else columns)]
    )

"""Which columns of a table become what of a message, by their names and types.

The names are the sources' own, so that what was read can be written; `value`, `key`, `headers` and `partition`
are those of Spark's Kafka sink, so that a query is moved by changing its format and its servers. Columns that say
where and when a message was stored are left to the broker that stores it anew. Any other is an error: `bodi`,
left out silently, would be found by a consumer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

import pyarrow as pa
from pyarrow import types

from hatwisted.pipeline.errors import WrongSchema

STORED_ANEW: Final = frozenset(
    (
        *("queue_offset", "physical_offset", "size", "store_timestamp", "born_timestamp", "store_host"),
        *("born_host", "sys_flag", "reconsume_times", "transaction", "prepared_transaction_offset"),
        *("body_crc", "body_crc_ok", "file", "store_date", "offset", "timestamp", "timestampType"),
    )
)
"""What a message gets from the broker that stores it, and the day by which landed tables are filed."""


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))


def _is_content(kind: pa.DataType) -> bool:
    return _is_text(kind) or _is_bytes(kind)


def _is_texts(kind: pa.DataType) -> bool:
    return _is_text(kind) or bool(types.is_list(kind) and _is_text(kind.value_type))


def _is_properties(kind: pa.DataType) -> bool:
    return types.is_map(kind) and _is_text(kind.key_type) and _is_text(kind.item_type)


def _is_headers(kind: pa.DataType) -> bool:
    if not (types.is_list(kind) and types.is_struct(kind.value_type)):
        return False
    parts = {each.name: each.type for each in kind.value_type}
    return {"key", "value"} <= parts.keys() and _is_text(parts["key"]) and _is_content(parts["value"])


_NUMBER: Final = (types.is_integer, "a whole number")
_TEXT: Final = (_is_text, "a string")
_CONTENT: Final = (_is_content, "binary or a string")
COLUMNS: Final[dict[str, tuple[Callable[[pa.DataType], bool], str]]] = {
    "topic": _TEXT,
    "body": _CONTENT,
    "value": _CONTENT,
    "tags": _TEXT,
    "keys": (_is_texts, "a string or an array of strings"),
    "key": _CONTENT,
    "unique_key": _TEXT,
    "properties": (_is_properties, "a map of strings to strings"),
    "headers": (_is_headers, "an array of structs of key (a string) and value (binary or a string)"),
    "delay_level": _NUMBER,
    "flag": _NUMBER,
    "queue_id": _NUMBER,
    "broker": _TEXT,
    "partition": _NUMBER,
}
"""What a message is made of: the check of its type, and the type in words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowColumns:
    """The columns of a write. body: holds the bodies; used: all that are looked at; hashed: choose the queue."""

    body: str
    used: tuple[str, ...]
    hashed: tuple[str, ...] = ()


def row_columns(schema: pa.Schema, *, topic: str | None = None, hash_by: Sequence[str] = ()) -> RowColumns:
    """What of this schema is used. Raises WrongSchema for a column that is missing, unknown or of a wrong type.

    - schema: of the rows
    - topic: of all messages, if it isn't the rows' own
    - hash_by: columns whose values choose the queue
    """
    names = schema.names
    bodies = [name for name in ("body", "value") if name in names]
    if len(bodies) != 1:
        missing = "rows have both body and value" if bodies else "rows have no column body (or value)"
        raise WrongSchema(f"{missing}: select the message's content as one of them")
    if topic is None and "topic" not in names:
        raise WrongSchema("rows have no column topic: give the option topic, or select one")
    for name in hash_by:
        if name not in names:
            raise WrongSchema(f"hashBy: there's no column {name}{_nearest(name, names)}")
    for name in names:
        _check(schema, name, hash_by)
    used = tuple(name for name in names if name in COLUMNS and (name != "topic" or topic is None))
    return RowColumns(body=bodies[0], used=used, hashed=tuple(hash_by))


def _check(schema: pa.Schema, name: str, hash_by: Sequence[str]) -> None:
    if name in COLUMNS:
        fits, wanted = COLUMNS[name]
        kind = schema.field(name).type
        if not fits(kind):
            raise WrongSchema(f"column {name} must be {wanted}, not {kind}: cast it in a select")
    elif name not in STORED_ANEW and name not in hash_by:
        near = _nearest(name, COLUMNS)
        raise WrongSchema(
            f"column {name} is no part of a message{near}: drop it, or put it into body or properties"
        )


def _nearest(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, list(names), n=1)
    return f" (did you mean {near[0]}?)" if near else ""

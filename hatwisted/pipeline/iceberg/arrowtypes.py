"""An Iceberg table's columns in Arrow's usual types: pyiceberg gives texts, bytes and lists as large ones, or as
files have them, from file to file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


def plain_schema(schema: Schema) -> pa.Schema:
    """A table's columns."""
    return pa.schema([pa.field(item.name, plain_type(item.type)) for item in schema.as_arrow()])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The same without large types, all of whose values may be null."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(item.name, plain_type(item.type)) for item in kind])
    return kind

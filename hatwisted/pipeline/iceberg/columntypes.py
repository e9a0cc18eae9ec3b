"""Types of an Iceberg table's columns as Arrow has them, and how they become wider.

pyiceberg gives texts, bytes and lists as Arrow's large ones, with numbers of fields as metadata. Everything here
takes them as the rows' own types are, so that both can be compared. A column becomes as wide as the rows' where
Iceberg lets it: `int` to `long`, `float` to `double`, `decimal` to one of more digits, and records get fields.
"""

from __future__ import annotations

import pyarrow as pa

from hatwisted.pipeline.delta.nestedtypes import grown


def plain(kind: pa.DataType) -> pa.DataType:
    """The same values in the types that rows are made with."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(each) for each in kind])
    return kind


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The same of all columns."""
    return pa.schema([_plain_field(each) for each in schema])


def fitting(table: pa.DataType, rows: pa.DataType, at: str) -> pa.DataType:
    """The type that a column has to have so that both fit: the table's own, or a wider one. Raises WrongSchema.

    - table: its type there, plain
    - rows: theirs
    - at: table and column, for errors
    """
    return grown(_widened(table, rows), rows, at)


def _plain_field(item: pa.Field) -> pa.Field:
    return pa.field(item.name, plain(item.type), item.nullable)


def _widened(table: pa.DataType, rows: pa.DataType) -> pa.DataType:
    """The table's type, as wide as the rows' wherever it may become so."""
    if pa.types.is_struct(table) and pa.types.is_struct(rows):
        theirs = {each.name: each.type for each in rows}
        return pa.struct(
            [
                each.with_type(_widened(each.type, theirs[each.name])) if each.name in theirs else each
                for each in table
            ]
        )
    if pa.types.is_list(table) and pa.types.is_list(rows):
        item = table.value_field
        return pa.list_(item.with_type(_widened(item.type, rows.value_type)))
    if pa.types.is_map(table) and pa.types.is_map(rows):
        item = table.item_field
        return pa.map_(table.key_field, item.with_type(_widened(item.type, rows.item_type)))
    return rows if _may_become(table, rows) else table


def _may_become(table: pa.DataType, rows: pa.DataType) -> bool:
    if pa.types.is_decimal128(table) and pa.types.is_decimal128(rows):
        return bool(table.scale == rows.scale and table.precision < rows.precision)
    return (table, rows) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))

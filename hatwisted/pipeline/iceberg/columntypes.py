"""How columns of an Iceberg table become wider, so that rows fit: `int` becomes `long`, `float` `double`, a
`decimal` one of more digits, and records get fields. That's what Iceberg lets become of a column, whatever files
it has.
"""

from __future__ import annotations

import pyarrow as pa

from hatwisted.pipeline.delta.nestedtypes import grown


def fitting(table: pa.DataType, rows: pa.DataType, at: str) -> pa.DataType:
    """The type that a column has to have so that both fit: the table's own, or a wider one. Raises WrongSchema.

    - table: its type there (arrowtypes.py)
    - rows: theirs
    - at: table and column, for errors
    """
    return grown(_widened(table, rows), rows, at)


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

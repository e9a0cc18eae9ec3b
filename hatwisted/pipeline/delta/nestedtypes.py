"""Columns of records and lists: what a table's type and the rows' have together.

A record of the table gets the fields that only the rows have, and keeps those that only it has, which are null in
new rows. Every other difference is refused with the field's path: a cast could change data.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from hatwisted.pipeline.errors import WrongSchema

COLUMN_ADVICE: Final = "rename the table's column or land into another table"
FIELD_ADVICE: Final = "let the schema say what the table has, or land into another table"


def same_type(one: pa.DataType, other: pa.DataType) -> bool:
    """Equal but for the names of list elements and for whether an element may be null."""
    if pa.types.is_list(one) and pa.types.is_list(other):
        return same_type(one.value_type, other.value_type)
    if pa.types.is_map(one) and pa.types.is_map(other):
        return same_type(one.key_type, other.key_type) and same_type(one.item_type, other.item_type)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return [each.name for each in one] == [each.name for each in other] and all(
            same_type(mine.type, its.type) for mine, its in zip(one, other, strict=True)
        )
    return bool(one.equals(other))


def holds(table: pa.DataType, rows: pa.DataType) -> bool:
    """Does a column of type `table` hold every value of type `rows` as it is?"""
    integers = pa.types.is_signed_integer(table) and pa.types.is_signed_integer(rows)
    return same_type(table, rows) or bool(integers and table.bit_width >= rows.bit_width)


def grown(table: pa.DataType, rows: pa.DataType, at: str, advice: str = COLUMN_ADVICE) -> pa.DataType:
    """The table's type with what only the rows have. Raises WrongSchema naming what doesn't fit.

    - table: a column's type there
    - rows: theirs
    - at: table and column, for errors
    - advice: what to do about one
    """
    if holds(table, rows):
        return table
    if pa.types.is_struct(table) and pa.types.is_struct(rows):
        return _struct(table, rows, at)
    if pa.types.is_list(table) and pa.types.is_list(rows) and pa.types.is_nested(table.value_type):
        item = table.value_field
        return pa.list_(item.with_type(grown(item.type, rows.value_type, f"{at}, element", FIELD_ADVICE)))
    if pa.types.is_map(table) and pa.types.is_map(rows) and pa.types.is_nested(table.item_type):
        item = table.item_field
        if not same_type(table.key_type, rows.key_type):
            raise WrongSchema(
                f"{at} has {table.key_type} as keys in the table and {rows.key_type} in the log"
            )
        return pa.map_(
            table.key_field, item.with_type(grown(item.type, rows.item_type, f"{at}, value", FIELD_ADVICE))
        )
    raise WrongSchema(f"{at} is {table} in the table and {rows} in the log; {advice}")


def _struct(table: pa.StructType, rows: pa.StructType, at: str) -> pa.DataType:
    theirs = {each.name.lower(): each for each in rows}
    fields = []
    for each in table:
        new = theirs.pop(each.name.lower(), None)
        if new is None:
            if not each.nullable:
                raise WrongSchema(f"{at}.{each.name} may not be null, and the log has nothing for it")
            fields.append(each)
        elif new.name != each.name:
            raise WrongSchema(
                f"{at}.{each.name} is written {new.name} in the log: write it as the table does"
            )
        else:
            fields.append(each.with_type(grown(each.type, new.type, f"{at}.{each.name}", FIELD_ADVICE)))
    return pa.struct([*fields, *(each.with_nullable(True) for each in theirs.values())])

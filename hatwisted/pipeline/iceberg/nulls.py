"""Lists and maps of records that are null stay so in pyiceberg's hands.

It takes such columns apart and puts them together again, with each read and write, and makes of a null one
an empty one (0.12, `ArrowProjectionVisitor`). A body without the field isn't one with an empty list, so this puts
the nulls back where they were.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import pyarrow as reading


class _Projection(reading.ArrowProjectionVisitor):
    """What pyiceberg makes of a column, with the nulls that it had."""

    def list(self, list_type: Any, list_array: Any, value_array: Any) -> Any:
        made = super().list(list_type, list_array, value_array)
        if made is None or made.null_count == list_array.null_count:
            return made
        kind = pa.LargeListArray if pa.types.is_large_list(made.type) else pa.ListArray
        return kind.from_arrays(_own(made.offsets), made.values, type=made.type, mask=list_array.is_null())

    def map(self, map_type: Any, map_array: Any, key_result: Any, value_result: Any) -> Any:
        made = super().map(map_type, map_array, key_result, value_result)
        if made is None or made.null_count == map_array.null_count:
            return made
        nulls = map_array.is_null()
        return pa.MapArray.from_arrays(_own(made.offsets), made.keys, made.items, type=made.type, mask=nulls)


def _own(offsets: pa.Array) -> pa.Array:
    """The same, not as a part of other ones, which Arrow takes no mask for."""
    return pc.add(offsets, pa.scalar(0, offsets.type))


def keep_nulls() -> None:
    """For this process: whoever uses pyiceberg in it gets what is in the files."""
    reading.ArrowProjectionVisitor = _Projection  # type: ignore[misc]

"""Consumers' progress as brokers send it to each other, and keep it in a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import msgspec

from hatwisted.wire import fastjson
from hatwisted.wire.registration import DataVersion

WHOLE_ROW = -1
"""Stands for all queues of a row in the table of resets: a group or topic was deleted."""

_INT64_END = 1 << 63

_TIME_END: Final = 1 << 53
"""ms that no reset is dated with: the next one's date is later by one at least, and must have 64 bits, too."""

Offsets = dict[str, dict[int, int]]
"""topic@group -> queue id -> queue offset, or, of resets, -> ms of the last one."""


class Progress(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """A table as it is kept in the file and sent. `data_version`: 5.x slaves can't do without, 4.x has none;
    `reset_table`: ours."""

    data_version: DataVersion | None = None
    offset_table: Offsets
    reset_table: Offsets = msgspec.field(default_factory=dict)

    def reset_of(self, key: str, queue_id: int) -> int:
        """When the queue was last reset, by itself or with its row; 0 if never."""
        row = self.reset_table.get(key)
        return max(row.get(queue_id, 0), row.get(WHOLE_ROW, 0)) if row else 0


_Number = Annotated[int, msgspec.Meta(ge=-_INT64_END, le=_INT64_END - 1)]
_Time = Annotated[int, msgspec.Meta(ge=-_INT64_END, lt=_TIME_END)]


class _Tables(msgspec.Struct, rename="camel"):
    """The form in which brokers of ours, and most others, send a table."""

    offset_table: dict[str, dict[_Number, _Number]]
    reset_table: dict[str, dict[_Number, _Time]] = {}


_decode_tables: Final = msgspec.json.Decoder(_Tables, strict=False).decode


def encode_progress(progress: Progress) -> bytes:
    """As compact JSON."""
    return fastjson.dumps_compact(progress)


def parse_progress(data: bytes, loads: Callable[[bytes], Any] = fastjson.loads) -> Progress:
    """A broker's table, or part of one. Raises ValueError. loads: reads what isn't in our form."""
    try:
        # Ten times as fast as what follows, which knows more forms.
        tables = _decode_tables(data)
    except (ValueError, RecursionError):
        pass
    else:
        return Progress(offset_table=tables.offset_table, reset_table=tables.reset_table)
    content = loads(data)
    if not isinstance(content, Mapping) or not isinstance(content.get("offsetTable"), Mapping):
        raise ValueError("no offsetTable in the consumer offsets")
    return Progress(
        offset_table=_parse_rows(content["offsetTable"]),
        reset_table=_parse_rows(content.get("resetTable", {}), _TIME_END),
    )


def _parse_rows(table: Mapping[str, Mapping[str, int]], end: int = _INT64_END) -> Offsets:
    try:
        rows = {key: {int(queue): int(offset) for queue, offset in row.items()} for key, row in table.items()}
    except (AttributeError, TypeError, OverflowError) as error:
        raise ValueError(f"malformed consumer offsets: {error}") from None
    for key, row in rows.items():
        for queue_id, offset in row.items():
            if not (-_INT64_END <= queue_id < _INT64_END and -_INT64_END <= offset < end):
                raise ValueError(f"consumer offsets with a number that's too big: {key[:100]}")
    return rows

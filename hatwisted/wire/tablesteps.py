"""A master's table of thousands of entries, read a step at a time: the loop that reads it also replicates."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from hatwisted.wire.registration import decode_body, decoder

SMALL: Final = 64 << 10
"""Bytes of a table up to which it's read in one step: some hundred entries."""
_ENTRIES: Final = 500
"""Entries in one step: a quarter of a millisecond."""

_TEXTS: Final[Any] = dict[str, msgspec.Raw]

_Table = TypeVar("_Table", bound=msgspec.Struct)


def decoding_table(
    data: bytes,
    kind: type[_Table],
    entry: type[msgspec.Struct],
    field: str,
    known: Mapping[str, msgspec.Struct],
) -> Generator[None, None, _Table]:
    """As `decode_body`; an entry that is as it's known is the known one. What is passed over of a large table
    needn't be UTF-8, and may have numbers that are none.

    - data: JSON
    - kind: of the table, whose keys are in camel case
    - entry: of its large map's values
    - field: that map's name in `kind`
    - known: entries held already
    """
    if len(data) <= SMALL:
        return _with_known(decode_body(data, kind), field, known)
    key = "".join(part.capitalize() if place else part for place, part in enumerate(field.split("_")))
    try:
        parts: dict[str, msgspec.Raw] = decoder(_TEXTS)(data)
        yield
        texts = decoder(_TEXTS)(parts.pop(key, msgspec.Raw(b"{}")))
        yield
        table = decoder(kind)(msgspec.json.encode(parts))
        decode, entries = decoder(entry), {}
        for number, (name, text) in enumerate(texts.items(), 1):
            entries[name] = _known(known, name, decode(text))
            if number % _ENTRIES == 0:
                yield
        whole: _Table = msgspec.structs.replace(table, **{field: entries})
    except (ValueError, RecursionError):  # one of JSON's dialects, a field twice, or no table: told as ever
        return _with_known(decode_body(data, kind), field, known)
    return whole


def _with_known(table: _Table, field: str, known: Mapping[str, msgspec.Struct]) -> _Table:
    entries = {name: _known(known, name, entry) for name, entry in getattr(table, field).items()}
    whole: _Table = msgspec.structs.replace(table, **{field: entries})
    return whole


def _known(known: Mapping[str, msgspec.Struct], name: str, entry: msgspec.Struct) -> msgspec.Struct:
    held = known.get(name)
    return held if held is not None and held == entry else entry

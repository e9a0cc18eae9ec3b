"""The text of a table's file when one entry of thousands has changed: the others' texts are kept.

A table is written whole, in the reactor, with each topic that a message makes; written anew, twenty-five thousand
topics took a quarter of a second each time. Rejected: writing them in steps (the table changes meanwhile), and a
pause between two writes (who makes a topic waits for the file).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from hatwisted.wire import fastjson
from hatwisted.wire.registration import DataVersion

_BEFORE: Final = b'{\n\t"":{'
_AFTER: Final = b"\n\t}\n}"
"""Around an entry, written as the only one of a table's only map."""


class TableText:
    """The pretty text of a struct with a large map of structs. field: the map's name in the text."""

    def __init__(self, field: str) -> None:
        self._map = b'\n\t"%s":{' % field.encode()
        self._kept: dict[str, tuple[msgspec.Struct, bytes]] = {}

    def text(self, table: msgspec.Struct, entries: Mapping[str, msgspec.Struct]) -> bytes:
        """As `fastjson.dumps_pretty` writes it.

        - table: the struct, its map empty
        - entries: what the map holds
        """
        before, kept = self._kept, {}
        for name, entry in entries.items():
            known = before.get(name)
            if known is None or (known[0] is not entry and known[0] != entry):
                alone = fastjson.dumps_pretty({"": {name: entry}})
                known = entry, alone.removeprefix(_BEFORE).removesuffix(_AFTER)
            kept[name] = known
        self._kept = kept
        whole = fastjson.dumps_pretty(table)
        if not kept:
            return whole
        begin, _, end = whole.partition(self._map + b"}")
        # Joined in one go: a table may have ten MiB.
        return b"".join((begin, self._map, b",".join([piece for _, piece in kept.values()]), b"\n\t}", end))


class KeptBody:
    """A table as it is answered, made once for each of its versions: slaves and tools ask for it again and again.
    make: its bytes, as it is now."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._version: DataVersion | None = None
        self._body = b""

    def of(self, version: DataVersion) -> bytes:
        """The bytes. version: the table's; another object after each change."""
        if self._version is not version:
            self._body = self._make()
            self._version = version
        return self._body

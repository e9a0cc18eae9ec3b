"""How far the delivery of each delay level has come: `config/delayOffset.json`.

A master counts here; a slave keeps what its master answered, byte for byte, and looks into it only once it
has become a master itself (B104). What a newer RocketMQ writes beside the offsets is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hatwisted.wire import fastjson


class DelayOffsets:
    """Delay level (from 1) -> queue offset of the next message to deliver."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []
        self._text: bytes | None = b'{"offsetTable":{}}'
        """As read or received; None once something is counted here."""
        self._fields: dict[str, Any] = {}
        self._offsets: dict[int, int] = {}

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change."""
        self._listeners.append(listener)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    def get(self, level: int) -> int:
        """The queue offset to go on at."""
        return self._offsets.get(level, 0)

    def items(self) -> list[tuple[int, int]]:
        """(level, queue offset), by level."""
        return sorted(self._offsets.items())

    def set(self, level: int, offset: int) -> None:
        """Go on at `offset`."""
        self._offsets[level] = offset
        self._text = None
        self._tell()

    def take(self, text: bytes) -> None:
        """Remember what the master answered. Raises ValueError if it isn't such a table."""
        if text != self._text:
            self.decode(text)
            self._tell()

    def encode(self) -> bytes:
        """The content of delayOffset.json."""
        return fastjson.dumps_pretty(self._table()) if self._text is None else self._text

    def encode_compact(self) -> bytes:
        """The answer to GET_ALL_DELAY_OFFSET, whichever way the file is laid out."""
        return fastjson.dumps_compact(self._table())

    def decode(self, data: bytes) -> None:
        """Take over delayOffset.json. Raises ValueError."""
        fields = fastjson.loads(data)
        offsets = fields.get("offsetTable", {}) if isinstance(fields, dict) else None
        if not isinstance(offsets, dict):
            raise ValueError("delay offsets must be an object")
        try:
            self._offsets = {int(level): int(offset) for level, offset in offsets.items()}
        except TypeError as error:
            raise ValueError(f"a delay offset isn't a number: {error}") from None
        self._fields = fields
        self._text = data

    def _table(self) -> dict[str, Any]:
        return {**self._fields, "offsetTable": dict(self.items())}

"""Stored puts that wait for disk or slave, in the order of the log, as what tells of them needs them.

They wait by the hundred, and are told of in runs: how far an offset reaches into them, the first so many, the
rest. One by one they are looked at only where something has gone wrong. So a compiled twin may keep them packed
(`_puts.pyx`): a put and its request are some ten objects, which would lie in memory for milliseconds among
thousands of others, and cost more to forget by then than they had cost to make.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, overload


class HeldPuts(Sequence[Any]):
    """Puts as they are. puts: in the order of the log, at least one of them unless it's an empty part."""

    __slots__ = ("_puts",)

    def __init__(self, puts: Sequence[Any]) -> None:
        self._puts = puts

    def __len__(self) -> int:
        return len(self._puts)

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> HeldPuts: ...

    def __getitem__(self, index: int | slice) -> Any:
        """A put, or a part of them."""
        return HeldPuts(self._puts[index]) if isinstance(index, slice) else self._puts[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._puts)

    def end(self, index: int) -> int:
        """Where a put ends (physical offset)."""
        end: int = self._puts[index].end
        return end

    def covered(self, offset: int) -> int:
        """How many of them end at or before a physical offset."""
        return bisect_right(self._puts, offset, key=_end)

    def settle(self, status: object) -> None:
        """Give all of them their status."""
        for put in self._puts:
            put.status = status


def _end(put: Any) -> int:
    end: int = put.end
    return end

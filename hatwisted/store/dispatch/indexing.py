"""Items on their way from dispatch to the index: what it doesn't take while it makes its next file waits here."""

from __future__ import annotations

import numpy as np
from twisted.internet.defer import Deferred, succeed

from hatwisted.store.index.indexfile import Ints, Item, Longs
from hatwisted.store.index.indexservice import IndexService


class Indexing:
    """Offers items to the index, in the log's order. index: None if messages aren't indexed"""

    def __init__(self, index: IndexService | None) -> None:
        self._index = index
        self._left: tuple[Ints, Longs, Longs] | None = None

    @property
    def wanted(self) -> bool:
        """Are messages indexed?"""
        return self._index is not None

    @property
    def end_physical(self) -> int:
        """Physical offset of the last record that the index knows; -1 without an index."""
        return -1 if self._index is None else self._index.end_physical

    @property
    def waits(self) -> bool:
        """Are there items that the index hasn't taken? Then nothing more is offered before `when_ready`."""
        return self._left is not None

    def when_ready(self) -> Deferred[None]:
        """See IndexService.when_ready."""
        return succeed(None) if self._index is None else self._index.when_ready()

    def forget(self) -> None:
        """What waits will be offered again."""
        self._left = None

    def go_on(self) -> bool:
        """Offer what waits; whether the index has everything now."""
        return self._left is None or self.take(*self._left)

    def take_few(self, items: list[Item]) -> bool:
        """As `take`, of a handful, some of which the index may have."""
        index = self._index
        if index is None or not items:
            return True
        if items[0][1] <= index.end_physical:
            items = items[index.resume([item[1] for item in items], [item[2] for item in items]) :]
        taken = index.append_few(items)
        if taken == len(items):
            return True
        hashes, physical, timestamps = zip(*items[taken:], strict=True)
        self._left = np.array(hashes, np.int32), np.array(physical), np.array(timestamps)
        return False

    def take_new(self, hashes: Ints, physical: Longs, timestamps: Longs) -> bool:
        """As `take`, without those that the index has."""
        index = self._index
        if index is not None and len(physical) and int(physical[0]) <= index.end_physical:
            known = index.resume(physical, timestamps)
            hashes, physical, timestamps = hashes[known:], physical[known:], timestamps[known:]
        return self.take(hashes, physical, timestamps)

    def take(self, hashes: Ints, physical: Longs, timestamps: Longs) -> bool:
        """Offer items; what the index doesn't take yet is kept. Whether it took everything.

        - hashes: of the keys
        - physical: offsets of their records
        - timestamps: store times, in ms
        """
        index, self._left = self._index, None
        taken = (
            len(hashes) if index is None or not len(hashes) else index.append(hashes, physical, timestamps)
        )
        if taken < len(hashes):
            self._left = hashes[taken:], physical[taken:], timestamps[taken:]
        return self._left is None

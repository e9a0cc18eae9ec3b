"""Unique keys of rows that are written as messages: the same row gets the same key whenever it's written again.

A batch that is repeated after a crash sends its rows again. Readers recognise the repetitions by UNIQ_KEY, if a
row's key is what it was the first time. Two things must hold however rows come: no two rows of a batch share a
key, or readers would drop one of them; and a key is never another row's, or a repetition in another order would
make them drop what was never sent. Hence a key is made of what the message holds, not of its place: numbers of
rows alone were rejected, since after a shuffle rows come in any order.

Equal messages of a task are counted to tell them apart. That takes memory, so rows after the first
ORDER_FREE_ROWS have their place in the key as well: if those come in another order, they are repeated under other
keys, and never lost.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from typing import Final

ORDER_FREE_ROWS: Final = 1 << 18
"""Rows of a task whose keys don't depend on their order: their digests take some 25 MB."""
_DIGEST: Final = 12
"""Bytes: with 10^10 messages two that differ share a key with a probability below 10^-9."""


class RowKeys:
    """Keys of one task's rows; a repeated task makes another one.

    - write: which write this is: the same when it's repeated, and no other's
    - partition: number of the task's part of the rows
    """

    def __init__(self, write: str, partition: int) -> None:
        self._base = blake2b(f"{write}\0{partition}".encode(), digest_size=_DIGEST)
        self._seen: set[int] = set()
        self._again: Counter[bytes] = Counter()
        self._rows = 0

    def next(self, topic: str, body: bytes, properties: bytes) -> str:
        """Of the next row.

        - topic: where it goes
        - body: of its message
        - properties: all others, encoded
        """
        counted = self._rows < ORDER_FREE_ROWS
        digest = self._base.copy()
        # Lengths keep "ab" + "c" and "a" + "bc" apart, the marker what is counted and what has its place.
        digest.update(b"%d,%d,%d:" % (len(topic), len(body), -1 if counted else self._rows))
        digest.update(topic.encode())
        digest.update(body)
        digest.update(properties)
        self._rows += 1
        found = digest.digest()
        return _text(found, self._times(found) if counted else 0)

    def _times(self, digest: bytes) -> int:
        """How often has it been there?"""
        short = int.from_bytes(digest[:8])
        if short not in self._seen:
            self._seen.add(short)
            return 0
        self._again[digest] += 1
        return self._again[digest]


def _text(digest: bytes, times: int) -> str:
    """32 hex digits like a Java client's key. RocketMQ's tools read bytes 10 to 13 as milliseconds since the month
    began and look for nothing older: the small number stands there."""
    return (digest[:10] + times.to_bytes(4, "big") + digest[10:]).hex().upper()

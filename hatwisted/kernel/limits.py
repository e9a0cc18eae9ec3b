"""How much one call of a compiled twin builds; it leaves the rest to the next call."""

from __future__ import annotations

from typing import Final

ANSWER_BYTES: Final = 4 << 20
"""Bytes of answers in one buffer, and those of one more put: a batch's answer has an id for each message."""

INDEX_ITEMS: Final = 8192
"""Index items of one piece of log. A record with more keys is left to the columns."""

SIGNATURES: Final = 32
"""Signatures that are computed before the first of them is looked at."""

QUEUE_TAIL: Final = 4096
"""Most bytes of queue entries that wait in memory. If they can't be written then, nothing more is taken."""

JOINED_BYTES: Final = 512 << 10
"""Of records that lie in more than one piece of what has come over a link; a run ends where they take more."""

SEEN_TOPICS: Final = 1024
"""Topics of sends that are remembered as objects; another one takes the place of one that its bytes point to."""

"""How many links a master keeps, and which one goes when there is one more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Protocol, TypeVar

from hatwisted.ha.slaveprogress import SendProgress

MAX_UNREPORTED = 64
"""Connections without an accepted first report (each a socket and about 3 KiB). One more pushes out the
oldest of the host that holds most of them, so that a scanner can't lock a slave out."""

MAX_LINKS_OF_HOST = 16
"""Links from one host (of IPv6, one network of 64 bits) that have reported. One more pushes out the one from there
that is furthest behind."""

MAX_LINKS = 128
"""Links that have reported, each with up to 1 MiB of log that isn't read. One more pushes out the one that is
furthest behind, of the host that has most of them."""


class Link(Protocol):
    """What is counted."""

    network: str
    progress: SendProgress


L = TypeVar("L", bound=Link)


def surplus(links: Collection[L], most: int) -> tuple[L, int] | None:
    """Which of `links` has to go because there are more than `most`, and how many its host has; else None."""
    if len(links) <= most:
        return None
    network, held = Counter(link.network for link in links).most_common(1)[0]
    last = min((link for link in links if link.network == network), key=lambda link: link.progress.ack_offset)
    return last, held

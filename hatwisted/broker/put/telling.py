"""Telling of settled puts, one listener's mistake kept from all the others.

Whoever is told of puts comes in the middle of something that others wait for: a line that has reached many puts, a
topic that is kept. What goes wrong there is logged; the puts stay stored, and their producers ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from twisted.logger import Logger

from hatwisted.store.log.put import Put

Token = TypeVar("Token")
Settled = Callable[[Sequence[Put[Token]]], None]

_log = Logger()


def tell_of(puts: Sequence[Put[Token]], settled: Settled[Token]) -> None:
    """Call `settled` with `puts`, at least one. Doesn't raise."""
    try:
        settled(puts)
    except Exception:
        _log.failure("answering {count} puts of topic {topic} failed", count=len(puts), topic=puts[0].topic)

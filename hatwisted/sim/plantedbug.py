"""A mistake that is planted on purpose: a name of the program, and what stands there instead while a run lasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from hatwisted.sim.setup import Setup


class Bug(NamedTuple):
    """A mistake.

    - what: in words
    - owner, attribute: where it sits
    - instead: what replaces it
    - kinds: of faults that it needs; empty: any
    - needs: of a seed's group
    - conf: fields of `Setup` that a seed's group gets
    - unguarded: a safeguard that would mend what the mistake does: owner, attribute, and what replaces it
    """

    what: str
    owner: Any
    attribute: str
    instead: Any
    kinds: tuple[str, ...] = ()
    needs: Callable[[Setup], bool] = lambda setup: True
    conf: Mapping[str, Any] = MappingProxyType({})
    unguarded: tuple[Any, str, Any] | None = None

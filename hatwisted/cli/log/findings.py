"""What a check found: counted, with the first few of each kind spelled out."""

from __future__ import annotations

from typing import Final

import msgspec

EXAMPLES: Final = 5
"""Findings of one kind that are spelled out: a store broken in a million places still fits on a screen."""


class Finding(msgspec.Struct, rename="camel"):
    """One kind of problem. `count`: how often; `examples`: the first few, a line each."""

    kind: str
    count: int = 0
    examples: list[str] = msgspec.field(default_factory=list)


class Findings:
    """Problems by kind, in the order in which the kinds first occurred."""

    def __init__(self) -> None:
        self._kinds: dict[str, Finding] = {}

    def add(self, kind: str, example: str, count: int = 1) -> None:
        """Note problems of a kind.

        - kind: in words
        - example: the first of them
        - count: how many
        """
        finding = self._kinds.setdefault(kind, Finding(kind))
        finding.count += count
        if len(finding.examples) < EXAMPLES:
            finding.examples.append(example)

    def all(self) -> list[Finding]:
        """Everything noted."""
        return list(self._kinds.values())

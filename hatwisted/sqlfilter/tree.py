"""An expression as a tree: frozen nodes that the parser makes and the compiler reads.

BETWEEN, <> and NOT IN have no nodes of their own, they are made of the others; a chain of AND or of OR is one
node, so that a hundred alternatives don't nest.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import msgspec


class NumberKind(Enum):
    """Java's class of a number; it decides which texts can be compared with it."""

    INTEGER = "Integer"
    LONG = "Long"
    DOUBLE = "Double"


class Number(msgspec.Struct, frozen=True):
    """A number literal."""

    value: int | float
    kind: NumberKind


class Text(msgspec.Struct, frozen=True):
    """A string literal."""

    value: str


class Truth(msgspec.Struct, frozen=True):
    """TRUE, FALSE, or NULL."""

    value: bool | None


class Property(msgspec.Struct, frozen=True):
    """A property's value: a string, or null if the message doesn't have it."""

    name: str


class Negation(msgspec.Struct, frozen=True):
    """`-operand`: null for all but numbers, even for strings that look like one."""

    operand: Node


class Comparison(msgspec.Struct, frozen=True):
    """symbol: one of `= > >= < <=`."""

    symbol: str
    left: Node
    right: Node


class IsNull(msgspec.Struct, frozen=True):
    operand: Node


class Membership(msgspec.Struct, frozen=True):
    """`property IN (texts)`, or NOT IN."""

    name: str
    texts: frozenset[str]
    negated: bool


class Not(msgspec.Struct, frozen=True):
    operand: Node


class Cast(msgspec.Struct, frozen=True):
    """A bare property where a truth value is required: false for every string, even "true"."""

    name: str


class Chain(msgspec.Struct, frozen=True):
    """All of `terms`, or any of them."""

    any: bool
    terms: tuple[Node, ...]


Node: TypeAlias = (
    Number | Text | Truth | Property | Negation | Comparison | IsNull | Membership | Not | Cast | Chain
)

BOOLEANS = (Truth, Comparison, IsNull, Membership, Not, Cast, Chain)
"""Nodes that give true, false or null, and nothing else."""

_PARENTS = frozenset((Chain, Comparison, Negation, IsNull, Not))
"""Nodes that have others."""


def measured(tree: Node) -> tuple[int, int]:
    """Levels of nodes, and nodes in all. Without recursion: the height isn't limited yet."""
    height, size, level = 0, 0, [tree]
    while level:
        height, size = height + 1, size + len(level)
        level = [child for node in level if type(node) in _PARENTS for child in _children(node)]
    return height, size


def _children(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Chain):
        return node.terms
    if isinstance(node, Comparison):
        return node.left, node.right
    if isinstance(node, (Negation, IsNull, Not)):
        return (node.operand,)
    return ()

"""A compiled filter expression: closures over the message's properties, made once for each expression.

Strategy: each node of the tree becomes a function from a property look-up to true, false or null (or a
text, or a number). What kind of value a node gives is known before any message is seen, since properties are
always strings; so the choice of comparison, which 4.9.7 makes for every message, is made here once.

Three-valued logic with RocketMQ's own corners: null = null is true (both sides missing), text = null is
false but null = text is null, a bare property is never true, and one comparison of things that can't be
compared ends the whole evaluation.

Rejected: eval() of generated Python (a filter comes from the network), and walking the tree for each
message (four times slower).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

from hatwisted.sqlfilter.javanumbers import (
    NotComparable,
    compare_doubles,
    compare_numbers,
    compare_with,
    java_double,
)
from hatwisted.sqlfilter.parser import parse
from hatwisted.sqlfilter.tree import (
    Cast,
    Chain,
    Comparison,
    IsNull,
    Membership,
    Negation,
    Node,
    Not,
    Number,
    Property,
    Text,
    Truth,
)

CACHED: Final = 100
"""Compiled expressions that are kept (as many as 4.9.7 keeps): some KiB each."""

LONG: Final = 1024
"""Characters from which on an expression is a long one: 200 KiB when compiled, 3 MiB at the maximum length."""

CACHED_LONG: Final = 8
"""Long ones that are kept: anybody may ask whether one is understood, a hundred of them took 300 MiB."""

Lookup: TypeAlias = Callable[[str], "str | None"]
"""A message's property by name; None if it hasn't got it."""

_Value: TypeAlias = str | int | float | bool | None
_Evaluate: TypeAlias = Callable[[Lookup], _Value]
_Compare: TypeAlias = Callable[[_Value, _Value], int]

_TESTS: Final[dict[str, Callable[[int], bool]]] = {
    "=": lambda order: order == 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
}


class Sql92Filter:
    """One expression. ignored_from: where text begins that is ignored (see parser.Parsed), or None; size:
    the tree's nodes, each of which costs some 0.2 us per message at worst."""

    __slots__ = ("_evaluate", "expression", "ignored_from", "size")

    def __init__(self, expression: str) -> None:
        parsed = parse(expression)
        self.expression = expression
        self.ignored_from = parsed.ignored_from
        self.size = parsed.size
        self._evaluate = _compile(parsed.tree)

    def evaluate(self, look: Lookup) -> bool | None:
        """True, false or null for one message. Raises NotComparable."""
        value = self._evaluate(look)
        assert value is None or isinstance(value, bool), "the parser only lets conditions through"
        return value

    def matches(self, look: Lookup) -> bool:
        """Is the message wanted?"""
        try:
            return self._evaluate(look) is True
        except NotComparable:
            return False


_compiled: Final = lru_cache(maxsize=CACHED)(Sql92Filter)
_compiled_long: Final = lru_cache(maxsize=CACHED_LONG)(Sql92Filter)


def sql92_filter(expression: str) -> Sql92Filter:
    """The compiled expression. Raises parser errors: Sql92Error."""
    return (_compiled if len(expression) < LONG else _compiled_long)(expression)


def _compile(node: Node) -> _Evaluate:
    match node:
        case Property(name):
            return lambda look: look(name)
        case Number(value) | Text(value) | Truth(value):
            return lambda look: value
        case Cast(name):
            return lambda look: None if look(name) is None else False
        case Negation():
            return _compile_negation(node)
        case Not(operand):
            return _compile_not(_compile(operand))
        case IsNull(operand):
            inner = _compile(operand)
            return lambda look: inner(look) is None
        case Membership(name, texts, negated):
            return _compile_membership(name, texts, negated)
        case Chain(any_, terms):
            parts = tuple(_compile(term) for term in terms)
            return _compile_any(parts) if any_ else _compile_all(parts)
        case Comparison("=", left, right):
            return _compile_equal(left, right)
        case Comparison(symbol, left, right):
            return _compile_ordered(_TESTS[symbol], left, right)


# ---- conditions of conditions


def _compile_not(operand: _Evaluate) -> _Evaluate:
    def evaluate(look: Lookup) -> _Value:
        value = operand(look)
        return None if value is None else not value

    return evaluate


def _compile_any(terms: tuple[_Evaluate, ...]) -> _Evaluate:
    def evaluate(look: Lookup) -> _Value:
        outcome: bool | None = False
        for term in terms:
            value = term(look)
            if value:
                return True
            if value is None:
                outcome = None
        return outcome

    return evaluate


def _compile_all(terms: tuple[_Evaluate, ...]) -> _Evaluate:
    def evaluate(look: Lookup) -> _Value:
        outcome: bool | None = True
        for term in terms:
            value = term(look)
            if value is None:
                outcome = None
            elif not value:
                return False
        return outcome

    return evaluate


def _compile_membership(name: str, texts: frozenset[str], negated: bool) -> _Evaluate:
    def evaluate(look: Lookup) -> _Value:
        text = look(name)
        return None if text is None else (text in texts) is not negated

    return evaluate


# ---- comparisons


def _compile_negation(node: Negation) -> _Evaluate:
    number = _number(node)
    if number is not None:
        value = number.value
        return lambda look: value
    operand = _compile(node.operand)

    def evaluate(look: Lookup) -> _Value:
        operand(look)  # it may raise NotComparable
        return None

    return evaluate


def _number(node: Node) -> Number | None:
    """The number that `node` is, minus signs applied. It keeps its class: -2147483648 is a Long."""
    if isinstance(node, Negation):
        inner = _number(node.operand)
        return None if inner is None else Number(-inner.value, inner.kind)
    return node if isinstance(node, Number) else None


def _compile_ordered(test: Callable[[int], bool], left: Node, right: Node) -> _Evaluate:
    first, second, compare = _compile(left), _compile(right), _comparison(left, right, _double_texts)

    def evaluate(look: Lookup) -> _Value:
        one = first(look)
        if one is None:
            return None
        other = second(look)
        return None if other is None else test(compare(one, other))

    return evaluate


def _compile_equal(left: Node, right: Node) -> _Evaluate:
    first, second, compare = _compile(left), _compile(right), _comparison(left, right, _unequal)

    def evaluate(look: Lookup) -> _Value:
        one, other = first(look), second(look)
        if one is None:
            return True if other is None else None
        return other is not None and compare(one, other) == 0

    return evaluate


def _comparison(left: Node, right: Node, of_texts: _Compare) -> _Compare:
    """How values of these two nodes compare, neither of them null; `of_texts`: two texts."""
    one, other = _number(left), _number(right)
    if one is not None and other is not None:
        order = compare_numbers(one, other)
        return lambda a, b: order
    if _is_text(left) and _is_text(right):
        return of_texts
    if other is not None:
        return _text_with_number(other) if _is_text(left) else _different
    if one is not None:
        return _number_with_text(one) if _is_text(right) else _different
    if _is_text(left):
        return lambda a, b: _unequal(str(a).lower() == "true", b)
    return _never if _is_text(right) else _unequal


def _is_text(node: Node) -> bool:
    return isinstance(node, (Property, Text))


def _text_with_number(number: Number) -> _Compare:
    compare = compare_with(number)
    return lambda text, _: compare(str(text))


def _number_with_text(number: Number) -> _Compare:
    compare = compare_with(number)
    return lambda _, text: -compare(str(text))


def _double_texts(one: _Value, other: _Value) -> int:
    return compare_doubles(java_double(str(one)), java_double(str(other)))


def _unequal(one: _Value, other: _Value) -> int:
    return 0 if one == other else 1


def _different(_one: _Value, _other: _Value) -> int:
    return -1


def _never(_one: _Value, _other: _Value) -> int:
    """A condition on the left, a text on the right: 4.9.7 fails on it."""
    raise NotComparable("a condition compared with a text")

"""A compiled filter expression: steps over the message's properties, made once for each expression.

Strategy: each node of the tree becomes a step that has a value, given a property look-up: true, false or null (or
a text, or a number). What kind of value a node gives is known before any message is seen, since properties are
always strings; so the choice of comparison, which 4.9.7 makes for every message, is made here once.

Three-valued logic with RocketMQ's own corners: null = null is true (both sides missing), text = null is
false but null = text is null, a bare property is never true, and one comparison of things that can't be
compared ends the whole evaluation.

Strangers' expressions live as long as their connections, 500,000 of their steps at once: so a step is a Struct
without `gc`, a fraction of a closure's size, and nothing that Python looks at for garbage (hundreds of
milliseconds, in which a broker answers nobody). Steps make no cycles.

Rejected: eval() of generated Python (a filter comes from the network), walking the tree for each message (four
times slower), and closures (see above).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from hatwisted.sqlfilter.javanumbers import (
    NotComparable,
    TextOrder,
    compare_doubles,
    compare_numbers,
    java_double,
    text_order,
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
"""Characters from which on an expression is a long one: 15 KiB when compiled, 230 KiB at most."""

CACHED_LONG: Final = 8
"""Long ones that are kept: anybody may ask whether one is understood."""

FEW: Final = 8
"""Texts of an IN that are compared one by one; a set of them is one more thing to look at for garbage."""

Lookup: TypeAlias = Callable[[str], "str | None"]
"""A message's property by name; None if it hasn't got it."""

_Value: TypeAlias = str | int | float | bool | None


class Sql92Filter:
    """One expression. ignored_from: where text begins that is ignored (see parser.Parsed), or None; size:
    the tree's nodes, each of which costs some 0.2 us per message at worst."""

    __slots__ = ("_whole", "expression", "ignored_from", "size")

    def __init__(self, expression: str) -> None:
        parsed = parse(expression)
        self.expression = expression
        self.ignored_from = parsed.ignored_from
        self.size = parsed.size
        self._whole = _compile(parsed.tree)

    def evaluate(self, look: Lookup) -> bool | None:
        """True, false or null for one message. Raises NotComparable."""
        value = self._whole.value(look)
        assert value is None or isinstance(value, bool), "the parser only lets conditions through"
        return value

    def matches(self, look: Lookup) -> bool:
        """Is the message wanted?"""
        try:
            return self._whole.value(look) is True
        except NotComparable:
            return False


_compiled: Final = lru_cache(maxsize=CACHED)(Sql92Filter)
_compiled_long: Final = lru_cache(maxsize=CACHED_LONG)(Sql92Filter)


def sql92_filter(expression: str) -> Sql92Filter:
    """The compiled expression. Raises parser errors: Sql92Error."""
    return (_compiled if len(expression) < LONG else _compiled_long)(expression)


def _compile(node: Node) -> _Step:
    match node:
        case Property(name):
            return _Looked(name)
        case Number(value) | Text(value) | Truth(value):
            return _Constant(value)
        case Cast(name):
            return _FalseIfThere(name)
        case Negation():
            number = _number(node)
            return _NullAfter(_compile(node.operand)) if number is None else _Constant(number.value)
        case Not(operand):
            return _Opposite(_compile(operand))
        case IsNull(operand):
            return _Missing(_compile(operand))
        case Membership(name, texts, negated):
            return _In(name, texts if len(texts) > FEW else tuple(texts), negated)
        case Chain(any_, terms):
            steps = tuple([_compile(term) for term in terms])
            return _Any(steps) if any_ else _All(steps)
        case Comparison("=", Property(name), Text(text)):
            return _Is(name, text)
        case Comparison(symbol, Property(name), right) if (number := _number(right)) is not None:
            return _Compared(name, text_order(number), _TESTS[symbol])
        case Comparison("=", left, right):
            return _Equal(_compile(left), _compile(right), _order(left, right, _UNEQUAL))
        case Comparison(symbol, left, right):
            test, order = _TESTS[symbol], _order(left, right, _DOUBLE_TEXTS)
            return _Ordered(_compile(left), _compile(right), order, test)


class _Step(msgspec.Struct, gc=False):
    """What a node became."""

    def value(self, look: Lookup) -> _Value:
        """For one message. Raises NotComparable."""
        raise NotImplementedError


# ---- values


class _Looked(_Step, gc=False):
    name: str

    def value(self, look: Lookup) -> _Value:
        return look(self.name)


class _Constant(_Step, gc=False):
    constant: _Value

    def value(self, look: Lookup) -> _Value:
        return self.constant


class _FalseIfThere(_Step, gc=False):
    name: str

    def value(self, look: Lookup) -> _Value:
        return None if look(self.name) is None else False


class _NullAfter(_Step, gc=False):
    """A minus sign before what isn't a number."""

    operand: _Step

    def value(self, look: Lookup) -> _Value:
        self.operand.value(look)  # it may raise NotComparable
        return None


def _number(node: Node) -> Number | None:
    """The number that `node` is, minus signs applied. It keeps its class: -2147483648 is a Long."""
    if isinstance(node, Negation):
        inner = _number(node.operand)
        return None if inner is None else Number(-inner.value, inner.kind)
    return node if isinstance(node, Number) else None


# ---- conditions of conditions


class _Opposite(_Step, gc=False):
    operand: _Step

    def value(self, look: Lookup) -> _Value:
        value = self.operand.value(look)
        return None if value is None else not value


class _Missing(_Step, gc=False):
    operand: _Step

    def value(self, look: Lookup) -> _Value:
        return self.operand.value(look) is None


class _Any(_Step, gc=False):
    terms: tuple[_Step, ...]

    def value(self, look: Lookup) -> _Value:
        outcome: bool | None = False
        for term in self.terms:
            value = term.value(look)
            if value:
                return True
            if value is None:
                outcome = None
        return outcome


class _All(_Step, gc=False):
    terms: tuple[_Step, ...]

    def value(self, look: Lookup) -> _Value:
        outcome: bool | None = True
        for term in self.terms:
            value = term.value(look)
            if value is None:
                outcome = None
            elif not value:
                return False
        return outcome


class _In(_Step, gc=False):
    name: str
    texts: tuple[str, ...] | frozenset[str]
    negated: bool

    def value(self, look: Lookup) -> _Value:
        text = look(self.name)
        return None if text is None else (text in self.texts) is not self.negated


# ---- comparisons

_TESTS: Final[dict[str, Callable[[int], bool]]] = {
    "=": lambda order: order == 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
}


class _Is(_Step, gc=False):
    """A property that is to be a text: this and the next are nearly all that expressions have."""

    name: str
    text: str

    def value(self, look: Lookup) -> _Value:
        value = look(self.name)
        return None if value is None else value == self.text


class _Compared(_Step, gc=False):
    """A property and a number."""

    name: str
    number: TextOrder
    test: Callable[[int], bool]

    def value(self, look: Lookup) -> _Value:
        value = look(self.name)
        return None if value is None else self.test(self.number.of(value))


class _Ordered(_Step, gc=False):
    left: _Step
    right: _Step
    order: _Order
    test: Callable[[int], bool]

    def value(self, look: Lookup) -> _Value:
        one = self.left.value(look)
        if one is None:
            return None
        other = self.right.value(look)
        return None if other is None else self.test(self.order.of(one, other))


class _Equal(_Step, gc=False):
    left: _Step
    right: _Step
    order: _Order

    def value(self, look: Lookup) -> _Value:
        one, other = self.left.value(look), self.right.value(look)
        if one is None:
            return True if other is None else None
        return other is not None and self.order.of(one, other) == 0


class _Order(msgspec.Struct, gc=False):
    """How two values compare, neither of them null: this one finds them different, the first one less."""

    def of(self, one: _Value, other: _Value) -> int:
        """Negative, 0 or positive. Raises NotComparable."""
        return -1


class _Fixed(_Order, gc=False):
    """Of two numbers of the expression."""

    order: int

    def of(self, one: _Value, other: _Value) -> int:
        return self.order


class _Unequal(_Order, gc=False):
    def of(self, one: _Value, other: _Value) -> int:
        return 0 if one == other else 1


class _DoubleTexts(_Order, gc=False):
    def of(self, one: _Value, other: _Value) -> int:
        return compare_doubles(java_double(str(one)), java_double(str(other)))


class _TextWithNumber(_Order, gc=False):
    number: TextOrder

    def of(self, one: _Value, other: _Value) -> int:
        return self.number.of(str(one))


class _NumberWithText(_Order, gc=False):
    number: TextOrder

    def of(self, one: _Value, other: _Value) -> int:
        return -self.number.of(str(other))


class _TextWithCondition(_Order, gc=False):
    def of(self, one: _Value, other: _Value) -> int:
        return 0 if (str(one).lower() == "true") == other else 1


class _Never(_Order, gc=False):
    """A condition on the left, a text on the right: 4.9.7 fails on it."""

    def of(self, one: _Value, other: _Value) -> int:
        raise NotComparable("a condition compared with a text")


_DIFFERENT: Final = _Order()
_UNEQUAL: Final = _Unequal()
_DOUBLE_TEXTS: Final = _DoubleTexts()
_TEXT_WITH_CONDITION: Final = _TextWithCondition()
_NEVER: Final = _Never()


def _order(left: Node, right: Node, of_texts: _Order) -> _Order:
    """How values of these two nodes compare; `of_texts`: two texts."""
    one, other = _number(left), _number(right)
    if one is not None and other is not None:
        return _Fixed(compare_numbers(one, other))
    if _is_text(left) and _is_text(right):
        return of_texts
    if other is not None:
        return _TextWithNumber(text_order(other)) if _is_text(left) else _DIFFERENT
    if one is not None:
        return _NumberWithText(text_order(one)) if _is_text(right) else _DIFFERENT
    if _is_text(left):
        return _TEXT_WITH_CONDITION
    return _NEVER if _is_text(right) else _UNEQUAL


def _is_text(node: Node) -> bool:
    return isinstance(node, (Property, Text))

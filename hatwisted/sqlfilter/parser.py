"""A filter expression's text as a tree: recursive descent by the grammar of 4.9.7's SelectorParser.

    disjunction = conjunction {OR conjunction}
    conjunction = equality {AND equality}
    equality    = ordering {("=" | "<>") ordering | IS [NOT] NULL}
    ordering    = unary {("<" | "<=" | ">" | ">=") unary | [NOT] BETWEEN unary AND unary | [NOT] IN "(" texts ")"}
    unary       = ("+" | "-" | NOT) unary | primary
    primary     = text | number | TRUE | FALSE | NULL | property | "(" disjunction ")"

What may be compared with what is checked here too, as 4.9.7 does while it parses; to those checks a
negative number isn't a constant, because it is one with a minus sign. 4.9.7 is satisfied with a complete
expression at the start and doesn't read on: `a = 1 b` means `a = 1`. That is kept, and shown as
`Parsed.ignored_from`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import msgspec

from hatwisted.sqlfilter.errors import Sql92Error
from hatwisted.sqlfilter.javanumbers import compare_numbers
from hatwisted.sqlfilter.lexer import DECIMAL, END, FLOAT, NAME, TEXT, Lexer, Word
from hatwisted.sqlfilter.tree import (
    BOOLEANS,
    Cast,
    Chain,
    Comparison,
    IsNull,
    Membership,
    Negation,
    Node,
    Not,
    Number,
    NumberKind,
    Property,
    Text,
    Truth,
    measured,
)

MAX_LENGTH: Final = 16 * 1024
"""Characters of an expression. Real ones have some dozens, a list for IN perhaps thousands. 4.9.7 has no limit."""

MAX_PARTS: Final = 2048
"""Values, signs, parentheses, NOTs and IS NULLs of an expression, a list for IN being one of them: a thousand
comparisons, of 16 characters each if it is as long as it may be. Compiling these takes 12 to 46 ms of a
busy machine's processor, the collections of garbage that fall in included."""

MAX_DEPTH: Final = 32
"""Nested parentheses, NOTs and signs. 4.9.7 goes on until Java's stack overflows, and then refuses."""

MAX_HEIGHT: Final = 4 * MAX_DEPTH
"""Levels of the tree: at most four between two parentheses, except for chains like `a = b = c = d`, which are
as deep as they are long."""

_INT_END: Final = 1 << 31
_LONG_END: Final = 1 << 63
_LONG_DIGITS: Final = 19
_TRUTHS: Final = {"TRUE": Truth(True), "FALSE": Truth(False), "NULL": Truth(None)}
_ORDERINGS: Final = (">", ">=", "<", "<=")


class Parsed(msgspec.Struct, frozen=True):
    """ignored_from: where text begins that is ignored because the expression was complete before it; None if
    there is none. size: the tree's nodes."""

    tree: Node
    ignored_from: int | None
    size: int


def parse(text: str) -> Parsed:
    """Raises Sql92Error."""
    if len(text) > MAX_LENGTH:
        raise Sql92Error(f"{len(text)} characters, more than {MAX_LENGTH},", text, MAX_LENGTH)
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._lexer = Lexer(text)
        self._ahead: Word | None = None
        self._depth = 0
        self._parts = 0

    def parse(self) -> Parsed:
        start = self._peek()
        tree = self._condition(self._disjunction(), start)
        following = self._peek()
        height, size = measured(tree)
        if height > MAX_HEIGHT:
            raise self._error(f"more than {MAX_HEIGHT} comparisons in a row without AND or OR", following)
        return Parsed(tree, None if following.kind == END else following.position, size)

    # ---- words

    def _peek(self) -> Word:
        if self._ahead is None:
            self._ahead = self._lexer.next()
        return self._ahead

    def _take(self) -> Word:
        word = self._peek()
        self._ahead = None
        return word

    def _expect(self, kind: str, *more: str) -> Word:
        word = self._peek()
        if word.kind != kind and word.kind not in more:
            raise self._error(f"{word} where {' or '.join((kind, *more))} should be", word)
        return self._take()

    def _count(self, word: Word) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise self._error(f"more than {MAX_PARTS} values, signs, parentheses and NOTs", word)

    def _error(self, reason: str, word: Word) -> Sql92Error:
        return Sql92Error(reason, self._lexer.text, word.position)

    # ---- conditions

    def _disjunction(self) -> Node:
        return self._chain("OR", self._conjunction)

    def _conjunction(self) -> Node:
        return self._chain("AND", self._equality)

    def _chain(self, keyword: str, part: Callable[[], Node]) -> Node:
        start = self._peek()
        first = part()
        if self._peek().kind != keyword:
            return first
        terms = [self._condition(first, start)]
        while self._peek().kind == keyword:
            self._take()
            start = self._peek()
            terms.append(self._condition(part(), start))
        return Chain(keyword == "OR", tuple(terms))

    def _condition(self, node: Node, start: Word) -> Node:
        """`node` where a truth value is required; `start`: its first word."""
        if isinstance(node, BOOLEANS):
            return node
        if isinstance(node, Property):
            return Cast(node.name)
        raise self._error("a value that is neither true nor false", start)

    # ---- comparisons

    def _equality(self) -> Node:
        left = self._ordering()
        while (word := self._peek()).kind in ("=", "<>", "IS"):
            self._take()
            if word.kind == "IS":
                self._count(word)
                negated = self._expect("NULL", "NOT").kind == "NOT"
                if negated:
                    self._expect("NULL")
                left = Not(IsNull(left)) if negated else IsNull(left)
            else:
                left = self._equal(word, left, self._ordering())
        return left

    def _equal(self, mark: Word, left: Node, right: Node) -> Node:
        if Truth(None) in (left, right):
            raise self._error("nothing equals NULL (use IS NULL)", mark)
        if isinstance(left, Truth) and isinstance(right, (Number, Text)):
            raise self._error("TRUE and FALSE can't be compared with a number or a text", mark)
        equal = Comparison("=", left, right)
        return equal if mark.kind == "=" else Not(equal)

    def _ordering(self) -> Node:
        left = self._unary()
        while True:
            word = self._peek()
            if word.kind in _ORDERINGS:
                self._take()
                left = self._ordered(word, left, self._unary())
            elif word.kind in ("NOT", "BETWEEN", "IN"):
                left = self._range_or_list(self._take(), left)
            else:
                return left

    def _ordered(self, mark: Word, left: Node, right: Node, symbol: str = "") -> Node:
        for operand in (left, right):
            if isinstance(operand, (Text, *BOOLEANS)):
                raise self._error(
                    "only numbers and properties have an order: a comparison of something else", mark
                )
        return Comparison(symbol or mark.kind, left, right)

    def _range_or_list(self, word: Word, left: Node) -> Node:
        negated = word.kind == "NOT"
        if negated:
            word = self._expect("BETWEEN", "IN")
        return self._in(word, left, negated) if word.kind == "IN" else self._between(word, left, negated)

    def _between(self, word: Word, value: Node, negated: bool) -> Node:
        self._count(word)  # its value is compared twice
        low = self._unary()
        self._expect("AND")
        high = self._unary()
        below, above = ("<", ">") if negated else (">=", "<=")
        ends = (self._ordered(word, value, low, below), self._ordered(word, value, high, above))
        both_numbers = isinstance(low, Number) and isinstance(high, Number)
        if both_numbers and not negated and compare_numbers(high, low) < 0:  # type: ignore[arg-type]
            raise self._error("BETWEEN takes the smaller number first", word)
        return Chain(negated, ends)

    def _in(self, word: Word, left: Node, negated: bool) -> Node:
        if not isinstance(left, Property):
            raise self._error("only a property can be IN a list", word)
        self._expect("(")
        texts = [self._expect(TEXT)]
        while self._expect(",", ")").kind == ",":
            texts.append(self._expect(TEXT))
        return Membership(left.name, frozenset(_unquoted(text) for text in texts), negated)

    # ---- values

    def _unary(self) -> Node:
        word = self._peek()
        if word.kind not in ("+", "-", "NOT"):
            return self._primary()
        self._deeper(self._take())
        self._count(word)
        start = self._peek()
        operand = self._unary()
        self._depth -= 1
        if word.kind == "-":
            return Negation(operand)
        return operand if word.kind == "+" else Not(self._condition(operand, start))

    def _deeper(self, word: Word) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", word)

    def _primary(self) -> Node:
        word = self._take()
        self._count(word)
        if word.kind == TEXT:
            return Text(_unquoted(word))
        if word.kind == DECIMAL:
            return self._decimal(word)
        if word.kind == FLOAT:
            return self._float(word)
        if word.kind == NAME:
            return Property(word.text)
        if word.kind in _TRUTHS:
            return _TRUTHS[word.kind]
        if word.kind != "(":
            raise self._error(f"{word} where a value should be", word)
        self._deeper(word)
        inner = self._disjunction()
        self._depth -= 1
        self._expect(")")
        return inner

    def _decimal(self, word: Word) -> Number:
        digits = word.text.rstrip("lL")
        if len(digits) > _LONG_DIGITS or int(digits) >= _LONG_END:
            raise self._error(f"{word} is no 64-bit number", word)
        value = int(digits)
        return Number(value, NumberKind.INTEGER if value < _INT_END else NumberKind.LONG)

    def _float(self, word: Word) -> Number:
        value = float(word.text)
        if value == math.inf or value == 0:
            raise self._error(f"{word} is out of a double's range (0.0 counts as that)", word)
        return Number(value, NumberKind.DOUBLE)


def _unquoted(word: Word) -> str:
    return word.text[1:-1].replace("''", "'")

"""Random expressions against an evaluator that knows nothing but SQL92's truth tables and RocketMQ's rules.

It works on nested tuples, in exact fractions where the compiled form works on Java's numbers; the expression
reaches the compiled form as text.
"""

import re
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sqlfilter.errors import Sql92Error
from hatwisted.sqlfilter.expression import Sql92Filter
from hatwisted.sqlfilter.javanumbers import NotComparable
from tests.support.examples import examples

T, F, N = True, False, None
AND = {(T, T): T, (T, F): F, (T, N): N, (F, T): F, (F, F): F, (F, N): F, (N, T): N, (N, F): F, (N, N): N}
OR = {(T, T): T, (T, F): T, (T, N): T, (F, T): T, (F, F): F, (F, N): N, (N, T): T, (N, F): N, (N, N): N}
NOT = {T: F, F: T, N: N}
RANGES = {"Integer": 1 << 31, "Long": 1 << 63}
ORDERS = {
    "=": lambda a, b: a == b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
}

names = st.sampled_from(["a", "b", "c", "TAGS"])
texts = st.sampled_from(["", "5", "-3", "5.5", "007", "3000000000", "true", "FALSE", "red", "it's", "12.25"])
properties = names.map(lambda name: ("property", name))
numbers = st.one_of(
    st.integers(-10, 10).map(lambda n: ("number", str(n), "Integer")),
    st.sampled_from([3000000000, -3000000000, 1 << 40]).map(lambda n: ("number", str(n), "Long")),
    st.sampled_from(["5.5", "-.25", "1e1", "12.25"]).map(lambda n: ("number", n, "Double")),
)
operands = st.one_of(properties, properties, numbers)
literals = texts.map(lambda text: ("text", text))
leaves = st.one_of(
    st.tuples(st.just("compare"), st.sampled_from(list(ORDERS)), operands, operands),
    st.tuples(st.just("compare"), st.just("="), properties, literals),
    st.tuples(st.just("unequal"), properties, st.one_of(literals, operands)),
    st.tuples(st.just("truth"), properties, st.booleans()),
    st.tuples(st.just("null"), operands, st.booleans()),
    st.tuples(st.just("in"), names, st.lists(texts, min_size=1, max_size=7), st.booleans()),
    st.tuples(st.just("between"), properties, operands, operands, st.booleans()),
    st.sampled_from([("constant", T), ("constant", F), ("constant", N)]),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("and"), inner, inner),
        st.tuples(st.just("or"), inner, inner),
        st.tuples(st.just("not"), inner),
    ),
    max_leaves=12,
)
messages = st.dictionaries(names, texts, max_size=4)


class GivenUp(Exception):
    """A comparison of what can't be compared was reached."""


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def written(node):
    """The expression as text, with more brackets than it needs."""
    match node:
        case ("property", name):
            return name
        case ("number", text, _):
            return text
        case ("text", text):
            return quoted(text)
        case ("constant", value):
            return {T: "TRUE", F: "False", N: "null"}[value]
        case ("compare", symbol, left, right):
            return f"{written(left)} {symbol} {written(right)}"
        case ("unequal", left, right):
            return f"{written(left)}<>{written(right)}"
        case ("truth", left, value):
            return f"{written(left)} = {value}"
        case ("null", operand, negated):
            return f"{written(operand)} IS {'NOT ' if negated else ''}NULL"
        case ("in", name, members, negated):
            return f"{name} {'not ' if negated else ''}in ({', '.join(map(quoted, members))})"
        case ("between", value, low, high, negated):
            middle = "NOT BETWEEN" if negated else "BETWEEN"
            return f"{written(value)} {middle} {written(low)} AND {written(high)}"
        case ("not", operand):
            return f"NOT ({written(operand)})"
        case (word, left, right):
            return f"({written(left)}) {word.upper()} ({written(right)})"


def number_of(text, kind):
    """A property's text as a number of Java's class `kind`."""
    if kind == "Double":
        if not re.fullmatch(r"-?\d+(\.\d+)?", text):
            raise GivenUp
        return Fraction(text)
    if not re.fullmatch(r"-?\d+", text) or not -RANGES[kind] <= int(text) < RANGES[kind]:
        raise GivenUp
    return Fraction(text)


def value_of(node, message):
    """A text, (number, class), or None."""
    if node[0] == "property":
        return message.get(node[1])
    return node[1] if node[0] == "text" else (Fraction(node[1]), node[2])


def compared(symbol, left, right):
    test = ORDERS[symbol]
    if isinstance(left, str) and isinstance(right, str):
        if symbol == "=":
            return left == right
        return test(number_of(left, "Double"), number_of(right, "Double"))
    if isinstance(left, str):
        return test(number_of(left, right[1]), right[0])
    if isinstance(right, str):
        return test(left[0], number_of(right, left[1]))
    return test(left[0], right[0])


def expected(node, message):
    """True, False or None by the tables; GivenUp."""
    match node:
        case ("constant", value):
            return value
        case ("compare", "=", left, right):
            one, other = value_of(left, message), value_of(right, message)
            if one is None:
                return T if other is None else N
            return F if other is None else compared("=", one, other)
        case ("compare", symbol, left, right):
            one, other = value_of(left, message), value_of(right, message)
            return N if one is None or other is None else compared(symbol, one, other)
        case ("unequal", left, right):
            return NOT[expected(("compare", "=", left, right), message)]
        case ("truth", left, value):
            text = value_of(left, message)
            return N if text is None else (text.lower() == "true") == value
        case ("null", operand, negated):
            return (value_of(operand, message) is None) != negated
        case ("in", name, members, negated):
            return N if name not in message else (message[name] in members) != negated
        case ("between", value, low, high, False):
            return expected(("and", ("compare", ">=", value, low), ("compare", "<=", value, high)), message)
        case ("between", value, low, high, True):
            return expected(("or", ("compare", "<", value, low), ("compare", ">", value, high)), message)
        case ("not", operand):
            return NOT[expected(operand, message)]
        case ("and", left, right):
            one = expected(left, message)
            return F if one is F else AND[one, expected(right, message)]
        case ("or", left, right):
            one = expected(left, message)
            return T if one is T else OR[one, expected(right, message)]
    raise AssertionError(node)


def wrong_way_round(node):
    """A BETWEEN of two plain numbers, the bigger first: refused. A minus sign hides a number from that."""
    if node[0] == "between" and not node[4] and node[2][0] == node[3][0] == "number":
        low, high = node[2][1], node[3][1]
        return "-" not in low + high and Fraction(high) < Fraction(low)
    return any(isinstance(part, tuple) and wrong_way_round(part) for part in node)


class TestTruthTables(SynchronousTestCase):
    @examples(100)
    @given(trees.filter(lambda tree: not wrong_way_round(tree)), st.lists(messages, min_size=1, max_size=4))
    def test_random_expressions_follow_the_tables(self, tree, some):
        compiled = Sql92Filter(written(tree))
        self.assertIsNone(compiled.ignored_from)
        for message in some:
            try:
                wanted = expected(tree, message)
            except GivenUp:
                self.assertRaises(NotComparable, compiled.evaluate, message.get)
                self.assertFalse(compiled.matches(message.get))
                continue
            self.assertIs(compiled.evaluate(message.get), wanted, written(tree))
            self.assertIs(compiled.matches(message.get), wanted is True)

    @examples(30)
    @given(st.text(alphabet="ab5'(),=<>.-+ LINORTAD\n*/#_$e", max_size=60))
    def test_any_text_is_read_or_refused(self, text):
        try:
            compiled = Sql92Filter(text)
        except Sql92Error as error:
            self.assertLessEqual(error.position, len(text))
        else:
            self.assertIn(compiled.matches({"a": "5", "b": "x"}.get), (True, False))

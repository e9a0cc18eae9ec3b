"""Filter expressions: the same outcome as rocketmq-filter 4.9.7's, mistakes with their place, limits."""

import gc
import json
import tracemalloc

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sqlfilter.errors import Sql92Error
from hatwisted.sqlfilter.expression import CACHED, CACHED_LONG, LONG, Sql92Filter, sql92_filter
from hatwisted.sqlfilter.javanumbers import NotComparable, java_double, java_integer, java_long
from hatwisted.sqlfilter.lexer import END, Lexer
from hatwisted.sqlfilter.parser import MAX_DEPTH, MAX_HEIGHT, MAX_LENGTH, MAX_PARTS
from tests.support.golden import SQL92
from tests.support.growth import grows_linearly

LETTERS = {True: "t", False: "f", None: "n"}


def outcomes(expression, messages):
    """As the golden file writes them."""
    try:
        compiled = Sql92Filter(expression)
    except Sql92Error:
        return "refused"
    letters = ""
    for message in messages:
        try:
            letters += LETTERS[compiled.evaluate(message.get)]
        except NotComparable:
            letters += "x"
    return letters


class TestGolden(SynchronousTestCase):
    def test_every_outcome_is_rocketmqs(self):
        messages = json.loads((SQL92 / "cases.json").read_text())["messages"]
        golden = json.loads((SQL92 / "outcomes.json").read_text())
        self.assertGreater(len(golden), 600)
        ours = {expression: outcomes(expression, messages) for expression in golden}
        self.assertEqual({e: (ours[e], golden[e]) for e in golden if ours[e] != golden[e]}, {})

    def test_the_golden_file_is_of_these_cases(self):
        cases = json.loads((SQL92 / "cases.json").read_text())["expressions"]
        self.assertEqual(list(json.loads((SQL92 / "outcomes.json").read_text())), cases)


class TestMatches(SynchronousTestCase):
    def matches(self, expression, **properties):
        return Sql92Filter(expression).matches(properties.get)

    def test_only_true_matches(self):
        self.assertTrue(self.matches("a > 5", a="6"))
        self.assertFalse(self.matches("a > 5", a="5"))
        self.assertFalse(self.matches("a > 5"), "null")
        self.assertFalse(self.matches("NOT (a > 5)"), "null")
        self.assertTrue(self.matches("a IS NULL AND TAGS = 'red'", TAGS="red"))

    def test_what_cant_be_compared_gives_up_the_whole_expression(self):
        self.assertFalse(self.matches("a > 5 OR b = 'x'", a="six", b="x"))
        self.assertTrue(self.matches("b = 'x' OR a > 5", a="six", b="x"), "never got there")

    def test_long_chains_are_no_nesting(self):
        chain = " OR ".join(f"a = '{number}'" for number in range(1000))
        self.assertTrue(self.matches(chain, a="999"))
        self.assertFalse(self.matches(chain.replace("OR", "AND"), a="999"))

    def test_numbers_are_read_as_java_reads_them(self):
        for text, value in {"+7": 7, "-0": 0, "\u0665": 5, "0" * 50 + "1": 1}.items():
            self.assertEqual((java_integer(text), java_long(text)), (value, value))
        for text in ("", " 5", "5 ", "1_000", "5L", "0x10", "+", "\U0001d7ce", "9" * 5000):
            self.assertRaises(NotComparable, java_long, text)
        self.assertRaises(NotComparable, java_integer, "2147483648")
        self.assertEqual(java_long("2147483648"), 1 << 31)
        for text, value in {" 5d ": 5, "1e400": float("inf"), "0x1p3": 8, "0X.8P1f": 1, "-.5F": -0.5}.items():
            self.assertEqual(java_double(text), value)
        for text in ("inf", "nan", "1_0.0", "5L", "0x10", "1e", ".", "\u0665", "\xa05"):
            self.assertRaises(NotComparable, java_double, text)
        self.assertEqual(java_double("-0x1p5000"), float("-inf"))

    def test_B176_what_is_no_number_is_read_once(self):
        def refuse(text):
            self.assertRaises(NotComparable, java_double, text)

        for form in ("1{}x", "0x{}", "1.{}x", "1e{}x", "0x.{}", "{}x"):
            linear = grows_linearly(lambda size, form=form: refuse(form.format("1" * size)), 20_000)
            self.assertTrue(linear, form)


class TestWork(SynchronousTestCase):
    def test_minus_signs_in_the_last_line_are_no_comments_to_look_for_the_end_of(self):
        def words(size):
            lexer = Lexer("\n" + "--1 " * size)
            while lexer.next().kind != END:
                pass

        self.assertTrue(grows_linearly(words, 1000))


class TestRefusals(SynchronousTestCase):
    def refused(self, expression, reason, line, column):
        error = self.assertRaises(Sql92Error, Sql92Filter, expression)
        self.assertIn(reason, str(error))
        self.assertEqual((error.line, error.column), (line, column), str(error))

    def test_mistakes_are_reported_with_their_place(self):
        self.refused("a = 5 AND", "the end where a value should be", 1, 10)
        self.refused("a = 5 AND\n  b = #", "'#' can't start a word", 2, 7)
        self.refused("a IN ('x', 5)", "'5' where text should be", 1, 12)
        self.refused("a > 'x'", "only numbers and properties have an order", 1, 3)
        self.refused("a BETWEEN 7 AND 1", "the smaller number first", 1, 3)
        self.refused("b = 1 AND 5", "neither true nor false", 1, 11)
        self.refused("a = NULL", "IS NULL", 1, 3)
        self.refused("a > 99999999999999999999", "no 64-bit number", 1, 5)
        self.refused("a > " + "9" * 5000, "no 64-bit number", 1, 5)
        self.refused("a > 0.0", "out of a double's range", 1, 5)
        self.refused("", "the end where a value should be", 1, 1)

    def test_text_behind_a_complete_expression_is_ignored_and_told(self):
        self.assertEqual(Sql92Filter("a LIKE 'x'").ignored_from, 2)
        self.assertEqual(Sql92Filter("a = 5 b #").ignored_from, 6)
        self.assertIsNone(Sql92Filter("a = 5 /* that's all */ ").ignored_from)

    def test_limits(self):
        deep = MAX_DEPTH
        self.assertTrue(Sql92Filter("(" * deep + "a = 5" + ")" * deep).matches({"a": "5"}.get))
        self.refused("(" * 5000 + "a = 5" + ")" * 5000, "nested deeper than", 1, deep + 1)
        self.refused("NOT " * 4000 + "a", "nested deeper than", 1, deep * 4 + 1)
        self.refused("-" * 9000 + "a", "nested deeper than", 1, deep + 1)
        Sql92Filter("a" + " = a" * (MAX_HEIGHT - 1))
        self.refused("a" + " = a" * MAX_HEIGHT, "comparisons in a row", 1, 4 * MAX_HEIGHT + 2)
        worst = " = (" * deep + "a" + " = a" * 20 + ")" * deep
        self.assertRaises(Sql92Error, Sql92Filter, "a" + (" = a" * 20 + " = (a") * deep + worst)
        padding = " " * (MAX_LENGTH - 1)
        Sql92Filter(padding + "a")
        self.refused(padding + "aa", f"more than {MAX_LENGTH}", 1, MAX_LENGTH + 1)

        self.assertRaises(Sql92Error, Sql92Filter, "/*" * 8000)

    def test_what_is_python_is_none_here(self):
        word = Sql92Filter("__import__ = 'os'")
        self.assertTrue(word.matches({"__import__": "os"}.get))
        call = Sql92Filter("__import__('os')")
        self.assertFalse(call.matches({}.get))
        self.assertEqual(call.ignored_from, len("__import__"))

    def test_so_many_values_and_signs(self):
        for one, parts in (
            ("a", 1), ("a=1", 2), ("a IS NULL", 2), ("(a)", 2), ("NOT a", 2), ("a=-1", 3),
            ("a BETWEEN 1 AND 2", 4),
        ):  # fmt: skip
            most, fill = divmod(MAX_PARTS, parts)
            whole = " OR ".join([one] * most + ["a"] * fill)
            Sql92Filter(whole)
            self.refused(f"{whole} OR a", f"more than {MAX_PARTS} values", 1, len(whole) + 5)
        Sql92Filter("a IN(" + "'x'," * (MAX_LENGTH // 4 - 10) + "'x')")

    def test_compiled_expressions_are_kept_up_to_a_limit(self):
        first = sql92_filter("a = 1")
        self.assertIs(sql92_filter("a = 1"), first)
        for number in range(CACHED):
            sql92_filter(f"b = {number}")
        self.assertIsNot(sql92_filter("a = 1"), first)

    def test_few_long_expressions_are_kept(self) -> None:
        texts = [f"a = {number}" + " OR b = 1" * (LONG // 8) for number in range(CACHED_LONG + 1)]
        kept = list(map(sql92_filter, texts))
        self.assertIs(sql92_filter(texts[-1]), kept[-1])
        self.assertIsNot(sql92_filter(texts[0]), kept[0])

    def test_the_longest_take_little_and_nothing_that_is_looked_at_for_garbage(self) -> None:
        gc.freeze()  # other tests' objects, all of which would be looked at each time, and after this test, too
        for one in ("a=1", "a<b", "1=1", "a IN('x')", "'x'=a", "a>=1.5", "-a=b", "NOT a", "a IS NULL"):
            whole = " OR ".join([one] * (MAX_LENGTH // (len(one) + 4) // 3))
            Sql92Filter(whole)  # whatever is made once is
            gc.collect()
            before = len(gc.get_objects())
            tracemalloc.start()
            kept = Sql92Filter(whole)
            gc.collect()
            size, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            self.assertLess(size, 40 * len(whole), one)
            self.assertLess(len(gc.get_objects()) - before, 20, one)
            self.assertEqual(kept.expression, whole)

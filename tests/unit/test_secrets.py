"""What somebody sends is compared with a secret in constant time, wherever that is done: an `==` ends at the first
byte that differs, and tells by its time how many were right."""

from __future__ import annotations

import ast
import re

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.test_architecture import PACKAGE

SECRET_LIKE = re.compile(r"signature|signing|secret|password")
"""In names of what isn't to be learnt, or is made of it. Those in capitals are names of fields."""
COMPARING = ("wire/signing.py", "metrics/livepage.py")
"""Modules that compare."""
COMPILED = PACKAGE / "kernel" / "_signatures.pyx"


def comparisons(source: str) -> list[str]:
    """Those by `==`, `in` and the like that a secret takes part in."""
    tree = ast.parse(source) if SECRET_LIKE.search(source) else ast.Module([], [])
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and not all(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops)
        and any(SECRET_LIKE.search(name) for each in (node.left, *node.comparators) for name in names(each))
    ]


def names(value: ast.expr) -> set[str]:
    """All in an expression, but for those of which the length alone counts."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "len":
        return set()
    return {node.id for node in ast.walk(value) if isinstance(node, ast.Name)} | {
        node.attr for node in ast.walk(value) if isinstance(node, ast.Attribute)
    }


def branches(source: str, function: str) -> list[str]:
    """The words in a function of a .pyx file by which it may end earlier, or compare by itself."""
    body = re.split(rf"^cdef .*\b{function}\(.*:\n", source, flags=re.MULTILINE)[1]
    body = re.split(r"^\S", body, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"\b(?:if|elif|while|break|continue|return|and|or|memcmp|strcmp|strncmp)\b", body)


class SecretTests(SynchronousTestCase):
    def test_none_is_compared_otherwise(self) -> None:
        found = {
            str(path.relative_to(PACKAGE)): each
            for path in PACKAGE.rglob("*.py")
            if (each := comparisons(path.read_text()))
        }
        self.assertEqual(found, {})

    def test_those_that_compare_do_so_in_constant_time(self) -> None:
        for module in COMPARING:
            self.assertIn("compare_digest(", (PACKAGE / module).read_text(), module)

    def test_the_compiled_one_has_one_way_through(self) -> None:
        source = COMPILED.read_text()
        self.assertEqual(branches(source, "is_text_of"), ["return"])
        self.assertEqual(source.count("if not is_text_of("), 1)

    def test_an_equals_sign_is_noticed(self) -> None:
        for line in (
            "given == self.signature(content)",
            "b2a_base64(signing.finalize()) != given",
            "encoded.strip() == self._secret",
            "text in (account.password,)",
        ):
            self.assertEqual(len(comparisons(line)), 1, line)
        for line in (
            "password is None",
            "name != SECRET_KEY",
            "len(secret) < 6",
            "compare_digest(secret, x)",
        ):
            self.assertEqual(comparisons(line), [], line)
        early = (
            "cdef bint f(x):\n    if memcmp(x, y, 3):\n        return False\n    return True\n\n\ndef g():\n"
        )
        self.assertEqual(branches(early, "f"), ["if", "memcmp", "return", "return"])

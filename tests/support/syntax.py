"""Walks over syntax trees for the tests that read the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Those of a module, however deep; not what expressions are made of, which is nine tenths of the nodes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt):
            yield node
        # None stands within an expression.
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from statements(node)

"""What is wrong with an expression, and where."""

from __future__ import annotations


class Sql92Error(ValueError):
    """An expression that RocketMQ refuses too, or that exceeds the limits here. Line and column count from 1, as
    an editor shows them.

    - reason: for people
    - text: the expression
    - position: of the mistake, in characters
    """

    def __init__(self, reason: str, text: str, position: int) -> None:
        self.reason = reason
        self.position = position
        self.line = text.count("\n", 0, position) + 1
        self.column = position - (text.rfind("\n", 0, position) + 1) + 1
        super().__init__(f"Invalid MessageSelector: {reason} at line {self.line}, column {self.column}")

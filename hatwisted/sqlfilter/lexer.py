"""The words of a filter expression, one at a time.

The words are those of 4.9.7's SelectorParser: keywords in any case, names of letters, digits, `_` and `$`,
decimal numbers with an optional L, floating-point numbers, texts in single quotes (`''` is one quote), and
the marks. The longest word wins. Between them may be white space, `/* */`, and `--` to the end of a line that
has one (in the last line, `--` is two minus signs).

Words are made on demand, because 4.9.7 never looks beyond the word that follows a complete expression:
reading the whole text first would refuse what it accepts.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from hatwisted.sqlfilter.errors import Sql92Error

KEYWORDS: Final = frozenset("NOT AND OR BETWEEN IN TRUE FALSE NULL IS".split())

NAME: Final = "name"
DECIMAL: Final = "decimal"
FLOAT: Final = "float"
TEXT: Final = "text"
END: Final = "end"

_SKIPPED: Final = re.compile(r"(?:[ \t\n\r\f]++|--[^\n\r]*+(?:\r\n|\n|\r)|/\*(?s:.*?)\*/)*+")
_SKIPPED_IN_LAST_LINE: Final = re.compile(r"(?:[ \t\f]++|/\*(?s:.*?)\*/)*+")
"""Without a look for line ends that can't be there: each would go through all that is left."""
_WORD: Final = re.compile(
    r"""(?P<float> [0-9]+ \. [0-9]* (?:[eE][+-]?[0-9]+)?
                 | \. [0-9]+ (?:[eE][+-]?[0-9]+)?
                 | [0-9]+ [eE][+-]?[0-9]+ )
      | (?P<decimal> 0 | [1-9][0-9]*[lL]? )
      | (?P<text> '(?:''|[^'])*' )
      | (?P<name> [A-Za-z_$][A-Za-z0-9_$]* )
      | (?P<mark> <> | >= | <= | [=<>(),+-] )""",
    re.VERBOSE,
)
_SHOWN: Final = 40
"""Characters of a word that an error quotes."""


class Word(NamedTuple):
    """kind: one of the constants above, a keyword in capitals, or the mark itself; position: characters
    before it."""

    kind: str
    text: str
    position: int

    def __str__(self) -> str:
        return "the end" if self.kind == END else repr(self.text[:_SHOWN])


class Lexer:
    """Gives the words of `text` in turn, then END forever."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._position = 0
        self._last_line = max(text.rfind("\n"), text.rfind("\r")) + 1

    def next(self) -> Word:
        """Raises Sql92Error where no word can begin."""
        pattern = _SKIPPED if self._position < self._last_line else _SKIPPED_IN_LAST_LINE
        skipped = pattern.match(self.text, self._position)
        assert skipped is not None, "it also matches the empty string"
        position = skipped.end()
        if position == len(self.text):
            self._position = position
            return Word(END, "", position)
        found = _WORD.match(self.text, position)
        if found is None:
            raise Sql92Error(f"{self.text[position]!r} can't start a word", self.text, position)
        self._position = found.end()
        kind, text = found.lastgroup, found[0]
        if kind == "mark":
            return Word(text, text, position)
        if kind == NAME and text.upper() in KEYWORDS:
            return Word(text.upper(), text, position)
        return Word(kind or "", text, position)

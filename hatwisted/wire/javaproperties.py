r"""Java's `.properties` syntax, with the line of every entry.

A line-oriented reader after java.util.Properties.load: ISO-8859-1 text; `#` or `!` as the first visible
character makes a comment; a line that ends in an odd number of backslashes continues on the next one, whose
leading blanks are dropped; the key ends at the first unescaped `=`, `:` or blank; `\t \n \r \f \uXXXX` are
escapes and any other escaped character stands for itself. A repeated key: the last one wins.

ISO-8859-1 and not UTF-8, because RocketMQ reads its files that way: a broker name in UTF-8 has to become the
same (mangled) name here, or the two wouldn't form one group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

ENCODING = "iso-8859-1"

TLS_FILE = "/etc/rocketmq/tls.properties"
"""RocketMQ's TLS properties, of servers and clients."""

MAX_LINES = 10_000
"""Lines of a file, and of what an administrator sends: there are some 250 keys. They are read in 15 ms."""

BLANK = " \t\f"
LINE_END = re.compile("\r\n|\r|\n")
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_PLAIN_ENTRY = re.compile(rf"([^=:{BLANK}]*+)[{BLANK}]*+[=:]?[{BLANK}]*+(.*)", re.DOTALL)
"""Of a text without escapes; it always matches. Thousands of lines may come in one request."""
_ESCAPED_ENTRY = re.compile(rf"((?:[^\\=:{BLANK}]++|\\.)*+\\?)[{BLANK}]*+[=:]?[{BLANK}]*+(.*)", re.DOTALL)
"""The same of one with escapes."""
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.|\Z)", re.DOTALL)


class MalformedProperties(ValueError):
    """Not a properties file; the message says where and why."""


class Entry(NamedTuple):
    """One `key = value`; `line` counts from 1 and is where the entry begins."""

    key: str
    value: str
    line: int


def parse_properties(data: bytes, name: str) -> list[Entry]:
    """All entries of a file's bytes in file order, repeated keys included. Raises MalformedProperties for a
    malformed `\\uXXXX`, the only thing this syntax can get wrong, and for too many lines.

    - data: of the file
    - name: for error messages
    """
    return [_entry(text, line, name) for line, text in _logical_lines(data.decode(ENCODING), name)]


def ends_in_open_backslash(line: str) -> bool:
    """Does the line go on in the next one?"""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _logical_lines(text: str, name: str) -> Iterator[tuple[int, str]]:
    """(line number, text without leading blanks) of every entry, continuation lines joined."""
    pieces: list[str] = []
    start = 0
    lines = LINE_END.split(text, MAX_LINES)
    if len(lines) > MAX_LINES and lines[-1]:
        raise MalformedProperties(f"{name}:{MAX_LINES + 1}: more than {MAX_LINES} lines")
    for number, raw in enumerate(lines, 1):
        line = raw.lstrip(BLANK)
        if not pieces:
            if not line or line[0] in "#!":
                continue
            start = number
        if line[-1:] == "\\" and ends_in_open_backslash(line):
            # While it is empty it isn't an entry yet: the next line may still be a comment.
            pieces += [line[:-1]] if pieces or len(line) > 1 else []
        elif pieces:
            yield start, "".join([*pieces, line])
            pieces = []
        else:
            yield start, line
    if pieces:
        yield start, "".join(pieces)


def _entry(text: str, line: int, name: str) -> Entry:
    if "\\" not in text:
        found = _PLAIN_ENTRY.match(text)
        assert found is not None
        return Entry(found[1], found[2], line)
    found = _ESCAPED_ENTRY.match(text)
    assert found is not None
    where = f"{name}:{line}"
    return Entry(_unescape(found[1], where), _unescape(found[2], where), line)


def _unescape(text: str, where: str) -> str:
    def replacement(match: re.Match[str]) -> str:
        escape = match.group(1)
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        if escape == "u":
            raise MalformedProperties(
                f"{where}: malformed \\uXXXX escape, four hexadecimal digits must follow \\u"
            )
        return ESCAPES.get(escape, escape)

    if "\\" not in text:
        return text
    text = _ESCAPED.sub(replacement, text)
    try:
        text.encode()
    except UnicodeEncodeError:
        # Java's text is UTF-16: two escapes may be the halves of one character; half of one can't be kept.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text

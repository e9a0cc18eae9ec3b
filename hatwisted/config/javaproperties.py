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
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hatwisted.config.errors import ConfigError

ENCODING = "iso-8859-1"

MAX_LINES = 10_000
"""Lines of a file, and of what an administrator sends: there are some 250 keys. They are read in 15 ms."""

_BLANK = " \t\f"
_LINE_END = re.compile("\r\n|\r|\n")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE_OF = {character: "\\" + letter for letter, character in _ESCAPES.items()} | {"\\": "\\\\"}
_NOT_PRINTED = re.compile(r"[^ -~]")
_PLAIN_ENTRY = re.compile(rf"([^=:{_BLANK}]*+)[{_BLANK}]*+[=:]?[{_BLANK}]*+(.*)", re.DOTALL)
"""Of a text without escapes; it always matches. Thousands of lines may come in one request."""
_ESCAPED_ENTRY = re.compile(rf"((?:[^\\=:{_BLANK}]++|\\.)*+\\?)[{_BLANK}]*+[=:]?[{_BLANK}]*+(.*)", re.DOTALL)
"""The same of one with escapes."""
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.|\Z)", re.DOTALL)


class Entry(NamedTuple):
    """One `key = value`; `line` counts from 1 and is where the entry begins."""

    key: str
    value: str
    line: int


def parse_properties(data: bytes, name: str) -> list[Entry]:
    """All entries of a file's bytes in file order, repeated keys included; `name` is for error messages.

    Raises ConfigError for a malformed `\\uXXXX`, the only thing this syntax can get wrong, and for too many lines.
    """
    return [_entry(text, line, name) for line, text in _logical_lines(data.decode(ENCODING), name)]


def check_text(data: bytes, name: str) -> None:
    """Refuse what no operator has typed: a file with NUL or other control bytes is damaged, or a different file.

    Java reads on and makes it part of a key or a path. Raises ConfigError with line and byte of the first
    one; `name` as in `parse_properties`.
    """
    found = _CONTROL.search(data)
    if found is None:
        return
    line = len(_LINE_END.findall(data[: found.start()].decode(ENCODING))) + 1
    raise ConfigError(
        f"{name}:{line}: byte {found.start()} of the file is 0x{data[found.start()]:02x}, a control "
        "character: this is not a properties file, or it is damaged; allowed: text, tabs and line ends"
    )


def format_property(key: str, value: str) -> str:
    """`key=value`, escaped so that `parse_properties` returns the pair, in ASCII as Java writes it: it's the same
    in each encoding, and `check_text` has nothing against it."""
    return f"{_escape(key, '=:#! ')}={_escape(value, '')}"


def with_properties(data: bytes, changes: Mapping[str, str]) -> bytes:
    """The file's bytes with these keys set: in the place of a key's last entry, or at the end. Everything else
    stays as it is, except entries that a later one of the same key overrides."""
    lines = _LINE_END.split(data.decode(ENCODING).rstrip("\r\n"))
    missing = dict(changes)
    for entry in reversed(parse_properties(data, "")):
        if entry.key not in changes:
            continue
        first = last = entry.line - 1
        while _ends_in_open_backslash(lines[last]) and last + 1 < len(lines):
            last += 1
        value = missing.pop(entry.key, None)
        lines[first : last + 1] = [] if value is None else [format_property(entry.key, value)]
    if missing and _ends_in_open_backslash(lines[-1]):
        lines.append("")  # or the first of them would be the rest of that value
    lines += [format_property(key, value) for key, value in missing.items()]
    text = "\n".join(lines).lstrip("\n") + "\n"
    return text.encode(ENCODING)


def _logical_lines(text: str, name: str) -> Iterator[tuple[int, str]]:
    """(line number, text without leading blanks) of every entry, continuation lines joined."""
    pieces: list[str] = []
    start = 0
    lines = _LINE_END.split(text, MAX_LINES)
    if len(lines) > MAX_LINES and lines[-1]:
        raise ConfigError(f"{name}:{MAX_LINES + 1}: more than {MAX_LINES} lines")
    for number, raw in enumerate(lines, 1):
        line = raw.lstrip(_BLANK)
        if not pieces:
            if not line or line[0] in "#!":
                continue
            start = number
        if line[-1:] == "\\" and _ends_in_open_backslash(line):
            # While it is empty it isn't an entry yet: the next line may still be a comment.
            pieces += [line[:-1]] if pieces or len(line) > 1 else []
        elif pieces:
            yield start, "".join([*pieces, line])
            pieces = []
        else:
            yield start, line
    if pieces:
        yield start, "".join(pieces)


def _ends_in_open_backslash(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


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
            raise ConfigError(f"{where}: malformed \\uXXXX escape, four hexadecimal digits must follow \\u")
        return _ESCAPES.get(escape, escape)

    if "\\" not in text:
        return text
    text = _ESCAPED.sub(replacement, text)
    try:
        text.encode()
    except UnicodeEncodeError:
        # Java's text is UTF-16: two escapes may be the halves of one character; half of one can't be kept.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _escape(text: str, special: str) -> str:
    escaped = "".join(_ESCAPE_OF.get(c) or ("\\" + c if c in special else c) for c in text)
    escaped = _NOT_PRINTED.sub(_in_units, escaped)
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _in_units(character: re.Match[str]) -> str:
    """As Java's UTF-16: two escapes for a character beyond the first 65,536."""
    units = character[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

"""Java's `.properties` syntax as a configuration has it: what is refused, and how entries are written.

`wire` reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hatwisted.config.errors import ConfigError
from hatwisted.wire import javaproperties
from hatwisted.wire.javaproperties import (
    ENCODING,
    ESCAPES,
    LINE_END,
    Entry,
    MalformedProperties,
    ends_in_open_backslash,
)

_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_ESCAPE_OF = {character: "\\" + letter for letter, character in ESCAPES.items()} | {"\\": "\\\\"}
_NOT_PRINTED = re.compile(r"[^ -~]")


def parse_properties(data: bytes, name: str) -> list[Entry]:
    """All entries of a file's bytes, as `wire` reads them. Raises ConfigError.

    - data: of the file
    - name: for error messages
    """
    try:
        return javaproperties.parse_properties(data, name)
    except MalformedProperties as error:
        raise ConfigError(str(error)) from None


def check_text(data: bytes, name: str) -> None:
    """Refuse what no operator has typed: a file with NUL or other control bytes is damaged, or a different file.

    Java reads on and makes it part of a key or a path. Raises ConfigError with line and byte of the first
    one; `name` as in `parse_properties`.
    """
    found = _CONTROL.search(data)
    if found is None:
        return
    line = len(LINE_END.findall(data[: found.start()].decode(ENCODING))) + 1
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
    lines = LINE_END.split(data.decode(ENCODING).rstrip("\r\n"))
    missing = dict(changes)
    for entry in reversed(parse_properties(data, "")):
        if entry.key not in changes:
            continue
        first = last = entry.line - 1
        while ends_in_open_backslash(lines[last]) and last + 1 < len(lines):
            last += 1
        value = missing.pop(entry.key, None)
        lines[first : last + 1] = [] if value is None else [format_property(entry.key, value)]
    if missing and ends_in_open_backslash(lines[-1]):
        lines.append("")  # or the first of them would be the rest of that value
    lines += [format_property(key, value) for key, value in missing.items()]
    text = "\n".join(lines).lstrip("\n") + "\n"
    return text.encode(ENCODING)


def _escape(text: str, special: str) -> str:
    escaped = "".join(_ESCAPE_OF.get(c) or ("\\" + c if c in special else c) for c in text)
    escaped = _NOT_PRINTED.sub(_in_units, escaped)
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _in_units(character: re.Match[str]) -> str:
    """As Java's UTF-16: two escapes for a character beyond the first 65,536."""
    units = character[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

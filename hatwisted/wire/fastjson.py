"""The JSON dialect of fastjson 1.2, which RocketMQ writes into its config files and some remoting bodies.

Three things aren't JSON: integer keys without quotes (`{0:20,1:20}`), objects as keys (maps keyed by a
message queue), and the pretty format's own line breaks. Maps that are read always have string keys: `{0:5}`
and `{"0":5}` give the same dict, an object key becomes its canonical JSON text (fields sorted, no spaces).
When writing, the type of a key decides: int keys are bare in the pretty format, a Struct as key
is written as an object.

Reading tries three ways, cheap ones first: as plain JSON; as JSON after quoting bare integer keys (one
regular expression, so that a master's megabyte of consumer offsets costs milliseconds); with a small parser for
the rest. Rejected: the small parser for all (30 times slower), and a regular expression for object keys too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

MAX_DEPTH: Final = 64
"""Levels of nesting the small parser follows; RocketMQ's own data has 5."""
MAX_SLOW: Final = 4 << 20
"""Characters the small parser reads, which takes a few seconds at worst: twice a map of 20,000 queues, the largest
text that needs it."""
MAX_SLOW_REQUEST: Final = 16 << 10
"""The same of a request's body, 15 ms: no request has objects as keys, and anybody may send one."""
MAX_BARE_REQUEST: Final = 256 << 10
"""Characters of a request's body that the regular expression looks through, 30 ms: few requests have integers as
keys, and large ones none."""
MAX_VALUES_REQUEST: Final = 1 << 16
"""Values of a request, which take up to a microsecond each, however short they are. A client that locks 20,000
queues sends 60,000."""

# All repetitions are possessive, and an unclosed string extends to the end: nothing is read twice.
_CHARACTERS: Final = r'"(?:[^"\\]++|\\.)*+'
_BARE_KEY: Final = re.compile(rf'({_CHARACTERS}(?:"|\\?\Z))|([{{,]\s*+)(-?\d++)(?=\s*+:)', re.DOTALL)
_TOKEN: Final = re.compile(
    rf'\s*+(?:(?P<text>{_CHARACTERS}")|(?P<mark>[{{}}\[\]:,])|(?P<plain>[^\s{{}}\[\]:,"]++))', re.DOTALL
)
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode
_encode_sorted: Final = msgspec.json.Encoder(order="deterministic").encode
_PLAIN: Final = frozenset((str, int, bool, float))
"""Types of values that are written alike in every format, and that most values have."""


class FastjsonError(ValueError):
    """Neither JSON nor fastjson's dialect; the message says where reading stopped."""


def loads_request(data: bytes) -> Any:
    """What anybody may have sent, as `loads`: no more than takes some milliseconds."""
    # A list of tags has separators of its own.
    if data.count(b",") + data.count(b"||") >= MAX_VALUES_REQUEST:
        raise FastjsonError(f"more than {MAX_VALUES_REQUEST} values are too many for a request")
    return loads(data, MAX_SLOW_REQUEST, MAX_BARE_REQUEST)


def loads(data: bytes | str, most_slow: int = MAX_SLOW, most_bare: int | None = None) -> Any:
    """Dicts with string keys, lists, strings, numbers, booleans, None. FastjsonError for anything else.

    - data: the text
    - most_slow: characters that the small parser reads
    - most_bare: characters that the regular expression looks through; None: all that there are
    """
    try:
        return _decode(data)
    except (ValueError, RecursionError):
        pass
    try:
        text = data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError as error:
        raise FastjsonError(f"not UTF-8 at byte {error.start}") from None
    if most_bare is not None and len(text) > most_bare:
        raise _too_long(text)
    try:
        return _decode(_BARE_KEY.sub(lambda found: found[1] or f'{found[2]}"{found[3]}"', text))
    except (ValueError, RecursionError):
        return _Parser(text, most_slow).parse()


def _too_long(text: str) -> FastjsonError:
    return FastjsonError(f"not JSON, and {len(text)} characters are too many for its dialects")


class _Parser:
    """Recursive descent over tokens, for what the regular expression can't fix."""

    def __init__(self, text: str, most: int) -> None:
        if len(text) > most:
            raise _too_long(text)
        self._text = text
        self._in_key = False
        self._tokens = self._tokenize()
        self._next = next(self._tokens)

    def _tokenize(self) -> Iterator[tuple[str, str, int]]:
        position, end = 0, len(self._text.rstrip())
        while position < end:
            found = _TOKEN.match(self._text, position)
            if found is None:
                raise FastjsonError(f"unreadable text at character {position}")
            kind = found.lastgroup or ""
            yield kind, found[kind], position
            position = found.end()
        while True:
            yield "end", "", position

    def parse(self) -> Any:
        value = self._value(0)
        if self._next[0] != "end":
            raise self._unexpected("the end")
        return value

    def _advance(self) -> str:
        text = self._next[1]
        self._next = next(self._tokens)
        return text

    def _unexpected(self, wanted: str) -> FastjsonError:
        kind, text, position = self._next
        found = "the end" if kind == "end" else repr(text[:40])
        return FastjsonError(f"{found} at character {position} where {wanted} should be")

    def _take(self, mark: str) -> None:
        if self._next[:2] != ("mark", mark):
            raise self._unexpected(repr(mark))
        self._advance()

    def _value(self, depth: int) -> Any:
        kind, text, _ = self._next
        if depth > MAX_DEPTH:
            raise FastjsonError(f"nested deeper than {MAX_DEPTH} levels")
        if text == "{" and kind == "mark":
            return self._object(depth)
        if text == "[" and kind == "mark":
            return self._array(depth)
        if kind not in ("text", "plain"):
            raise self._unexpected("a value")
        try:
            value = _decode(text)
        except ValueError:
            raise self._unexpected("a value") from None
        self._advance()
        return value

    def _object(self, depth: int) -> dict[str, Any]:
        self._take("{")
        pairs: dict[str, Any] = {}
        while self._next[1] != "}" or self._next[0] != "mark":
            key = self._key(depth + 1)
            self._take(":")
            pairs[key] = self._value(depth + 1)
            if self._next[:2] != ("mark", "}"):
                self._take(",")
        self._advance()
        return pairs

    def _key(self, depth: int) -> str:
        """The text of a key. Object keys inside object keys are refused: their escaped quotes would double at
        every level."""
        nested = self._next[0] == "mark"
        if nested and self._in_key:
            raise self._unexpected("a plain key within a key")
        self._in_key |= nested
        key = self._value(depth)
        self._in_key &= not nested
        return key if isinstance(key, str) else _encode_sorted(key).decode()

    def _array(self, depth: int) -> list[Any]:
        self._take("[")
        items: list[Any] = []
        while self._next[:2] != ("mark", "]"):
            items.append(self._value(depth + 1))
            if self._next[:2] != ("mark", "]"):
                self._take(",")
        self._advance()
        return items


def dumps_compact(value: Any) -> bytes:
    """Without spaces, integer keys quoted: every RocketMQ version reads it. Structs are objects.

    A Struct as a key (frozen, so that it can be one) is written as an object, the only form such maps have.
    """
    try:
        return _encode(value)
    except TypeError:  # msgspec refuses keys that aren't strings or numbers
        return _text(value, None)


def dumps_pretty(value: Any) -> bytes:
    """The way RocketMQ's config files look: tabs, no space after a colon, no final newline.

    Maps with integer keys are written on one line, the keys bare, and their closing brace on the next. Struct
    fields are sorted by name as fastjson sorts those of a class, and left out when None; dicts keep their
    order.
    """
    return _text(value, "\t")


def _text(value: Any, indent: str | None) -> bytes:
    pieces: list[str] = []
    _write(value, indent, 0, pieces)
    return "".join(pieces).encode()


def _write(value: Any, indent: str | None, depth: int, pieces: list[str]) -> None:
    """Add the text of `value`; no `indent` means compact. Tables have tens of thousands of values, and are
    written on the reactor's thread: hence no generators."""
    if type(value) in _PLAIN:
        pieces.append(_encode(value).decode())
    elif isinstance(value, msgspec.Struct):
        _write_pairs(_fields(value), indent, depth, pieces)
    elif isinstance(value, (dict, Mapping)):  # dict first: to ask the abstract class takes ten times as long
        _write_map(value, indent, depth, pieces)
    elif isinstance(value, (list, tuple, set, frozenset)):
        mark = "[" + _break(indent, depth + 1)
        for item in value:
            pieces.append(mark)
            _write(item, indent, depth + 1, pieces)
            mark = "," + _break(indent, depth + 1)
        pieces.append(_break(indent, depth) + "]" if value else "[]")
    else:
        pieces.append(_encode(value).decode())


def _write_map(value: Mapping[Any, Any], indent: str | None, depth: int, pieces: list[str]) -> None:
    kinds = {*map(type, value)}
    if indent is not None and kinds == {int} == {*map(type, value.values())}:
        # Consumer offsets are thousands of these, written every few seconds: joined in one go.
        pairs = ",".join([f"{key}:{item}" for key, item in value.items()])
        pieces.append("{" + pairs + _break(indent, depth) + "}")
    elif kinds <= {str}:
        named = [(_encode(key).decode(), item) for key, item in value.items()]
        _write_pairs(named, indent, depth, pieces)
    else:
        _write_keys(value, indent, depth, pieces)


def _write_pairs(pairs: list[tuple[str, Any]], indent: str | None, depth: int, pieces: list[str]) -> None:
    """Members of an object.

    - pairs: each name, as it is written, with its value
    - indent, depth: see `_write`
    - pieces: gets their text
    """
    inner = _break(indent, depth + 1)
    mark = "{" + inner
    for name, item in pairs:
        if type(item) in _PLAIN:
            pieces.append(f"{mark}{name}:{_encode(item).decode()}")
        else:
            pieces.append(f"{mark}{name}:")
            _write(item, indent, depth + 1, pieces)
        mark = "," + inner
    pieces.append(_break(indent, depth) + "}" if pairs else "{}")


def _write_keys(value: Mapping[Any, Any], indent: str | None, depth: int, pieces: list[str]) -> None:
    """A map with keys that aren't text."""
    mark, inner = "{", _break(indent, depth + 1)
    for key, item in value.items():
        if isinstance(key, str):
            pieces.append(mark + inner + _encode(key).decode())
        elif isinstance(key, int):
            pieces.append(f"{mark}{key}" if indent is not None else f'{mark}"{key}"')
        else:
            pieces.append(mark)
            _write(key, None, 0, pieces)
        pieces.append(":")
        _write(item, indent, depth + 1, pieces)
        mark = ","
    pieces.append(_break(indent, depth) + "}")


def _break(indent: str | None, depth: int) -> str:
    return "" if indent is None else "\n" + indent * depth


def _fields(value: msgspec.Struct) -> list[tuple[str, Any]]:
    """A struct's fields under the names that are written, in alphabetical order; None is left out as fastjson
    does."""
    pairs = [(name, getattr(value, attribute)) for attribute, name in _names(type(value))]
    return [pair for pair in pairs if pair[1] is not None and pair[1] is not msgspec.UNSET]


@cache
def _names(struct: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """(attribute, name in quotes) by name. Cached per class: looking them up costs 0.1 ms."""
    fields = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    ordered = sorted(fields, key=lambda field: field[1])
    return tuple((attribute, _encode(name).decode()) for attribute, name in ordered)

"""The JSON dialect of fastjson 1.2, which RocketMQ writes into its config files and some remoting bodies.

Three things aren't JSON: integer keys without quotes (`{0:20,1:20}`), objects as keys (maps keyed by a
message queue), and the pretty format's own line breaks. Maps that are read always have string keys: `{0:5}`
and `{"0":5}` give the same dict, an object key becomes its canonical JSON text (fields sorted, no spaces).
When writing, the type of a key decides: int keys are bare in the pretty format, a Struct as key
is written as an object.

Reading tries three ways, cheap ones first: as plain JSON; as JSON after quoting bare integer keys (one
regular expression, so that a master's megabyte of consumer offsets costs milliseconds); with a small parser for
the rest. Rejected: the small parser for all (a dozen times slower), and a regular expression for object keys too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import Any, Final

import msgspec

MAX_DEPTH: Final = 64
"""Levels of nesting the small parser follows; RocketMQ's own data has 5."""
MAX_SLOW: Final = 4 << 20
"""Characters the small parser reads, which takes a few seconds at worst: twice a map of 20,000 queues, the largest
text that needs it."""
MAX_SLOW_REQUEST: Final = 16 << 10
"""The same of a request's body, 5 ms: no request has objects as keys, and anybody may send one."""
MAX_BARE_REQUEST: Final = 256 << 10
"""Characters of a request's body that the regular expression looks through, 30 ms: few requests have integers as
keys, and large ones none."""
MAX_VALUES_REQUEST: Final = 1 << 16
"""Values of a request, which take up to a microsecond each, however short they are. A client that locks 20,000
queues sends 60,000."""

# All repetitions are possessive, and an unclosed string extends to the end: nothing is read twice.
_CHARACTERS: Final = r'"(?:[^"\\]++|\\.)*+'
_BARE_KEY: Final = re.compile(rf'({_CHARACTERS}(?:"|\\?\Z))|([{{,]\s*+)(-?\d++)(?=\s*+:)', re.DOTALL)
_TOKEN: Final = re.compile(rf'{_CHARACTERS}(?:"|\\?\Z)|[{{}}\[\]:,]|[^\s{{}}\[\]:,"]++', re.DOTALL)
"""A text, a mark, a number or a word."""
_BEGINS: Final = frozenset("{[")
_ENDS: Final = frozenset("}]")
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
    if data.count(b",") + (data.count(b"||") if b"|" in data else 0) >= MAX_VALUES_REQUEST:
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
        self._tokens = [*_TOKEN.findall(text), ""]

    def parse(self) -> Any:
        value, end = self._value(0, 0, False)
        if self._tokens[end]:
            raise self._unexpected(end, "the end")
        return value

    def _unexpected(self, index: int, wanted: str) -> FastjsonError:
        token = self._tokens[index]
        found = repr(token[:40]) if token else "the end"
        return FastjsonError(f"{found} at character {self._position(index)} where {wanted} should be")

    def _position(self, index: int) -> int:
        found = next(islice(_TOKEN.finditer(self._text), index, None), None)
        return len(self._text.rstrip()) if found is None else found.start()

    # What reads something is given the index of its first token, and gives it with the index behind it. in_key:
    # inside of a key no object is one, its escaped quotes would double at every level.

    def _value(self, index: int, depth: int, in_key: bool) -> tuple[Any, int]:
        token = self._tokens[index]
        if token not in _BEGINS:
            return self._plain(index), index + 1
        # Whatever is in it is a level deeper.
        if depth > MAX_DEPTH or (depth == MAX_DEPTH and self._tokens[index + 1] not in _ENDS):
            raise FastjsonError(f"nested deeper than {MAX_DEPTH} levels")
        read = self._object if token == "{" else self._array
        return read(index + 1, depth + 1, in_key)

    def _plain(self, index: int) -> Any:
        try:
            return _decode(self._tokens[index])
        except ValueError:
            raise self._unexpected(index, "a value") from None

    def _object(self, index: int, depth: int, in_key: bool) -> tuple[dict[str, Any], int]:
        tokens = self._tokens
        pairs: dict[str, Any] = {}
        while tokens[index] != "}":
            if tokens[index] in _BEGINS:
                if in_key:
                    raise self._unexpected(index, "a plain key within a key")
                key, index = self._value(index, depth, True)
            else:
                key = self._plain(index)
                index += 1
            if tokens[index] != ":":
                raise self._unexpected(index, "':'")
            name = key if isinstance(key, str) else _encode_sorted(key).decode()
            if tokens[index + 1] in _BEGINS:
                pairs[name], index = self._value(index + 1, depth, in_key)
            else:
                pairs[name] = self._plain(index + 1)
                index += 2
            if tokens[index] == ",":
                index += 1
            elif tokens[index] != "}":
                raise self._unexpected(index, "','")
        return pairs, index + 1

    def _array(self, index: int, depth: int, in_key: bool) -> tuple[list[Any], int]:
        tokens = self._tokens
        items: list[Any] = []
        while tokens[index] != "]":
            if tokens[index] in _BEGINS:
                item, index = self._value(index, depth, in_key)
            else:
                item = self._plain(index)
                index += 1
            items.append(item)
            if tokens[index] == ",":
                index += 1
            elif tokens[index] != "]":
                raise self._unexpected(index, "','")
        return items, index + 1


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

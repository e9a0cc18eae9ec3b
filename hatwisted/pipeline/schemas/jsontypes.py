"""JSON Schema as types: of Python, by which msgspec checks and decodes, and of Arrow, for the column.

What a schema says is enforced, as far as msgspec can; a keyword that would have to be ignored is refused, since a
row would land as valid that isn't. Annotations (title, description, ...) are no rules and are left aside, as JSON
Schema itself leaves most values of `format`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Final, Literal

import msgspec
import pyarrow as pa
from msgspec import Meta

from hatwisted.pipeline.schemas.values import DEEPEST, BadSchema, check_names

INT64: Final = (-(1 << 63), (1 << 63) - 1)
ANNOTATIONS: Final = frozenset(
    (
        *("$schema", "$id", "$comment", "$anchor", "$defs", "definitions", "title", "description", "default"),
        *("examples", "example", "deprecated", "readOnly", "writeOnly", "contentMediaType"),
    )
)
LOWER: Final = {"minimum": "ge", "exclusiveMinimum": "gt"}
UPPER: Final = {"maximum": "le", "exclusiveMaximum": "lt"}
TEXT_RULES: Final = {"minLength": "min_length", "maxLength": "max_length", "pattern": "pattern"}
LIST_RULES: Final = {"minItems": "min_length", "maxItems": "max_length"}
MAP_RULES: Final = {"minProperties": "min_length", "maxProperties": "max_length"}


@dataclass(frozen=True)
class Typed:
    """One field's type: what msgspec decodes into, and the column's. `null`: may it be null?"""

    python: Any
    arrow: pa.DataType
    null: bool = False

    @property
    def annotation(self) -> Any:
        # msgspec has no union with unread JSON, which may be null anyway.
        return self.python | None if self.null and self.python is not msgspec.Raw else self.python


def struct_type(fields: Mapping[str, tuple[Typed, bool]], at: str, *, closed: bool = False) -> Typed:
    """An object with these fields.

    - fields: by name, each with whether it has to be there
    - at: where in the schema, for errors
    - closed: is another field an error?

    Raises BadSchema.
    """
    check_names(fields, at)
    if not fields:
        raise BadSchema(f"{at}: has no fields, so there's nothing for a column")
    annotations: list[Any] = []
    # Required ones first, as a dataclass has them.
    for number, (typed, required) in sorted(enumerate(fields.values()), key=lambda found: not found[1][1]):
        if required:
            annotations.append((f"f{number}", typed.annotation))
        elif typed.python is msgspec.Raw:
            annotations.append((f"f{number}", typed.python, msgspec.Raw(b"null")))
        else:
            annotations.append((f"f{number}", typed.python | None, None))
    python = msgspec.defstruct(
        "Value",
        annotations,
        rename={f"f{number}": name for number, name in enumerate(fields)},
        forbid_unknown_fields=closed,
    )
    return Typed(python, pa.struct([pa.field(name, typed.arrow) for name, (typed, _) in fields.items()]))


def struct_of(schema: Mapping[str, Any], name: str) -> Typed:
    """The type of a body.

    - schema: a JSON Schema
    - name: of it, for errors

    Raises BadSchema.
    """
    found = _Reader(schema, name).read(schema, name, ())
    if not pa.types.is_struct(found.arrow):
        raise BadSchema(f"{name}: has to be an object with properties")
    return found


class _Reader:
    """Of one schema, to whose parts it may refer."""

    def __init__(self, root: Mapping[str, Any], name: str) -> None:
        self._root = root
        self._name = name
        self._kinds: Mapping[str, Callable[[Mapping[str, Any], str, tuple[str, ...]], Typed]] = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "integer": self._integer,
            "number": self._number,
            "boolean": self._boolean,
        }

    def read(self, schema: Any, at: str, through: tuple[str, ...]) -> Typed:
        """One schema's type.

        - schema: the part
        - at: where it is
        - through: references and levels on the way here
        """
        if schema is True or schema == {}:
            return Typed(msgspec.Raw, pa.string(), True)
        if not isinstance(schema, Mapping):
            raise BadSchema(f"{at}: isn't a schema")
        if len(through) > DEEPEST:
            raise BadSchema(f"{at}: is nested deeper than {DEEPEST} levels")
        rules = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
        if "$ref" in rules:
            return self._reference(rules, at, through)
        if "anyOf" in rules or "oneOf" in rules:
            return self._choice(rules, at, through)
        if "enum" in rules or "const" in rules:
            return _enum(rules, at)
        return self._plain(rules, at, through)

    def _reference(self, rules: Mapping[str, Any], at: str, through: tuple[str, ...]) -> Typed:
        target = rules["$ref"]
        _only(rules, ("$ref",), at)
        if target in through:
            raise BadSchema(f"{at}: {target} contains itself, and no column is endless: leave it out")
        found: Any = self._root
        for part in str(target).removeprefix("#").split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            found = found.get(part) if isinstance(found, Mapping) else None
        if not str(target).startswith("#") or found is None:
            raise BadSchema(f"{at}: $ref {target} isn't in this file: copy what it names into $defs")
        return self.read(found, at, (*through, str(target)))

    def _choice(self, rules: Mapping[str, Any], at: str, through: tuple[str, ...]) -> Typed:
        key = "anyOf" if "anyOf" in rules else "oneOf"
        _only(rules, (key,), at)
        choices = rules[key] if isinstance(rules[key], list) else []
        others = [choice for choice in choices if choice != {"type": "null"}]
        if len(others) != 1:
            raise BadSchema(f"{at}: {key} of several types is no column: use {{}}, which keeps the JSON text")
        found = self.read(others[0], at, (*through, key))
        return Typed(found.python, found.arrow, found.null or len(choices) > 1)

    def _plain(self, rules: Mapping[str, Any], at: str, through: tuple[str, ...]) -> Typed:
        kinds = rules.get("type", "object" if "properties" in rules else None)
        kinds = list(kinds) if isinstance(kinds, list) else [kinds]
        null = "null" in kinds
        others = [kind for kind in kinds if kind != "null"]
        if len(others) != 1 or others[0] not in self._kinds:
            raise BadSchema(
                f"{at}: type has to be one of {', '.join(self._kinds)}, with null beside it if need be;"
                " {} keeps the JSON text of anything"
            )
        found = self._kinds[others[0]](rules, at, through)
        return Typed(found.python, found.arrow, null)

    def _object(self, rules: Mapping[str, Any], at: str, through: tuple[str, ...]) -> Typed:
        more = rules.get("additionalProperties", True)
        if "properties" in rules:
            _only(rules, ("type", "properties", "required", "additionalProperties"), at)
            if not isinstance(more, bool):
                raise BadSchema(f"{at}: additionalProperties beside properties is true or false")
            required, properties = rules.get("required", []), rules["properties"]
            if not isinstance(properties, Mapping) or not isinstance(required, list):
                raise BadSchema(f"{at}: properties is an object and required a list")
            for name in required:
                if name not in properties:
                    raise BadSchema(f"{at}: requires {name}, which isn't among its properties")
            fields = {
                name: (self.read(part, f"{at}, {name}", (*through, "properties")), name in required)
                for name, part in properties.items()
            }
            return struct_type(fields, at, closed=not more)
        if isinstance(more, Mapping) and more:
            _only(rules, ("type", "additionalProperties", *MAP_RULES), at)
            item = self.read(more, f"{at}, additionalProperties", (*through, "additionalProperties"))
            python = _limited(dict[str, item.annotation], rules, MAP_RULES, at)  # type: ignore[name-defined]
            return Typed(python, pa.map_(pa.string(), item.arrow))
        _only(rules, ("type",), at)
        return Typed(msgspec.Raw, pa.string(), True)

    def _array(self, rules: Mapping[str, Any], at: str, through: tuple[str, ...]) -> Typed:
        _only(rules, ("type", "items", *LIST_RULES), at)
        item = self.read(rules.get("items", True), f"{at}, items", (*through, "items"))
        python = _limited(list[item.annotation], rules, LIST_RULES, at)  # type: ignore[name-defined]
        return Typed(python, pa.list_(pa.field("element", item.arrow)))

    def _string(self, rules: Mapping[str, Any], at: str, through: tuple[str, ...]) -> Typed:
        if rules.get("format") in ("date-time", "date"):
            _only(rules, ("type", "format"), at)
            if rules["format"] == "date":
                return Typed(date, pa.date32())
            return Typed(Annotated[datetime, Meta(tz=True)], pa.timestamp("us", "UTC"))
        if rules.get("contentEncoding") == "base64" or rules.get("format") == "byte":
            _only(rules, ("type", "format", "contentEncoding"), at)
            return Typed(bytes, pa.binary())
        _only(rules, ("type", "format", *TEXT_RULES), at)
        return Typed(_limited(str, rules, TEXT_RULES, at), pa.string())

    def _integer(self, rules: Mapping[str, Any], at: str, through: tuple[str, ...]) -> Typed:
        _only(rules, ("type", "format", "multipleOf", *LOWER, *UPPER), at)
        bounds = {LOWER[key]: rules[key] for key in LOWER if key in rules} or {"ge": INT64[0]}
        bounds |= {UPPER[key]: rules[key] for key in UPPER if key in rules} or {"le": INT64[1]}
        if "multipleOf" in rules:
            bounds["multiple_of"] = rules["multipleOf"]
        return Typed(_annotated(int, bounds, at), pa.int64())

    def _number(self, rules: Mapping[str, Any], at: str, through: tuple[str, ...]) -> Typed:
        _only(rules, ("type", "format", "multipleOf", *LOWER, *UPPER), at)
        return Typed(
            _limited(float, rules, {**LOWER, **UPPER, "multipleOf": "multiple_of"}, at), pa.float64()
        )

    def _boolean(self, rules: Mapping[str, Any], at: str, through: tuple[str, ...]) -> Typed:
        _only(rules, ("type",), at)
        return Typed(bool, pa.bool_())


def _enum(rules: Mapping[str, Any], at: str) -> Typed:
    """Of texts or of integers, and null."""
    _only(rules, ("type", "enum", "const"), at)
    values = rules.get("enum", [rules.get("const")])
    values = values if isinstance(values, list) else []
    others = [value for value in values if value is not None]
    kinds = {type(value) for value in others}
    if kinds not in ({str}, {int}):
        raise BadSchema(f"{at}: an enum is of texts, or of integers")
    arrow = pa.string() if kinds == {str} else pa.int64()
    return Typed(Literal[tuple(others)], arrow, len(others) < len(values))


def _limited(kind: Any, rules: Mapping[str, Any], names: Mapping[str, str], at: str) -> Any:
    """The type with those rules that there are.

    - kind: the type
    - rules: the schema's
    - names: msgspec's names of the rules
    - at: where in the schema
    """
    return _annotated(kind, {mine: rules[key] for key, mine in names.items() if key in rules}, at)


def _annotated(kind: Any, given: Mapping[str, Any], at: str) -> Any:
    if not given:
        return kind
    # As JSON has no other way to write 10.0, some schemas have it for an integer.
    whole = {
        name: int(value) if kind is int and isinstance(value, float) and value.is_integer() else value
        for name, value in given.items()
    }
    try:
        limited = Annotated[kind, Meta(**whole)]
        msgspec.json.Decoder(limited)
    except (TypeError, ValueError, OverflowError, re.error) as error:
        raise BadSchema(f"{at}: {error}") from None
    return limited


def _only(rules: Mapping[str, Any], known: Sequence[str], at: str) -> None:
    for key in rules:
        if key not in known:
            raise BadSchema(
                f"{at}: {key} can't be checked here, and rows that break it would land as valid:"
                " remove it from this copy of the schema"
            )

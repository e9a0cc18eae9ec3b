"""Avro bodies: a record by itself, with the single-object mark, or behind the header of Confluent's registry.

    avro                the datum alone, written with the schema that is given
    avro-single         C3 01, the fingerprint of the writer's schema (8 bytes), the datum
    avro-confluent      00, the registry's number of the writer's schema (4 bytes, big end first), the datum

A datum doesn't say which schema it was written with, and read with another one it may look right. So nothing may
follow it, and a fingerprint or number has to be that of a schema that is given. A file with several schemas is a
JSON object: by Confluent's number, or any names. The last one is the reader's, into which Avro's own rules of
evolution lead from the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType, fingerprint

from hatwisted.pipeline.schemas.values import (
    DEEPEST,
    MALFORMED,
    UNKNOWN,
    BadSchema,
    Misfit,
    check_names,
)

SINGLE_MARK: Final = b"\xc3\x01"
CONFLUENT_MARK: Final = b"\0"
FINGERPRINT_BYTES: Final = 8
NUMBER_BYTES: Final = 4
FRAMINGS: Final = ("avro", "avro-single", "avro-confluent")
SIMPLE: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
LOGICAL: Final[Mapping[str, pa.DataType]] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "uuid": pa.string(),
}
MAX_DIGITS: Final = 38
"""Of a decimal."""


class AvroDecoder:
    """Bodies of one framing.

    - text: a schema (.avsc), or an object of several
    - name: of the schema, for errors
    - framing: one of FRAMINGS

    Raises BadSchema.
    """

    def __init__(self, text: bytes, name: str, framing: str) -> None:
        schemas = _schemas(text, name)
        if framing == "avro" and len(schemas) > 1:
            raise BadSchema(
                f"{name}: a bare datum doesn't say which of several schemas it was written with: give one"
            )
        self._framing = framing
        self._reader = list(schemas.values())[-1]
        self._writers = _by_mark(schemas, name, framing)
        kind = _Types(name).of(self._reader, name, ())
        if not pa.types.is_struct(kind):
            raise BadSchema(f"{name}: has to be a record")
        self.type: pa.StructType = kind

    def decode(self, body: bytes) -> Mapping[str, Any]:
        writer, begin = self._writer(body)
        datum = BytesIO(body)
        datum.seek(begin)
        try:
            found: Any = fastavro.schemaless_reader(datum, writer, self._reader)
        except Exception as error:
            # Bytes that are no datum end in whatever the decoder stumbles over: it has no exception of its own.
            raise Misfit(MALFORMED, f"isn't this Avro: {type(error).__name__}: {error}") from None
        if datum.tell() != len(body):
            more = len(body) - datum.tell()
            raise Misfit(MALFORMED, f"isn't this Avro: {more} bytes follow: was another schema written?")
        value: Mapping[str, Any] = _plain(found)
        return value

    def _writer(self, body: bytes) -> tuple[Any, int]:
        """The schema that it was written with, and where the datum begins."""
        if self._framing == "avro":
            return self._reader, 0
        mark, size = (
            (SINGLE_MARK, FINGERPRINT_BYTES)
            if self._framing == "avro-single"
            else (CONFLUENT_MARK, NUMBER_BYTES)
        )
        begin = len(mark) + size
        if not body.startswith(mark) or len(body) < begin:
            raise Misfit(MALFORMED, f"doesn't begin with the header of {self._framing}")
        key = body[len(mark) : begin]
        if key not in self._writers:
            which = key.hex() if self._framing == "avro-single" else str(int.from_bytes(key, "big"))
            raise Misfit(UNKNOWN, f"was written with schema {which}, which isn't given")
        return self._writers[key], begin


def _schemas(text: bytes, name: str) -> dict[str, Any]:
    """By name, in the file's order; one alone has none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadSchema(f"{name}: isn't JSON: {error}") from None
    several = found if isinstance(found, dict) and "type" not in found else {"": found}
    if not several:
        raise BadSchema(f"{name}: has no schema")
    return {key: _parsed(schema, f"{name}, {key}" if key else name) for key, schema in several.items()}


def _parsed(schema: Any, name: str) -> Any:
    try:
        return fastavro.parse_schema(schema)
    except (SchemaParseException, UnknownType, ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadSchema(f"{name}: isn't an Avro schema: {error}") from None


def _by_mark(schemas: Mapping[str, Any], name: str, framing: str) -> dict[bytes, Any]:
    """Writers' schemas by what bodies have in front."""
    if framing == "avro-single":
        return {_fingerprint(schema): schema for schema in schemas.values()}
    if framing == "avro":
        return {}
    try:
        return {int(key).to_bytes(NUMBER_BYTES, "big"): schema for key, schema in schemas.items()}
    except (ValueError, OverflowError):
        raise BadSchema(
            f'{name}: avro-confluent needs the registry\'s numbers: {{"1": SCHEMA, "7": SCHEMA}}'
        ) from None


def _fingerprint(schema: Any) -> bytes:
    """CRC-64-AVRO of the canonical form, the small end first."""
    return bytes.fromhex(fingerprint(fastavro.schema.to_parsing_canonical_form(schema), "CRC-64-AVRO"))


class _Types:
    """Columns' types of Avro's."""

    def __init__(self, name: str) -> None:
        self._named: dict[str, Any] = {}
        self._name = name

    def of(self, schema: Any, at: str, inside: tuple[str, ...]) -> pa.DataType:
        """One type.

        - schema: Avro's
        - at: where it is
        - inside: names of the records around it
        """
        if len(inside) > DEEPEST:
            raise BadSchema(f"{at}: is nested deeper than {DEEPEST} levels")
        if isinstance(schema, list):
            return self._union(schema, at, inside)
        if isinstance(schema, str):
            return self._by_name(schema, at, inside)
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.of(kind, at, inside)
        if "logicalType" in schema:
            logical = _logical(schema, at)
            if logical is not None:
                return logical
        if kind in ("record", "error"):
            return self._record(schema, at, inside)
        if kind in ("enum", "fixed"):
            self._named[schema["name"]] = schema
            return pa.string() if kind == "enum" else pa.binary()
        if kind == "array":
            return pa.list_(pa.field("element", self._item(schema["items"], at, inside)))
        if kind == "map":
            return pa.map_(pa.string(), self._item(schema["values"], at, inside))
        return self._by_name(kind, at, inside)

    def _item(self, schema: Any, at: str, inside: tuple[str, ...]) -> pa.DataType:
        return self.of(schema, f"{at}, element", (*inside, "element"))

    def _union(self, choices: list[Any], at: str, inside: tuple[str, ...]) -> pa.DataType:
        others = [choice for choice in choices if choice != "null"]
        if len(others) != 1:
            raise BadSchema(f"{at}: a union of several types is no column")
        return self.of(others[0], at, inside)

    def _by_name(self, name: str, at: str, inside: tuple[str, ...]) -> pa.DataType:
        if name in SIMPLE:
            return SIMPLE[name]
        if name in inside:
            raise BadSchema(f"{at}: {name} contains itself, and no column is endless")
        if name not in self._named:
            # One of null alone, of which any number fits into no bytes.
            raise BadSchema(f"{at}: {name} is no column")
        return self.of(self._named[name], at, inside)

    def _record(self, schema: Any, at: str, inside: tuple[str, ...]) -> pa.DataType:
        self._named[schema["name"]] = schema
        names = [field["name"] for field in schema["fields"]]
        check_names(names, at)
        if not names:
            raise BadSchema(f"{at}: has no fields, so there's nothing for a column")
        around = (*inside, schema["name"])
        return pa.struct(
            [
                pa.field(field["name"], self.of(field["type"], f"{at}, {field['name']}", around))
                for field in schema["fields"]
            ]
        )


def _logical(schema: Mapping[str, Any], at: str) -> pa.DataType | None:
    """None for one that fastavro doesn't know: then the type below counts, as Avro says."""
    kind = schema["logicalType"]
    if kind in LOGICAL:
        return LOGICAL[kind]
    if kind == "decimal":
        digits, scale = int(schema["precision"]), int(schema.get("scale", 0))
        if not scale <= digits <= MAX_DIGITS:
            raise BadSchema(f"{at}: a decimal has at most {MAX_DIGITS} digits")
        return pa.decimal128(digits, scale)
    if str(kind).startswith(("time-", "local-timestamp-")):
        raise BadSchema(f"{at}: {kind} is no column: leave its logicalType out, and the number lands")
    return None


def _plain(value: Any) -> Any:
    """What pyarrow takes: no UUIDs."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if type(value).__name__ == "UUID" else value

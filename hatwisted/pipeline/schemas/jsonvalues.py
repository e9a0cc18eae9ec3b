"""JSON bodies: decoded and checked by msgspec, whose types are made from the schema once.

Field by field in Python was rejected for its speed, pyarrow's JSON reader because it fails for a whole batch
without telling the row, and takes for an integer what isn't one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa

from hatwisted.pipeline.schemas.jsontypes import struct_of
from hatwisted.pipeline.schemas.sparktypes import MAX_DIGITS, spark_struct
from hatwisted.pipeline.schemas.values import (
    MALFORMED,
    MISSING,
    UNKNOWN,
    WRONG_TYPE,
    WRONG_VALUE,
    BadSchema,
    Misfit,
)

BUILTIN: Final = (datetime, date, Decimal, bytes)
"""What pyarrow takes as it is."""
_TYPE: Final = re.compile(r"Expected `[^`]*`, got `")


class JsonDecoder:
    """Bodies that are JSON objects in UTF-8.

    - text: of the schema: a JSON Schema, or what Spark's `DataFrame.schema.json()` says
    - name: of the schema, for errors

    Raises BadSchema.
    """

    def __init__(self, text: bytes, name: str) -> None:
        try:
            schema = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadSchema(f"{name}: isn't JSON: {error}") from None
        if not isinstance(schema, dict):
            raise BadSchema(f"{name}: isn't a JSON Schema: it has to be an object")
        found = spark_struct(schema, name) if schema.get("type") == "struct" else struct_of(schema, name)
        self.type: pa.StructType = found.arrow
        self._decoder = msgspec.json.Decoder(found.python)
        self._has_decimals = _has_decimals(self.type)

    def decode(self, body: bytes) -> Mapping[str, Any]:
        try:
            found = self._decoder.decode(body)
            value: Mapping[str, Any] = msgspec.to_builtins(found, builtin_types=BUILTIN, enc_hook=_text)
        except msgspec.ValidationError as error:
            raise Misfit(_reason(str(error)), str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            what = str(error).removeprefix("JSON is malformed: ")
            raise Misfit(MALFORMED, f"isn't JSON: {what}" if body else "the body is empty") from None
        if self._has_decimals:
            _check_decimals(value)
        return value


def _has_decimals(kind: pa.DataType) -> bool:
    parts = [kind.field(number).type for number in range(kind.num_fields)]
    return pa.types.is_decimal(kind) or any(map(_has_decimals, parts))


def _check_decimals(value: Any) -> None:
    """Raises Misfit for one with more digits behind the point than any column has: pyarrow looks for it beyond the
    end of a table, finds something else, or ends the process."""
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        if isinstance(exponent, int) and exponent < -MAX_DIGITS:
            raise Misfit(WRONG_VALUE, f"a decimal has more than {MAX_DIGITS} digits behind its point")
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            _check_decimals(part)


def _text(raw: msgspec.Raw) -> str | None:
    """JSON without a schema of its own, as text."""
    text = bytes(raw)
    return None if text == b"null" else text.decode()


def _reason(text: str) -> str:
    """By msgspec's sentence."""
    if text.startswith("Object missing required field"):
        return MISSING
    if text.startswith("Object contains unknown field"):
        return UNKNOWN
    return WRONG_TYPE if _TYPE.match(text) else WRONG_VALUE

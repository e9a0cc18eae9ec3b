"""What is declared for a topic: its bodies' format, its schema, and the column that they become.

    Orders=json:orders.json                    a JSON Schema, or Spark's own
    Orders=avro:orders.avsc                    also avro-single, avro-confluent
    Orders=protobuf:orders.desc:shop.Order     a descriptor set, and the message

A schema's file is read once, where the landing begins; tasks elsewhere get its content.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from hatwisted.pipeline.decode.arrowschema import COLUMNS
from hatwisted.pipeline.schemas.values import BadSchema, BodyDecoder, check_names

MAX_BYTES: Final = 8 << 20
"""Of a schema's file."""
DIGEST_DIGITS: Final = 12
PROTOBUF: Final = "protobuf"
RESERVED: Final = frozenset((*COLUMNS, "store_date"))
"""The log's own columns."""


class TopicSchema(msgspec.Struct, frozen=True, kw_only=True):
    """Of one topic. `source`: the file's name, for errors; `content`: what it has; `message`: of Protobuf."""

    topic: str
    format: str
    source: str
    content: bytes
    message: str = ""

    @property
    def column(self) -> str:
        return self.topic

    @property
    def digest(self) -> str:
        """What stands for format and schema beside a row that didn't fit."""
        found = hashlib.sha256(f"{self.format}:{self.message}\n".encode() + self.content).hexdigest()
        return f"{self.format}:{found[:DIGEST_DIGITS]}"

    def decoder(self) -> BodyDecoder:
        """Raises BadSchema."""
        try:
            return _FORMATS[self.format](self)
        except ImportError as error:
            raise BadSchema(
                f"{self.source}: {self.format} needs {error.name}, which isn't installed:"
                " pip install 'hatwisted[schemas]'"
            ) from None


def _json(schema: TopicSchema) -> BodyDecoder:
    from hatwisted.pipeline.schemas.jsonvalues import JsonDecoder

    return JsonDecoder(schema.content, schema.source)


def _avro(schema: TopicSchema) -> BodyDecoder:
    from hatwisted.pipeline.schemas.avrovalues import AvroDecoder

    return AvroDecoder(schema.content, schema.source, schema.format)


def _protobuf(schema: TopicSchema) -> BodyDecoder:
    from hatwisted.pipeline.schemas.protovalues import ProtobufDecoder

    return ProtobufDecoder(schema.content, schema.source, schema.message)


_FORMATS: Final[Mapping[str, Callable[[TopicSchema], BodyDecoder]]] = {
    "json": _json,
    "avro": _avro,
    "avro-single": _avro,
    "avro-confluent": _avro,
    PROTOBUF: _protobuf,
}


def parse_schema(text: str) -> TopicSchema:
    """`TOPIC=FORMAT:FILE`, of Protobuf `TOPIC=protobuf:FILE:MESSAGE`. Raises BadSchema."""
    topic, mark, rest = text.partition("=")
    form, colon, file = rest.partition(":")
    if not (mark and colon and topic and file):
        raise BadSchema(f"{text!r} isn't TOPIC=FORMAT:FILE, such as Orders=json:orders.json")
    if form not in _FORMATS:
        raise BadSchema(f"{text!r}: there's no format {form!r}; there are {', '.join(_FORMATS)}")
    message = ""
    if form == PROTOBUF:
        file, colon, message = file.rpartition(":")
        if not (file and message):
            raise BadSchema(
                f"{text!r} isn't TOPIC=protobuf:FILE:MESSAGE, such as O=protobuf:o.desc:shop.Order"
            )
    return TopicSchema(topic=topic, format=form, source=file, content=_content(file), message=message)


def _content(file: str) -> bytes:
    try:
        with Path(file).open("rb") as opened:
            found = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadSchema(f"{file}: can't be read: {error.strerror or error}") from None
    if len(found) > MAX_BYTES:
        raise BadSchema(f"{file}: is larger than {MAX_BYTES >> 20} MiB, so it's hardly a schema")
    return found


def parse_schemas(texts: Iterable[str]) -> tuple[TopicSchema, ...]:
    """What `LandOptions(schemas=...)` takes, of texts as `hatwisted pipeline land --schema` has them:
    `TOPIC=FORMAT:FILE`, of Protobuf `TOPIC=protobuf:FILE:MESSAGE`. Raises BadSchema, also for two of one topic.
    """
    found = tuple(parse_schema(text) for text in texts)
    check_schemas(found)
    return found


def check_schemas(schemas: Sequence[TopicSchema]) -> None:
    """Raises BadSchema if these can't be columns of one table."""
    topics: set[str] = set()
    for schema in schemas:
        if schema.topic in topics:
            raise BadSchema(f"topic {schema.topic} has two schemas; give one")
        topics.add(schema.topic)
        if schema.column.lower() in RESERVED:
            raise BadSchema(
                f"topic {schema.topic}: column {schema.column} of the table is the log's own;"
                " land it without a schema"
            )
    check_names([schema.column for schema in schemas], "--schema")


def encode_schemas(schemas: Sequence[TopicSchema]) -> str:
    """As one line of text, which an option of Spark can be."""
    return base64.b64encode(msgspec.msgpack.encode(schemas)).decode()


def decode_schemas(text: str | None) -> tuple[TopicSchema, ...]:
    """What `encode_schemas` made; none of None."""
    if text is None:
        return ()
    found: Any = msgspec.msgpack.decode(base64.b64decode(text), type=tuple[TopicSchema, ...])
    return tuple(found)

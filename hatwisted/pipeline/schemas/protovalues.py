"""Protobuf bodies, by a descriptor set and the message's name.

    protoc --include_imports --descriptor_set_out=orders.desc orders.proto
    Orders=protobuf:orders.desc:shop.Order

Almost any bytes are some Protobuf message, with fields that nobody knows. So a body that has bytes, and none of
the message's own fields, doesn't fit. A field that isn't there is null if the message can tell (message fields,
`optional`, proto2), else it has its default, as everywhere with proto3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from hatwisted.pipeline.schemas.values import (
    DEEPEST,
    MALFORMED,
    MISSING,
    UNKNOWN,
    WRONG_VALUE,
    BadSchema,
    Misfit,
    check_names,
)

Convert = Callable[[Any], Any]

SIMPLE: Final[Mapping[int, pa.DataType]] = {
    FieldDescriptor.CPPTYPE_INT32: pa.int64(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float64(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
}
WRAPPED: Final = re.compile(
    r"google\.protobuf\.(Double|Float|Int32|Int64|UInt32|UInt64|Bool|String|Bytes)Value"
)
TIMESTAMP: Final = "google.protobuf.Timestamp"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ProtobufDecoder:
    """Bodies that are messages of one type.

    - content: a FileDescriptorSet with all that is imported
    - name: of its file, for errors
    - message: the message's full name

    Raises BadSchema.
    """

    def __init__(self, content: bytes, name: str, message: str) -> None:
        descriptor = _descriptor(content, name, message)
        self._make = message_factory.GetMessageClass(descriptor)
        self._name = message
        self.type, self._convert = _struct(descriptor, name, ())

    def decode(self, body: bytes) -> Mapping[str, Any]:
        message: Any = self._make()
        try:
            message.ParseFromString(body)
        except DecodeError as error:
            raise Misfit(MALFORMED, f"isn't Protobuf: {error}") from None
        if not message.IsInitialized():
            raise Misfit(MISSING, f"lacks {', '.join(message.FindInitializationErrors())}")
        if body and not message.ListFields():
            raise Misfit(UNKNOWN, f"has none of the fields of {self._name}")
        try:
            value: Mapping[str, Any] = self._convert(message)
        except (OverflowError, ValueError) as error:
            raise Misfit(WRONG_VALUE, str(error)) from None
        return value


def _descriptor(content: bytes, name: str, message: str) -> Descriptor:
    files = descriptor_pb2.FileDescriptorSet()
    pool = descriptor_pool.DescriptorPool()
    try:
        files.ParseFromString(content)
        for file in files.file:
            pool.Add(file)
        found: Descriptor = pool.FindMessageTypeByName(message)
    except DecodeError:
        raise BadSchema(f"{name}: isn't a descriptor set; protoc makes it by --descriptor_set_out") from None
    except KeyError:
        names = [
            f"{file.package}.{each.name}".lstrip(".") for file in files.file for each in file.message_type
        ]
        raise BadSchema(
            f"{name}: has no message {message}; it has {', '.join(names[:20]) or 'none'};"
            " --include_imports brings in what it needs"
        ) from None
    except TypeError as error:
        raise BadSchema(f"{name}: {error}; --include_imports brings in what it needs") from None
    return found


def _struct(
    message: Descriptor, at: str, inside: tuple[str, ...]
) -> tuple[pa.StructType, Callable[[Message], dict[str, Any]]]:
    """A message's type, and how one becomes what pyarrow takes.

    - message: the type
    - at: where it is, for errors
    - inside: names of the messages around it
    """
    if message.full_name in inside:
        raise BadSchema(f"{at}: {message.full_name} contains itself, and no column is endless")
    if len(inside) > DEEPEST:
        raise BadSchema(f"{at}: is nested deeper than {DEEPEST} levels")
    check_names([field.name for field in message.fields], at)
    if not message.fields:
        raise BadSchema(f"{at}: {message.full_name} has no fields, so there's nothing for a column")
    kinds, parts = [], []
    for field in message.fields:
        kind, convert = _field(field, f"{at}, {field.name}", (*inside, message.full_name))
        kinds.append(pa.field(field.name, kind))
        parts.append((field.name, field.has_presence, convert))

    def value(found: Message) -> dict[str, Any]:
        return {
            name: None if presence and not found.HasField(name) else convert(getattr(found, name))
            for name, presence, convert in parts
        }

    return pa.struct(kinds), value


def _field(field: FieldDescriptor, at: str, inside: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        key, key_of = _map_key(kind.fields_by_name["key"])
        item, item_of = _single(kind.fields_by_name["value"], at, inside)
        return pa.map_(key, item), lambda found: [(key_of(name), item_of(found[name])) for name in found]
    single, convert = _single(field, at, inside)
    if field.is_repeated:
        return pa.list_(pa.field("element", single)), lambda found: [convert(each) for each in found]
    return single, convert


def _map_key(field: FieldDescriptor) -> tuple[pa.DataType, Convert]:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return pa.string(), _same
    return SIMPLE[field.cpp_type], _same


def _single(field: FieldDescriptor, at: str, inside: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    if field.message_type is not None:
        return _message(field.message_type, at, inside)
    if field.enum_type is not None:
        return pa.string(), _enum(field.enum_type)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return (pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else pa.string()), _same
    return SIMPLE[field.cpp_type], _same


def _message(message: Descriptor, at: str, inside: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    if message.full_name == TIMESTAMP:
        return pa.timestamp("us", "UTC"), _time
    if WRAPPED.fullmatch(message.full_name):
        kind, convert = _single(message.fields_by_name["value"], at, inside)
        return kind, lambda found: convert(found.value)
    return _struct(message, at, inside)


def _same(value: Any) -> Any:
    return value


def _time(value: Any) -> datetime:
    return EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)


def _enum(kind: EnumDescriptor) -> Convert:
    """A value's name; one that this schema doesn't know yet has its number."""
    names = {number: value.name for number, value in kind.values_by_number.items()}
    return lambda number: names.get(number, str(number))

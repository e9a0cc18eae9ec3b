"""Protobuf bodies by a descriptor set: every kind of field, what isn't there, other versions, and other bytes."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from unittest import TestCase

import pyarrow as pa
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

from hatwisted.pipeline.schemas.protovalues import ProtobufDecoder
from hatwisted.pipeline.schemas.values import BadSchema, Misfit
from tests.unit.pipeline.schemas.randombodies import misfits

Field = descriptor_pb2.FieldDescriptorProto


def message(name: str, *fields: Any) -> descriptor_pb2.DescriptorProto:
    """A message of fields (name, type, more)."""
    made = descriptor_pb2.DescriptorProto(name=name)
    for number, (key, kind, more) in enumerate(fields, 1):
        made.field.add(**{"name": key, "number": number, "type": kind, "label": Field.LABEL_OPTIONAL, **more})
    return made


def descriptor_set(
    *messages: descriptor_pb2.DescriptorProto, syntax: str = "proto3"
) -> descriptor_pb2.FileDescriptorSet:
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax=syntax, message_type=messages
    )
    known = (timestamp_pb2, wrappers_pb2, struct_pb2)
    file.dependency.extend(each.DESCRIPTOR.name for each in known)
    colour = file.enum_type.add(name="Colour")
    colour.value.add(name="RED", number=0)
    colour.value.add(name="BLUE", number=1)
    found = descriptor_pb2.FileDescriptorSet()
    for each in known:
        each.DESCRIPTOR.CopyToProto(found.file.add())
    found.file.append(file)
    return found


def new(files: descriptor_pb2.FileDescriptorSet, name: str = "shop.Order") -> Any:
    """An empty message."""
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()


def decoder(files: descriptor_pb2.FileDescriptorSet, name: str = "shop.Order") -> ProtobufDecoder:
    return ProtobufDecoder(files.SerializeToString(), "shop.desc", name)


LINE = message("Line", ("item", Field.TYPE_STRING, {}), ("count", Field.TYPE_SINT32, {}))
MANY = {"label": Field.LABEL_REPEATED}


def order() -> descriptor_pb2.FileDescriptorSet:
    """One field of each kind."""
    made = message(
        "Order",
        ("id", Field.TYPE_INT64, {}),
        ("big", Field.TYPE_UINT64, {}),
        ("price", Field.TYPE_FLOAT, {}),
        ("open", Field.TYPE_BOOL, {}),
        ("raw", Field.TYPE_BYTES, {}),
        ("colour", Field.TYPE_ENUM, {"type_name": ".shop.Colour"}),
        ("at", Field.TYPE_MESSAGE, {"type_name": ".google.protobuf.Timestamp"}),
        ("note", Field.TYPE_MESSAGE, {"type_name": ".google.protobuf.StringValue"}),
        ("lines", Field.TYPE_MESSAGE, {"type_name": ".shop.Line", **MANY}),
        ("counts", Field.TYPE_MESSAGE, {"type_name": ".shop.Order.CountsEntry", **MANY}),
        ("maybe", Field.TYPE_INT32, {"proto3_optional": True, "oneof_index": 0}),
    )
    made.oneof_decl.add(name="_maybe")
    entry = message("CountsEntry", ("key", Field.TYPE_STRING, {}), ("value", Field.TYPE_INT32, {}))
    entry.options.map_entry = True
    made.nested_type.append(entry)
    return descriptor_set(made, LINE)


class ValueTests(TestCase):
    def row(self, found: Any) -> Any:
        made = decoder(order())
        return pa.array([made.decode(found.SerializeToString())], made.type).to_pylist()[0]

    def test_every_kind_of_field(self) -> None:
        found = new(order())
        found.id, found.big, found.price, found.open, found.raw = -5, 2**64 - 1, 0.5, True, b"\0"
        found.colour, found.maybe, found.note.value = 1, 0, "n"
        found.at.FromDatetime(datetime(2026, 1, 2, 3, 4, 5))
        found.lines.add(item="tea", count=-2)
        found.counts["a"] = 3
        self.assertEqual(
            self.row(found),
            {
                "id": -5,
                "big": Decimal(2**64 - 1),
                "price": 0.5,
                "open": True,
                "raw": b"\0",
                "colour": "BLUE",
                "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
                "note": "n",
                "lines": [{"item": "tea", "count": -2}],
                "counts": [("a", 3)],
                "maybe": 0,
            },
        )

    def test_what_isn_t_there(self) -> None:
        row = self.row(new(order()))
        self.assertEqual((row["id"], row["open"], row["colour"], row["lines"]), (0, False, "RED", []))
        self.assertEqual((row["at"], row["note"], row["maybe"]), (None, None, None))

    def test_an_enum_s_value_that_isn_t_known_yet_has_its_number(self) -> None:
        found = new(order())
        found.colour = 9
        self.assertEqual(self.row(found)["colour"], "9")

    def test_a_newer_writer_s_fields_are_left_aside(self) -> None:
        newer = descriptor_set(message("Line", *[(f"f{n}", Field.TYPE_STRING, {}) for n in range(3)]))
        written = new(newer, "shop.Line")
        written.f0, written.f2 = "tea", "more"
        made = decoder(descriptor_set(LINE), "shop.Line")
        self.assertEqual(made.decode(written.SerializeToString()), {"item": "tea", "count": 0})

    def test_what_doesn_t_fit(self) -> None:
        needed = message("Order", ("id", Field.TYPE_INT32, {"label": Field.LABEL_REQUIRED}))
        late = new(order())
        late.at.seconds = 10**14
        for files, body, reason in (
            (order(), b"\x08", "malformed"),
            (order(), b'{"id": 1}', "malformed"),
            (order(), b"\xa2\x06\x01x", "unknown"),
            (order(), late.SerializeToString(), "value"),
            (descriptor_set(needed, syntax="proto2"), b"", "missing"),
        ):
            with self.subTest(body=body), self.assertRaises(Misfit) as found:
                decoder(files).decode(body)
            self.assertEqual(found.exception.reason, reason)

    def test_any_bytes_fit_or_don_t(self) -> None:
        self.assertGreater(misfits(decoder(order()).decode), 1000)


class RefusalTests(TestCase):
    def test_schemas_that_are_no_columns(self) -> None:
        itself = message("Order", ("more", Field.TYPE_MESSAGE, {"type_name": ".shop.Order"}))
        free = message("Order", ("v", Field.TYPE_MESSAGE, {"type_name": ".google.protobuf.Struct"}))
        for files, name, why in (
            (order(), "shop.Ordr", "has no message shop.Ordr; it has .*shop.Order"),
            (descriptor_set(itself), "shop.Order", "shop.desc, more: shop.Order contains itself"),
            (descriptor_set(free), "shop.Order", "contains itself"),
            (descriptor_set(message("Order")), "shop.Order", "has no fields"),
        ):
            with self.subTest(why=why), self.assertRaisesRegex(BadSchema, why):
                decoder(files, name)
        with self.assertRaisesRegex(BadSchema, "isn't a descriptor set"):
            ProtobufDecoder(b"\xff\xff", "shop.desc", "shop.Order")
        alone = descriptor_pb2.FileDescriptorSet(file=order().file[-1:])
        with self.assertRaisesRegex(BadSchema, "--include_imports"):
            decoder(alone)

"""Which twin is used. A compiled one that was built from older sources counts as none."""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

from hatwisted.kernel import pure
from hatwisted.logcodec.entrychoice import ChooseEntries, OwnBytes
from hatwisted.logcodec.logwalk import WholeRecords
from hatwisted.logcodec.plaincolumns import CopySpans, PlainColumns, PlainPairs, SpanSums, SplitSpans
from hatwisted.wire.haframe import FittingFrames, TakeFrames
from hatwisted.wire.remoting import TakeSends

INTERFACE: Final = 14
"""Raised with every change of a compiled twin's interface, there and here."""

NAMES: Final = (
    "_requests",
    "_signedsends",
    "_signatures",
    "_admission",
    "_records",
    "_answers",
    "_puts",
    "_dispatch",
    "_index",
    "_walk",
    "_reading",
    "_columns",
    "_frames",
)
"""The compiled modules."""


def compiled_parts() -> dict[str, ModuleType]:
    """The compiled modules by their names; none if one of them is missing or doesn't fit."""
    try:
        parts = {name: import_module(f"hatwisted.kernel.{name}") for name in NAMES}
    except ImportError:
        return {}
    return parts if all(part.INTERFACE == INTERFACE for part in parts.values()) else {}


_parts = {} if os.environ.get("HATWISTED_PURE", "0") not in ("", "0") else compiled_parts()

COMPILED: Final = bool(_parts)
"""Is the compiled twin in use?"""

RunEncoder = pure.RunEncoder
SendAnswers = pure.SendAnswers
SettledPuts = pure.SettledPuts
decode_batch = pure.decode_batch
take_sends: TakeSends | None = pure.take_sends
take_signed_sends: TakeSends | None = pure.take_signed_sends
signing_key: pure.SigningKey | None = pure.signing_key
check_signatures: pure.CheckSignatures | None = pure.check_signatures
UsualPuts: type[pure.UsualPutsTwin] | None = pure.UsualPuts
QueueTail = pure.QueueTail
QueueMap = pure.QueueMap
whole_records: WholeRecords | None = pure.whole_records
choose_entries: ChooseEntries = pure.choose_entries
own_bytes: OwnBytes = pure.own_bytes
plain_columns: PlainColumns | None = pure.plain_columns
copy_spans: CopySpans | None = pure.copy_spans
span_crcs: SpanSums | None = pure.span_crcs
plain_pairs: PlainPairs | None = pure.plain_pairs
split_spans: SplitSpans | None = pure.split_spans
usual_records: pure.UsualRecords | None = pure.usual_records
take_frames: TakeFrames | None = pure.take_frames
fitting_frames: FittingFrames | None = pure.fitting_frames
ItemLinker: type[pure.ItemLinkerTwin] | None = pure.ItemLinker

if COMPILED and not TYPE_CHECKING:
    RunEncoder = _parts["_records"].RunEncoder
    SendAnswers = _parts["_answers"].SendAnswers
    SettledPuts = _parts["_puts"].SettledPuts
    decode_batch = _parts["_records"].decode_batch
    take_sends = _parts["_requests"].take_sends
    take_signed_sends = _parts["_signedsends"].take_signed_sends
    if _parts["_signatures"].USABLE:
        signing_key = _parts["_signatures"].signing_key
        check_signatures = _parts["_signatures"].check_signatures
    UsualPuts = _parts["_admission"].UsualPuts
    QueueTail = _parts["_dispatch"].QueueTail
    QueueMap = _parts["_dispatch"].QueueMap
    usual_records = _parts["_dispatch"].usual_records
    ItemLinker = _parts["_index"].ItemLinker
    take_frames = _parts["_frames"].take_frames
    fitting_frames = _parts["_frames"].fitting_frames
    whole_records = _parts["_walk"].whole_records
    choose_entries = _parts["_reading"].choose_entries
    own_bytes = _parts["_reading"].own_bytes
    plain_columns = _parts["_columns"].plain_columns
    copy_spans = _parts["_columns"].copy_spans
    plain_pairs = _parts["_columns"].plain_pairs
    split_spans = _parts["_columns"].split_spans
    if _parts["_columns"].SUMS:
        span_crcs = _parts["_columns"].span_crcs

"""Records of the log that a peer names by their offset: messages sent back, half messages."""

from __future__ import annotations

from hatwisted.store.messagestore import MessageStore
from hatwisted.wire.record import CorruptRecord, Record, decode_record


def record_at(store: MessageStore, offset: int) -> Record | None:
    """The record that begins at a log offset; peers may name any, and what lies there may look like one."""
    data = store.look_message(offset) if offset >= 0 else None
    if data is None:
        return None
    try:
        record = decode_record(data)
    except CorruptRecord:
        return None
    return record if isinstance(record, Record) else None

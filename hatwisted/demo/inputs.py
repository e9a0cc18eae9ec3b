"""What is sent through the demo: the lines of a text or NDJSON file, or the messages of a RocketMQ store.

Everything is read as it is needed: an input may be larger than memory. For a progress bar, `position` of `total`
bytes have been read.

A store's records aren't copied: its messages are sent as their producers sent them, without what a broker
adds to a message, and without the records that a broker keeps for itself (delayed and half messages, which
are stored a second time when they are delivered).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from hatwisted.wire import layout
from hatwisted.wire.properties import decode_properties, encode_properties
from hatwisted.wire.recordreader import decode_record
from hatwisted.wire.storedrecord import END, NEED_DATA, Blank, CorruptRecord, Record
from hatwisted.wire.storenames import LOG_FOLDER

# A line longer than this is sent in pieces: the broker's maxMessageSize is 4 MiB.
MAX_BODY = 1024 * 1024

# Bytes of a log file held at once; no record of a default RocketMQ is longer than 4 MiB + 64 KiB.
WINDOW = 8 * 1024 * 1024

# Fields of a JSON line that make good message keys, in this order.
KEY_FIELDS = ("key", "id", "_id")

LEFT_OUT = layout.BROKERS_PROPERTIES | {layout.PROPERTY_WAIT, layout.PROPERTY_DELAY}
BROKERS_OWN_TOPICS = frozenset((layout.SCHEDULE_TOPIC, layout.HALF_TOPIC, layout.OP_HALF_TOPIC))

# The bits of sysFlag that a producer sets; those of hosts and transactions are the broker's.
PRODUCERS_SYS_FLAG = layout.SYS_COMPRESSED | layout.SYS_MULTI_TAG | layout.SYS_COMPRESSION_MASK


class InputError(Exception):
    """The input can't be read; `str()` is one line for the user."""


class Message(NamedTuple):
    """A message as a producer sends it. due: seconds after the first one, 0 for as soon as possible."""

    topic: str
    body: bytes
    properties: bytes
    flag: int = 0
    sys_flag: int = 0
    due: float = 0.0


class Source(Protocol):
    """Messages, and how far they have been read."""

    @property
    def name(self) -> str:
        """For people."""

    @property
    def total(self) -> int:
        """Bytes."""

    @property
    def position(self) -> int:
        """Of these."""

    def __iter__(self) -> Iterator[Message]:
        """Every message once."""


def open_source(path: str) -> Source:
    """The source for a file or a store folder; raises InputError."""
    commit_log = os.path.join(path, LOG_FOLDER)
    if os.path.isdir(commit_log):
        return StoreSource(path, commit_log)
    if os.path.isdir(path):
        raise InputError(f"{path} is not a RocketMQ store (it has no commitlog folder)")
    try:
        return LineSource(path)
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}") from None


class LineSource:
    """One message per non-empty line; a JSON object's key or id becomes the message key."""

    def __init__(self, path: str) -> None:
        self.name = path
        self.total = os.stat(path).st_size
        self.position = 0
        self._topic = _topic_for(path)

    def __iter__(self) -> Iterator[Message]:
        with open(self.name, "rb") as lines:
            while line := lines.readline(MAX_BODY):
                self.position += len(line)
                if body := line.rstrip(b"\r\n"):
                    yield Message(self._topic, body, _line_properties(body))


class StoreSource:
    """The messages in a RocketMQ store's commit log, in log order."""

    def __init__(self, path: str, commit_log: str) -> None:
        self.name = path
        self.position = 0
        names = sorted(name for name in os.listdir(commit_log) if layout.parse_file_name(name) is not None)
        self._files = [os.path.join(commit_log, name) for name in names]
        if not self._files:
            raise InputError(f"{path}: its commit log is empty")
        self.total = sum(os.stat(file).st_size for file in self._files)

    def __iter__(self) -> Iterator[Message]:
        before = 0
        for file in self._files:
            for end, record in records_of(file):
                self.position = before + end
                if message := _as_sent(record):
                    yield message
            before += os.stat(file).st_size
        self.position = self.total


def records_of(path: str) -> Iterator[tuple[int, Record]]:
    """(end of the record in the file, record) of every record up to the file's written end.

    Raises InputError at damage.
    """
    with open(path, "rb") as file:
        start, data, position = 0, file.read(WINDOW), 0
        while True:
            try:
                found = decode_record(data, position)
            except CorruptRecord as error:
                raise InputError(f"{path}: damaged at byte {start + position}: {error.reason}") from None
            if isinstance(found, Record):
                position += found.total_size
                yield start + position, found
            elif found is NEED_DATA and len(data) == WINDOW:
                if position == 0:
                    raise InputError(f"{path}: a record of more than {WINDOW} bytes at byte {start}")
                start += position
                file.seek(start)
                data, position = file.read(WINDOW), 0
            else:
                assert isinstance(found, Blank) or found in (END, NEED_DATA)
                return


def _as_sent(record: Record) -> Message | None:
    if record.topic in BROKERS_OWN_TOPICS:
        return None
    properties = decode_properties(record.raw_properties)
    kept = {name: value for name, value in properties.items() if name not in LEFT_OUT}
    sys_flag = record.sys_flag & PRODUCERS_SYS_FLAG
    return Message(record.topic, record.body, encode_properties(kept), record.flag, sys_flag)


def _line_properties(body: bytes) -> bytes:
    if not body.startswith(b"{"):
        return b""
    try:
        value = json.loads(body)
    except ValueError:
        return b""
    key = next((str(value[name]) for name in KEY_FIELDS if value.get(name) not in (None, "")), "")
    # Keys are separated by blanks, properties by control characters: text that contains either can't be a key.
    return encode_properties({layout.PROPERTY_KEYS: key}) if re.fullmatch(r"[!-~]{1,200}", key) else b""


def _topic_for(path: str) -> str:
    stem = os.path.basename(path).partition(".")[0]
    return re.sub(r"[^a-zA-Z0-9_-]+", "-", stem).strip("-")[: layout.MAX_TOPIC_LENGTH] or "Demo"

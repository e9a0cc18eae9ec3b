"""What the store is asked to append, and what became of it.

A *put* is one message, or one batch whose messages stand or fall together. It carries its own outcome, so that
a read's worth of puts travels through append, flush and replication as one list without being copied.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from operator import itemgetter
from typing import Generic

import msgspec
from typing_extensions import TypeVar

from hatwisted.wire.layout import BLANK_MIN_SIZE, MAX_PROPERTIES_LENGTH, MAX_TOPIC_LENGTH


class PutStatus(Enum):
    """RocketMQ's PutMessageStatus: how far a put has verifiably come."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    OS_PAGE_CACHE_BUSY = "OS_PAGE_CACHE_BUSY"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"
    IN_SYNC_REPLICAS_NOT_ENOUGH = "IN_SYNC_REPLICAS_NOT_ENOUGH"

    # Members are singletons; Enum's own hash is a Python call, and there are some for every put.
    __hash__ = object.__hash__


STORED = frozenset(
    {
        PutStatus.PUT_OK,
        PutStatus.FLUSH_DISK_TIMEOUT,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.SLAVE_NOT_AVAILABLE,
    }
)
"""The message is in the master's log, whatever else is not known about it."""

HOPELESS = frozenset({PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED})
"""Trying again doesn't help. What was stored before is too big now: for other limits, or with what was added."""

Entry = tuple[int, bytes, bytes]
"""(flag, body, raw properties) of one message of a put."""


_properties_of = itemgetter(2)


Token_co = TypeVar("Token_co", covariant=True, default=object)


class Put(msgspec.Struct, Generic[Token_co], eq=False, gc=False):
    """One message or batch on its way into the log.

    - topic: 1..127 bytes of UTF-8; entries: the messages
    - born_host: 8 or 20 bytes (sys_flag bit 0x10 says which)
    - wait: does the producer want to wait for flush and slave?
    - token: the caller's own, which must not refer to the put (nobody looks for that circle)
    - shared_properties: bytes put after those of each entry
    - content_size: bytes of all bodies and properties, shared ones included, -1 to have them counted
    - answer_queue_id: the queue that was asked for, wherever the message lies until it's due

    After the append: offset, end (physical bytes), queue_offset of the first message, record_offsets of all of
    them. `status` is None as long as only "appended" is known.
    """

    topic: str
    queue_id: int
    entries: Collection[Entry]
    born_host: bytes
    born_timestamp: int
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    wait: bool = True
    token: Token_co = None  # type: ignore[assignment]
    shared_properties: bytes = b""
    content_size: int = -1
    answer_queue_id: int = -1
    offset: int = -1
    end: int = -1
    record_offsets: Sequence[int] = ()
    queue_offset: int = 0
    status: PutStatus | None = None
    reason: str = ""

    def refuse(self, status: PutStatus, reason: str) -> bool:
        """Settle it without storing; `reason` is what the producer reads. Always False, for the caller to
        return."""
        self.status = status
        self.reason = reason
        return False


class PutLimits:
    """What a log takes; RocketMQ's defaults, and its fault of answering PUT_OK for a record too big for any
    file (formats 2.2) ruled out."""

    def __init__(self, max_message_size: int, file_size: int) -> None:
        self.max_message_size = max_message_size
        self.file_size = file_size

    @property
    def easy_size(self) -> int:
        """A put whose records have no more bytes than this breaks no limit, but perhaps that of its topic."""
        return min(self.max_message_size, MAX_PROPERTIES_LENGTH, self.file_size - BLANK_MIN_SIZE)

    @property
    def batch_size(self) -> int:
        """A batch whose records have no more bytes than this breaks no limit, but perhaps those of its topic and
        of its properties."""
        return min(self.max_message_size, self.file_size - BLANK_MIN_SIZE)

    def check(self, put: Put, size: int, topic_size: int) -> bool:
        """Refuse a put that breaks a limit; True if it may be stored.

        - put: gets its status and reason if it's refused
        - size: bytes of all its records
        - topic_size: bytes of its topic
        """
        if not 0 < topic_size <= MAX_TOPIC_LENGTH:
            return put.refuse(
                PutStatus.MESSAGE_ILLEGAL, f"topic of {topic_size} bytes, allowed are 1 to {MAX_TOPIC_LENGTH}"
            )
        if size + BLANK_MIN_SIZE > self.file_size:
            return put.refuse(
                PutStatus.MESSAGE_ILLEGAL,
                f"{size} bytes and {BLANK_MIN_SIZE} more don't fit into a commit log file of {self.file_size}",
            )
        # Content within a limit has no part beyond it: the usual put costs two comparisons.
        if put.content_size > MAX_PROPERTIES_LENGTH and not self._check_properties(put):
            return False
        if put.content_size > self.max_message_size:
            body_size = sum(len(body) for _, body, _ in put.entries)
            if body_size > self.max_message_size:
                return put.refuse(
                    PutStatus.MESSAGE_ILLEGAL,
                    f"body of {body_size} bytes, maxMessageSize is {self.max_message_size}",
                )
        return True

    def _check_properties(self, put: Put) -> bool:
        allowed = MAX_PROPERTIES_LENGTH - len(put.shared_properties)
        biggest = max(map(len, map(_properties_of, put.entries)))
        if biggest > allowed:
            return put.refuse(
                PutStatus.PROPERTIES_SIZE_EXCEEDED,
                f"properties of {biggest + len(put.shared_properties)} bytes, "
                f"allowed are {MAX_PROPERTIES_LENGTH}",
            )
        return True

"""The answers that clients got, and what a store is seen to hold: plain values, from which `promises` judges."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

from hatwisted.wire.codes import ResponseCode

NOT_STORED = frozenset(
    (
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.MESSAGE_ILLEGAL,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
    )
)
"""Answers that say: this message isn't in any log."""

STORED = frozenset(
    (
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    )
)
"""Answers that say: the broker that answered has it in its log."""


class Place(NamedTuple):
    """Where a message stands: its queue, its number there, and its offset in the log."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int


class Sent(msgspec.Struct, kw_only=True):
    """A message that a producer sends; the rest is what became of it.

    - body: unique among all messages
    - sent_at: clock seconds
    - delay: seconds that it waits in the broker until consumers may have it; 0: none
    - commits: will its transaction be committed? None: it's part of none
    - code: the answer's; None: none came
    - place: where it stands, according to the answer
    - on: names of machines that promise to have it
    - durable_on: those of them that promise to have it after their power failed
    """

    number: int
    topic: str
    queue_id: int
    body: bytes
    sent_at: float
    delay: float = 0.0
    commits: bool | None = None
    code: int | None = None
    place: Place | None = None
    on: set[str] = msgspec.field(default_factory=set)
    durable_on: set[str] = msgspec.field(default_factory=set)

    @property
    def comes_later(self) -> bool:
        """Does the broker put a copy of it where it is for? A failure may make it do so twice."""
        return self.delay > 0 or self.commits is not None


class Violation(NamedTuple):
    """A promise that was broken. promise: its name; what: the facts."""

    promise: str
    what: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.what}"


class Seen(NamedTuple):
    """A message as a store shows it.

    - place: where its record says it stands
    - stored_at: when, in ms
    - half_at: log offset of the half message that it's a copy of, if its transaction was committed
    """

    place: Place
    body: bytes
    stored_at: int = 0
    half_at: int = 0


class StoreView(Protocol):
    """A store as an inspector sees it."""

    @property
    def name(self) -> str:
        """The machine's."""

    def log_range(self) -> tuple[int, int]:
        """First offset and end of the log."""

    def record_at(self, log_offset: int) -> Seen | None:
        """The record that begins there."""

    def queue(self, topic: str, queue_id: int) -> tuple[int, list[Seen | None]]:
        """The first offset of a queue, and what a reader gets at that and each one after; None: nothing."""

    def log_bytes(self, start: int, end: int) -> bytes:
        """That range of the log."""

"""Options of producers and consumers: one value each, and the keywords that make it.

The keywords stand twice, as a type checker needs them at `Cluster.producer("orders", retries=4)` and as the fields
that the logic reads; `tests/unit/clientcore/test_options.py` compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

from hatwisted.clientcore.compression import COMPRESS_ABOVE
from hatwisted.clientcore.errors import BadSetting
from hatwisted.wire.consumerdata import CONSUME_FROM_FIRST, CONSUME_FROM_LAST, CONSUME_FROM_TIMESTAMP
from hatwisted.wire.layout import MAX_MESSAGE_SIZE
from hatwisted.wire.messagequeue import MessageQueue

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RETRIES: Final = 2
"""Further tries of a send (4.9.7: retryTimesWhenSendFailed)."""
SEND_TIMEOUT: Final = 6.0
"""Seconds for one try: brokers wait up to 5 s for the disk and 3 s for a slave, and then still say *stored*."""
MAX_IN_FLIGHT: Final = 512
"""Requests without an answer; remoting allows 1024 a broker."""
MAX_WAITING_BYTES: Final = 32 * 1024 * 1024
"""Bytes of messages that wait for their turn."""

PREFETCH_MESSAGES: Final = 1000
PREFETCH_BYTES: Final = 16 * 1024 * 1024
"""Of one queue, read and not yet settled; above it no pull is made (4.9.7: 1000 and 100 MiB)."""
SUSPENSION: Final = 1.0
"""Seconds that a queue is suspended before its failed message is tried again (4.9.7: 1 s)."""
MAX_BATCH: Final = 1000
"""Messages of one batch; a queue's buffer holds no more."""


class ConsumeFrom(Enum):
    """Where a group begins in a queue it has never read."""

    LAST = CONSUME_FROM_LAST
    FIRST = CONSUME_FROM_FIRST
    TIMESTAMP = CONSUME_FROM_TIMESTAMP


class ProducerKeywords(TypedDict, total=False):
    """As ProducerOptions, all optional."""

    timeout: float
    limit: float | None
    retries: int
    retry_not_stored_ok: bool
    compress_above: int
    max_message_size: int
    max_in_flight: int
    max_waiting_bytes: int
    coalesce: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerOptions:
    """How a producer sends.

    timeout: seconds for one try
    limit: seconds for all tries of a send together (4.9.7: sendMsgTimeout); None: a timeout for each try
    retries: further tries after the first
    retry_not_stored_ok: try elsewhere, too, when a broker stored the message with less than OK (4.9.7:
        retryAnotherBrokerWhenNotStoreOK); the message is then there twice
    compress_above: bytes of a body
    max_message_size: bytes of a body as it travels
    max_in_flight: requests without an answer
    max_waiting_bytes: of messages that wait for their turn
    coalesce: gather waiting messages of a topic into batches
    """

    timeout: float = SEND_TIMEOUT
    limit: float | None = None
    retries: int = RETRIES
    retry_not_stored_ok: bool = False
    compress_above: int = COMPRESS_ABOVE
    max_message_size: int = MAX_MESSAGE_SIZE
    max_in_flight: int = MAX_IN_FLIGHT
    max_waiting_bytes: int = MAX_WAITING_BYTES
    coalesce: bool = False

    def __post_init__(self) -> None:
        _check_kinds(self, limit=float)
        if not min(self.timeout, self.whole_limit) > 0 or self.retries < 0 or self.max_in_flight < 1:
            raise BadSetting(
                f"timeout {self.timeout:g} s, limit {self.whole_limit:g} s, {self.retries} retries, "
                f"{self.max_in_flight} in flight: all must be above 0, retries 0 or more"
            )

    @property
    def whole_limit(self) -> float:
        """Seconds for all tries of a send."""
        return self.timeout * (1 + self.retries) if self.limit is None else self.limit


class ConsumerKeywords(TypedDict, total=False):
    """As ConsumerOptions, all optional."""

    batch: int
    whole_batch: bool
    consume_from: ConsumeFrom
    timestamp: int
    broadcasting: bool
    assigned: Mapping[MessageQueue, int] | None
    local_offsets: Path | None
    orderly: bool
    suspension: float
    max_reconsume: int | None
    prefetch_messages: int
    prefetch_bytes: int
    auto_commit: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerOptions:
    """How a consumer reads.

    - batch: messages for one call
    - whole_batch: a batch that fails goes back as it is, from after its `ack_index` on (4.9.7), instead of being
      halved
    - consume_from: where a new group begins
    - timestamp: ms since the epoch, for ConsumeFrom.TIMESTAMP
    - broadcasting: every member gets everything, and keeps its progress by itself
    - assigned: of a broadcasting member without a file: these queues are read, each from its offset, and no others
    - local_offsets: the file that a broadcasting member keeps it in; None: only while it runs
    - orderly: a failed message holds its queue up, and a queue never has two readers
    - suspension: seconds that a queue is then held up at a time
    - max_reconsume: failures until a dead letter; None: 16, and without end if orderly
    - prefetch_messages, prefetch_bytes: of one queue, read and not yet settled
    - auto_commit: note the progress every 5 s and at the stop; otherwise only when the program says `commit`
    """

    batch: int = 1
    whole_batch: bool = False
    consume_from: ConsumeFrom = ConsumeFrom.LAST
    timestamp: int = 0
    broadcasting: bool = False
    assigned: Mapping[MessageQueue, int] | None = None
    local_offsets: Path | None = None
    orderly: bool = False
    suspension: float = SUSPENSION
    max_reconsume: int | None = None
    prefetch_messages: int = PREFETCH_MESSAGES
    prefetch_bytes: int = PREFETCH_BYTES
    auto_commit: bool = True

    def __post_init__(self) -> None:
        _check_kinds(self, assigned=Mapping, local_offsets=(str, Path), max_reconsume=int)
        if not 0 < self.batch <= MAX_BATCH:
            raise BadSetting(f"a batch of {self.batch}: 1 to {MAX_BATCH} messages are allowed")
        if self.assigned is not None and (not self.broadcasting or self.local_offsets is not None):
            raise BadSetting(
                "assigned: only a broadcasting consumer without local_offsets can be given its queues"
            )
        if self.whole_batch and self.orderly:
            raise BadSetting(
                "whole_batch and orderly: an orderly consumer retries a failed message on its own"
            )


def _check_kinds(options: DataclassInstance, **optional: type | tuple[type, ...]) -> None:
    """BadSetting for a value that isn't of its default's type. optional: types where the default is None."""
    for each in fields(options):
        value = getattr(options, each.name)
        if value is None and each.name in optional:
            continue
        kind = optional.get(each.name, type(each.default))
        if not isinstance(value, (float, int) if kind is float else kind):
            raise BadSetting(f"option {each.name} can't be {value!r}")

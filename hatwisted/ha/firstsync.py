"""Where a slave asks its master to begin.

A slave with a log reports where its last record begins (`overlap` says why). One without has only one number to
say, and 0 means "your last file" to a RocketMQ master: a new slave then lacks every older file for good. With
`haFirstSync=minOffset` the slave asks the master beforehand (outside of this link) what it holds, and reports the
oldest offset instead. If that is 0 and the last file isn't the first, 0 can't be said, but 1 can: the master
streams from byte 1, and byte 0 is known, because a commit log begins with a record whose size takes three bytes,
so its first byte is 0. That record names its own physical offset, 0, and its body length, which is how the guess
is proven before anything is stored. So a full copy works with an unchanged RocketMQ master as well.

Rejected: leaving it to a master-side option alone (it exists, for slaves of any make, but a RocketMQ master
hasn't got it), and asking for offset 0 by a report of min and hoping that retention has moved it above 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from hatwisted.ha.errors import FrameMismatch
from hatwisted.logcodec.recordhead import LARGEST_HEAD, MAGICS, read_head
from hatwisted.store.interfaces import IReplicatedLog
from hatwisted.wire import layout
from hatwisted.wire.haframe import HaFirstSync

PROOF_SIZE = LARGEST_HEAD
"""Bytes of the log's first record that prove its first byte: up to the body length after two IPv6 hosts."""

FIRST_SAYABLE = 1
"""Lowest offset that a first report can name: 0 has another meaning."""

THREE_BYTE_SIZE = 1 << 24
"""A record size below this has 0 as its first byte."""


@dataclass(frozen=True)
class JoinPlan:
    """What to report first, and what has to come then; all offsets in bytes of the log."""

    report: int
    expected: int | None
    """Offset of the first frame; None: the start of any log file, the master's choice."""
    held: int = 0
    """Our log's end: what is sent below it is compared with what we have (`overlap`)."""
    prefix: bytes = b""
    """Bytes of the log before `expected` that are known without being sent."""
    wants_all: bool = False
    """A start above 0 means that older bytes will be missing against the configuration: worth a warning."""


def plan_join(log: IReplicatedLog, first_sync: HaFirstSync, master_range: tuple[int, int] | None) -> JoinPlan:
    """How a slave reports itself to its master.

    - log: ours
    - first_sync: where an empty log starts
    - master_range: (min, max) of the master's log, if known
    """
    file_size = log.file_size
    if log.max_offset:
        begin = max(log.last_record_start(), FIRST_SAYABLE)
        return JoinPlan(begin, begin, held=log.max_offset)
    if first_sync is HaFirstSync.LAST_FILE:
        return JoinPlan(0, None)
    if master_range is None:
        return JoinPlan(0, None, wants_all=True)
    oldest, end = master_range
    if oldest > 0:
        return JoinPlan(oldest, oldest)
    if end <= file_size:
        return JoinPlan(0, 0)
    return JoinPlan(1, 1, prefix=b"\0")


def prove_prefix(head: bytes) -> None:
    """`head`: prefix and the first PROOF_SIZE bytes or more of what the master sent; FrameMismatch if byte
    0 of the log isn't certain to be 0."""
    if len(head) < PROOF_SIZE:
        raise FrameMismatch(
            1,
            len(head) - 1,
            f"the master's first frame has {len(head) - 1} bytes, too few to begin a log with",
        )
    first = read_head(head)
    if (
        first is None
        or first.magic not in MAGICS
        or first.physical_offset != 0
        or not 0 <= first.body_length < THREE_BYTE_SIZE - layout.MAX_RECORD_OVERHEAD
    ):
        raise FrameMismatch(
            1,
            len(head) - 1,
            "the master's log doesn't begin with a record of less than 16 MiB: set haFirstSync=lastFile",
        )

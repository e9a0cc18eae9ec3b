"""What an answer to a pull says: records, or why there are none, as one of two outcomes.

Where nothing is filtered, brokers give every message from the asked offset on. A broker that doesn't have that
one says so in one of five ways: no message there yet, an offset outside its queue, "go on" (retention is
deleting it), "again, at the same place" (RocketMQ's slaves, which don't correct offsets), and records that
begin later. All of them mean the same here: this broker lacks it, and may know where its messages resume.
Whether that is a loss is decided by the caller, which knows what the other brokers of the group say.

Where the broker filters, records that begin later are what's left, and "nothing matched" goes on after what it has
looked at. It doesn't say whether something was gone among these: `queuepull` sees to that.

A hole after the requested offset isn't the broker's fault: retention deletes from the beginning, so such
offsets have no message (a compacted topic's, say).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hatwisted.clientcore.answers import number_in
from hatwisted.clientcore.errors import BadAnswer, Refused
from hatwisted.logcodec.recordhead import MAGICS, read_head
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.layout import FIXED_SIZE
from hatwisted.wire.remoting import RemotingCommand

_ABSENT: Final = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)
_NONE_MATCHED: Final = "NO_MATCHED_MESSAGE"
"""The remark of an answer that brings nothing, as the filter let none pass."""


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull under way: offsets [begin, end) of a queue from the broker at `address`."""

    address: str
    queue_id: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class PulledRecords:
    """Whole records, all of them in [begin, `upto`) and in order. suggested: id of the broker to ask next."""

    data: bytes | memoryview
    count: int
    upto: int
    suggested: int


@dataclass(frozen=True, slots=True)
class MissingRange:
    """The broker has no message at `begin`. resume: the first offset after it that it has or may have; None if
    its queue ends before."""

    resume: int | None
    status: str


def read_answer(
    asked: PullRequest, answer: RemotingCommand, filtered: bool = False
) -> PulledRecords | MissingRange:
    """The outcome of a pull. Refused for any other code, BadAnswer for an answer that can't be one to it.

    - asked: the pull
    - answer: to it
    - filtered: did it name an expression?
    """
    if answer.code not in (ResponseCode.SUCCESS, *_ABSENT):
        raise Refused.of(asked.address, answer, f"a pull from queue {asked.queue_id}")
    following = number_in(asked.address, answer, "nextBeginOffset")
    lowest = number_in(asked.address, answer, "minOffset")
    status = answer.remark or ResponseCode(answer.code).name
    if answer.code == ResponseCode.SUCCESS:
        return _found(asked, answer, following, status, filtered=filtered)
    if filtered and status == _NONE_MATCHED and following > asked.begin:
        return PulledRecords(b"", 0, min(following, asked.end), _suggested(answer))
    resume = max(following, lowest)
    return MissingRange(resume if resume > asked.begin else None, status)


def _found(
    asked: PullRequest, answer: RemotingCommand, following: int, status: str, *, filtered: bool
) -> PulledRecords | MissingRange:
    data, offsets = cut_records(asked, answer.body)
    upto = min(following, asked.end)
    if upto <= asked.begin or (offsets and offsets[-1] >= upto):
        raise BadAnswer(
            f"{asked.address}: gives records of queue {asked.queue_id} and says to go on at {following}"
        )
    if not filtered and (not offsets or offsets[0] > asked.begin):
        return MissingRange(offsets[0] if offsets else upto, status)
    return PulledRecords(data, len(offsets), upto, _suggested(answer))


def _suggested(answer: RemotingCommand) -> int:
    text = answer.ext.get("suggestWhichBrokerId", "0")
    return int(text) if text.isdecimal() else 0


def cut_records(asked: PullRequest, body: bytes) -> tuple[bytes | memoryview, list[int]]:
    """The records of `body` whose queue offsets are in the asked range, and these offsets, ascending.

    BadAnswer unless `body` is a chain of whole records of the asked queue.
    """
    offsets: list[int] = []
    position, end, stop = 0, len(body), None
    while position < end:
        head = read_head(body, position)
        if head is None:
            raise BadAnswer(f"{asked.address}: its answer ends inside a record, at byte {position}")
        size, queue_id, offset = head.size, head.queue_id, head.queue_offset
        if head.magic not in MAGICS or size < FIXED_SIZE or position + size > end:
            raise BadAnswer(f"{asked.address}: byte {position} of its answer begins no whole record")
        if queue_id != asked.queue_id or offset < (offsets[-1] + 1 if offsets else asked.begin):
            raise BadAnswer(
                f"{asked.address}: asked for queue {asked.queue_id} from offset {asked.begin} on, it gives offset "
                f"{offset} of queue {queue_id}"
            )
        if offset >= asked.end:
            stop = position
            break
        offsets.append(offset)
        position += size
    return (body if stop is None else memoryview(body)[:stop]), offsets

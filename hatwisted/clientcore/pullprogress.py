"""PULL_MESSAGE: the request, and what an answer means for the place reached and for the broker to ask next.

Which broker of the group is asked next is what the last answer suggests; when the master is gone, it's a slave. A
master that doesn't have the wanted offset says where to go on, and that is done. A slave isn't believed: it
may lag behind, or have begun later than its master, and going where it says would repeat messages or skip
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from hatwisted.clientcore.answers import number_in
from hatwisted.clientcore.driver import Log
from hatwisted.clientcore.errors import Refused
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.consumerdata import ALL_TAGS, TAG
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.registration import MASTER_ID
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import PullHeader

MASTER_PREFERENCE: Final = 30.0
"""Seconds that no suggestion leads away from the master, after another broker couldn't serve a pull."""

_PASSES: Final = frozenset((ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY))
"""Answers that continue after messages: those they bring, and those that a filter rejects."""
_PULLED: Final = _PASSES | {ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED}
"""Answers that say where to go on."""
_LOST_MEMBERSHIP: Final = frozenset(
    (
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_NOT_LATEST,
        ResponseCode.FILTER_DATA_NOT_EXIST,
    )
)


class NextStep(Enum):
    """What comes after an answer."""

    GO_ON = "pull again at once, from the offset it says"
    STUCK = "pull again after a pause: the broker says so, at the same place"
    TURN_AWAY = "ask another broker: this one can't serve us"
    LOST_MEMBERSHIP = "send the broker a heartbeat: it doesn't know the group"


class PullProgress:
    """Of one queue. `suggested`: the broker id to ask next. Times in seconds of one clock."""

    def __init__(self, queue: MessageQueue, log: Log) -> None:
        self.suggested = MASTER_ID
        self._queue = queue
        self._log = log
        self._prefer_master_until = 0.0
        self._mistrusted: tuple[str, int] | None = None

    def turn_away(self, now: float) -> None:
        """A broker couldn't serve us: the master is next."""
        self.suggested = MASTER_ID
        self._prefer_master_until = now + MASTER_PREFERENCE

    def answered(
        self, answer: RemotingCommand, address: str, at: int, *, by_master: bool, now: float
    ) -> tuple[NextStep, int]:
        """What comes next, and the offset to go on from.

        - answer: to a pull
        - address: who gave it
        - at: the offset it asked for
        - by_master: is that the master of the group?
        - now: seconds

        Raises Refused for an answer that isn't about offsets, BadAnswer for one that lacks them.
        """
        if answer.code in _LOST_MEMBERSHIP:
            return NextStep.LOST_MEMBERSHIP, at
        if answer.code not in _PULLED:
            raise Refused.of(address, answer)
        following = number_in(address, answer, "nextBeginOffset")
        suggested = MASTER_ID
        if now >= self._prefer_master_until and "suggestWhichBrokerId" in answer.ext:
            suggested = number_in(address, answer, "suggestWhichBrokerId")
        self.suggested = suggested
        # A broker that says "again, same place" means it, but not a thousand times a second.
        stuck = answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and following == at
        passes = following == at or (answer.code in _PASSES and following > at)
        if (stuck or not passes) and not self._believed(answer, address, at, following, by_master):
            return NextStep.TURN_AWAY, at
        return (NextStep.STUCK if stuck else NextStep.GO_ON), following

    def _believed(
        self, answer: RemotingCommand, address: str, at: int, following: int, by_master: bool
    ) -> bool:
        """May this broker move us? Says what happens, a slave's word once."""
        if following != at if by_master else self._mistrusted != (address, following):
            self._log.warn(
                "{queue}: offset {old} is {remark} at {address}, which offers {new}: {what}",
                queue=self._queue,
                old=at,
                remark=answer.remark,
                address=address,
                new=following,
                what="continuing there" if by_master else "ignored, as only a master may move the offset",
            )
        self._mistrusted = None if by_master else (address, following)
        return by_master


def queue_fields(queue: MessageQueue) -> dict[str, object]:
    """extFields of a request about an offset of `queue`."""
    return {"topic": queue.topic, "queueId": queue.queue_id, "bname": queue.broker_name}


@dataclass(frozen=True, kw_only=True, slots=True)
class PullTerms:
    """What a pull says besides its place.

    - flags: PullHeader's; COMMIT_OFFSET goes with `commit`, SUSPEND with `hold_ms`, SUBSCRIPTION with `expression`
    - commit: offset to be stored as the group's
    - hold_ms: ms that the broker may wait for a message
    - expression, expression_type: which messages
    - version: ms when the subscription was made
    """

    flags: int = PullHeader.SUBSCRIPTION
    commit: int = 0
    hold_ms: int = 0
    expression: str | None = ALL_TAGS
    expression_type: str = TAG
    version: int = 0


ALL_AT_ONCE: Final = PullTerms()
"""All messages there are now, whatever their tags."""


def pull_fields(
    group: str, queue: MessageQueue, at: int, count: int, terms: PullTerms = ALL_AT_ONCE
) -> dict[str, object]:
    """extFields of a pull.

    - group: that reads
    - queue: which
    - at: offset of the first message
    - count: messages at most
    - terms: how long the broker may wait, and what is filtered
    """
    return {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": queue.queue_id,
        "queueOffset": at,
        "maxMsgNums": count,
        "sysFlag": terms.flags,
        "commitOffset": terms.commit,
        "suspendTimeoutMillis": terms.hold_ms,
        "subscription": terms.expression,
        "subVersion": terms.version,
        "expressionType": terms.expression_type,
        "bname": queue.broker_name or None,
    }

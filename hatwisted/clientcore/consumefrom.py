"""Where a group begins in a queue: where it left off, or, if it has never read it, as configured."""

from __future__ import annotations

from typing import Final

from hatwisted.clientcore.answers import number_in
from hatwisted.clientcore.offsets import OffsetStore, broker_address
from hatwisted.clientcore.options import ConsumeFrom
from hatwisted.clientcore.session import Session
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.topics import RETRY_PREFIX

_CODES: Final = {
    ConsumeFrom.LAST: RequestCode.GET_MAX_OFFSET,
    ConsumeFrom.FIRST: RequestCode.GET_MIN_OFFSET,
    ConsumeFrom.TIMESTAMP: RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
}


class PullFrom:
    """Where reading a queue begins.

    - session: asks the brokers
    - offsets: the group's progress
    - place: for queues never read
    - timestamp: ms, for ConsumeFrom.TIMESTAMP
    """

    def __init__(self, session: Session, offsets: OffsetStore, place: ConsumeFrom, timestamp: int) -> None:
        self._session = session
        self.offsets = offsets
        self.place = place
        self._timestamp = timestamp

    async def of(self, queue: MessageQueue) -> int:
        """The offset to read first. Any error means "not known now"."""
        known = await self.offsets.read(queue)
        if known is not None:
            return known
        if queue.topic.startswith(RETRY_PREFIX):
            return 0
        fields: dict[str, object] = {"topic": queue.topic, "queueId": queue.queue_id}
        if self.place is ConsumeFrom.TIMESTAMP:
            fields["timestamp"] = self._timestamp
        address = broker_address(self._session, queue)
        answer = await self._session.ask(address, _CODES[self.place], fields)
        return number_in(address, answer, "offset")

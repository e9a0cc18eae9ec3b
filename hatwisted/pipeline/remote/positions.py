"""Where queues begin and end, and which offset a time means.

A time means the first message stored then or later. Brokers search in their own way (4.9.7 gives the nearer
neighbour, any of several messages of the same millisecond, and the last message for a time after all), so their
answer is only where the search for the exact offset begins: among the messages around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import succeeded
from hatwisted.clientcore.answers import number_in
from hatwisted.clientcore.command import command
from hatwisted.clientcore.pullprogress import queue_fields
from hatwisted.clientcore.routes import Replicas
from hatwisted.logcodec.recordhead import read_head
from hatwisted.pipeline.remote.groupquestions import Absent, Placed, Question, ask_groups
from hatwisted.pipeline.remote.queuepull import PullOptions, QueuePull, QueueRange, queue_name
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.remoting import RemotingCommand

FIRST_LOOK: Final = 8
"""Messages looked at on each side of what a broker answered; doubled until the time's edge is among them."""
_OFFSET: Final = "an offset"


@dataclass(frozen=True, slots=True)
class Bounds:
    """A queue's messages are at [low, high). by_master: the master says so; a slave may know of less."""

    low: int
    high: int
    by_master: bool = True

    def clamp(self, offset: int) -> int:
        """The nearest offset inside, `high` included."""
        return max(self.low, min(offset, self.high))


def bounds_of(
    driver: BlockingDriver, queues: Placed, absent: Absent | None = None
) -> dict[MessageQueue, Bounds]:
    """The bounds of each queue. BrokerGone if no broker of a group answers, Refused if all refuse.

    - driver: asks the cluster
    - queues: which, with their brokers
    - absent: as `ask_groups` takes it
    """
    codes = (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
    question = Question(_OFFSET, lambda queue: [_about(queue, code) for code in codes], _offset_in)
    found = {}
    for queue, answer in ask_groups(driver, queues, question, absent).items():
        low, high = answer.said
        # Retention may have moved on between the two requests: no queue ends before it begins.
        found[queue] = Bounds(low, max(low, high), answer.by_master)
    return found


def offsets_at(
    driver: BlockingDriver, queues: Placed, bounds: Mapping[MessageQueue, Bounds], milliseconds: int
) -> dict[MessageQueue, int]:
    """Of each queue the first message stored at some time or later; its end if there's none.

    - driver: asks the cluster
    - queues: which, with their brokers
    - bounds: what they hold
    - milliseconds: the time, since the epoch
    """
    code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    question = Question(_OFFSET, lambda queue: [_about(queue, code, timestamp=milliseconds)], _offset_in)
    filled = {queue: replicas for queue, replicas in queues.items() if bounds[queue].high > bounds[queue].low}
    found = {queue: bounds[queue].high for queue in queues}
    for queue, answer in ask_groups(driver, filled, question).items():
        search = _BoundarySearch(driver, queue, queues[queue], bounds[queue], milliseconds)
        found[queue] = search.boundary(bounds[queue].clamp(answer.said[0]))
    return found


class _BoundarySearch:
    """The exact place of a time in a queue, near an estimate."""

    def __init__(
        self,
        driver: BlockingDriver,
        queue: MessageQueue,
        replicas: Replicas,
        bounds: Bounds,
        milliseconds: int,
    ) -> None:
        self._driver = driver
        self._queue = queue
        self._replicas = replicas
        self._bounds = bounds
        self._wanted = milliseconds

    def boundary(self, estimate: int) -> int:
        """Go back until a message is older than the time, then forward to the first that isn't."""
        low, high = self._bounds.low, self._bounds.high
        begin = end = estimate
        reach = FIRST_LOOK
        while True:
            begin, end = max(low, begin - reach), min(high, end + reach)
            times = self._times(begin, end)
            older = [offset for offset, stored in times if stored < self._wanted]
            not_older = [offset for offset, stored in times if stored >= self._wanted]
            if begin > low and not older:
                end = begin  # all of them are too new: what is after them needn't be looked at again
            elif end < high and not not_older:
                begin = end
            else:
                # Where a clock was set back, times aren't in order: the earliest, so that nothing is left out.
                return min(not_older, default=end)
            reach *= 2

    def _times(self, begin: int, end: int) -> list[tuple[int, int]]:
        """(offset, store time in ms) of the messages there are in a range."""
        wanted = QueueRange(self._queue, begin, end, self._replicas)
        pull = QueuePull(self._driver, wanted, PullOptions(fail_on_loss=False))
        return [each for chunk in pull.chunks() for each in store_times(chunk)]


def store_times(records: bytes | memoryview) -> Iterator[tuple[int, int]]:
    """(queue offset, store time in ms) of whole records."""
    position = 0
    while (head := read_head(records, position)) is not None:
        yield head.queue_offset, head.store_timestamp
        position += head.size


def _about(queue: MessageQueue, code: int, **fields: object) -> RemotingCommand:
    return command(code, queue_fields(queue) | fields)


def _offset_in(address: str, queue: MessageQueue, answer: RemotingCommand) -> int:
    return number_in(address, succeeded(address, answer, f"{_OFFSET} of {queue_name(queue)}"), "offset")

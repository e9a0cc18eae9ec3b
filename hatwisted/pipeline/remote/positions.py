"""Where queues begin and end, and which offset a time means.

The master is asked, since a slave lags a moment; if it's down, a slave is. These are small requests, many of
them under way at once, and no load for a master.

A time means the first message stored then or later. Brokers search in their own way (4.9.7 gives the nearer
neighbour, any of several messages of the same millisecond, and the last message for a time after all), so their
answer is only where the search for the exact offset begins: among the messages around it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import succeeded
from hatwisted.clientcore.answers import number_in
from hatwisted.clientcore.command import command
from hatwisted.clientcore.errors import BadAnswer, BrokerGone, Refused
from hatwisted.clientcore.pullprogress import queue_fields
from hatwisted.clientcore.rounds import Rounds
from hatwisted.clientcore.routes import Replicas
from hatwisted.logcodec.recordhead import read_head
from hatwisted.pipeline.remote.queuepull import QueuePull, QueueRange, queue_name
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.registration import MASTER_ID
from hatwisted.wire.remoting import RemotingCommand

FIRST_LOOK: Final = 8
"""Messages looked at on each side of what a broker answered; doubled until the time's edge is among them."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A queue's messages are at [low, high). by_master: the master says so; a slave may know of less."""

    low: int
    high: int
    by_master: bool = True

    def clamp(self, offset: int) -> int:
        """The nearest offset inside, `high` included."""
        return max(self.low, min(offset, self.high))


Placed = Mapping[MessageQueue, Replicas]
"""Queues and the brokers of their groups."""


def bounds_of(driver: BlockingDriver, queues: Placed) -> dict[MessageQueue, Bounds]:
    """The bounds of each queue. BrokerGone if no broker of a group answers, Refused if all refuse."""
    codes = (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)

    def ask(group: Sequence[MessageQueue]) -> list[RemotingCommand]:
        return [_about(each, code) for each in group for code in codes]

    found = {}
    for queue, said in _ask_groups(driver, queues, ask).items():
        low, high = said.numbers
        # Retention may have moved on between the two requests: no queue ends before it begins.
        found[queue] = Bounds(low, max(low, high), said.by_master)
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

    def ask(group: Sequence[MessageQueue]) -> list[RemotingCommand]:
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        return [_about(each, code, timestamp=milliseconds) for each in group]

    filled = {queue: replicas for queue, replicas in queues.items() if bounds[queue].high > bounds[queue].low}
    found = {queue: bounds[queue].high for queue in queues}
    for queue, said in _ask_groups(driver, filled, ask).items():
        search = _BoundarySearch(driver, queue, queues[queue], bounds[queue], milliseconds)
        found[queue] = search.boundary(bounds[queue].clamp(said.numbers[0]))
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
        pull = QueuePull(self._driver, wanted, fail_on_loss=False)
        return [each for chunk in pull.chunks() for each in store_times(chunk)]


def store_times(records: bytes | memoryview) -> Iterator[tuple[int, int]]:
    """(queue offset, store time in ms) of whole records."""
    position = 0
    while (head := read_head(records, position)) is not None:
        yield head.queue_offset, head.store_timestamp
        position += head.size


def _about(queue: MessageQueue, code: int, **fields: object) -> RemotingCommand:
    return command(code, queue_fields(queue) | fields)


Ask = Callable[[Sequence[MessageQueue]], list[RemotingCommand]]
"""The requests about some queues: the same number for each, in order."""


@dataclass(frozen=True, slots=True)
class _GroupAnswer:
    """The field `offset` of some answers about a queue."""

    numbers: tuple[int, ...]
    by_master: bool


def _ask_groups(driver: BlockingDriver, queues: Placed, ask: Ask) -> dict[MessageQueue, _GroupAnswer]:
    """What the brokers say about each queue."""
    groups: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        groups[queue.broker_name].append(queue)
    found: dict[MessageQueue, _GroupAnswer] = {}
    for name, group in groups.items():
        replicas = {number: address for queue in group for number, address in queues[queue].items()}
        numbers, by_master = _ask_group(driver, name, replicas, group, ask)
        each = len(numbers) // len(group)
        for at, queue in enumerate(group):
            found[queue] = _GroupAnswer(tuple(numbers[at * each : (at + 1) * each]), by_master)
    return {queue: found[queue] for queue in queues}


def _ask_group(
    driver: BlockingDriver, name: str, replicas: Replicas, group: Sequence[MessageQueue], ask: Ask
) -> tuple[list[int], bool]:
    """Numbers from the master, or from a slave if the master is down, and from which; several rounds, as with
    reading."""
    order = sorted(replicas, key=lambda number: (number != MASTER_ID, number))
    numbers = {replicas[number]: number for number in order}
    what = f"an offset of {queue_name(group[0])}"
    rounds = Rounds(driver.settings.retries)
    while True:
        address = rounds.first_of(sorted(numbers, key=driver.is_dead))
        if address is None:
            pause = rounds.pause()
            if pause is None:
                details = "; ".join(map(str, rounds.failures.values()))
                details = details or "the name servers have no address for it"
                raise rounds.error(f"broker {name}: no broker of its group answers: {details}", details)
            driver.pause(pause)
            continue
        try:
            said = [succeeded(address, each, what) for each in driver.ask_all(address, ask(group))]
            return [number_in(address, each, "offset") for each in said], numbers[address] == MASTER_ID
        except (BrokerGone, BadAnswer, Refused) as failure:
            rounds.failed(address, failure)

"""One range of one queue, whole or not at all, from whichever brokers of its group have it.

Strategy: the range is cut into steps of what a broker gives at once, and the pulls of several steps are under way
at the same time; answers are passed on in order. A short answer (big messages, a broker that reads from its
disk) is completed by another pull, and steps shrink to what came.

The brokers of a group are taken in the order that `read_from` says. One that lacks the next offset is skipped
until the read has reached what it has: so a slave that began later, or lags a moment, gives what it
can. One that fails is skipped for this round. When none is left, the round is over: a pause, a fresh
route, and another round. Every answer with records begins a new count of rounds.

Only the master can say that messages are gone: then every broker lacks them, and the queue's least offset has
moved past them. Retention deletes a log file some moments before it moves that offset, hence a pause before it is
asked for. An offset that no broker has and that isn't below the least one is a hole in the queue, not a loss.

Where brokers filter, a pull covers many more messages than it brings. What was gone among them isn't said, so
when the range is done its first message is asked for once more: retention deletes from the beginning, and if
that one is still there, then so were all.

Rejected: long polling (the range's end is known to exist), and one pull at a time (32 messages a round trip).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import succeeded
from hatwisted.blocking.routes import Routes
from hatwisted.clientcore.answers import number_in
from hatwisted.clientcore.command import command
from hatwisted.clientcore.errors import (
    BadAnswer,
    BrokerGone,
    ClientError,
    OffsetsGone,
    OffsetsNotFound,
    Refused,
)
from hatwisted.clientcore.pullprogress import ALL_AT_ONCE, PullTerms, pull_fields, queue_fields
from hatwisted.clientcore.rounds import Rounds
from hatwisted.clientcore.routes import Replicas, replicas_of
from hatwisted.clientcore.tasks import Waiter
from hatwisted.pipeline.remote.pullanswer import MissingRange, PulledRecords, PullRequest, read_answer
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.registration import MASTER_ID
from hatwisted.wire.remoting import RemotingCommand

STEP: Final = 32
"""Messages of one pull; brokers give no more at once."""
FILTERED_STEP: Final = 800
"""Messages that brokers look at for one pull with a filter: 16,000 bytes of their queue."""
WINDOW: Final = 8
"""Pulls under way at once: with 32 messages of 1 KiB each they cover a round trip of 2 ms at 100 MB/s, and what
arrives meanwhile (256 KiB each, or one message) bounds the memory."""
MAX_MOVES: Final = 8
"""Suggestions of another broker that are followed in one range: two brokers may send a reader to each other."""
RETENTION_SETTLES: Final = 2.0
"""Seconds from a log file's deletion to the queues' new least offsets, at most: files are deleted ten at a time,
100 ms apart, and the queues follow."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class QueueRange:
    """Offsets [begin, end) of a queue, and where its brokers were when the range was planned."""

    queue: MessageQueue
    begin: int
    end: int
    replicas: Replicas

    def __str__(self) -> str:
        return f"{queue_name(self.queue)}, offsets {self.begin} to {self.end}"


def queue_name(queue: MessageQueue) -> str:
    """As messages call it."""
    return f"topic {queue.topic} queue {queue.queue_id} of {queue.broker_name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PullOptions:
    """How a range is read.

    - fail_on_loss: raise OffsetsGone for deleted messages; otherwise log them and continue after them
    - patience: seconds beyond the retries for which brokers that are away are waited for
    - terms: what brokers are to filter by
    """

    fail_on_loss: bool = True
    patience: float = 0.0
    terms: PullTerms = ALL_AT_ONCE

    @property
    def filtered(self) -> bool:
        """Do brokers leave messages out?"""
        return self.terms != ALL_AT_ONCE


WHOLE: Final = PullOptions()
"""All messages or an error, after the retries."""


class QueuePull:
    """Reads a range once.

    - driver: asks the cluster
    - wanted: the range
    - how: it's read
    """

    def __init__(self, driver: BlockingDriver, wanted: QueueRange, how: PullOptions = WHOLE) -> None:
        self._driver = driver
        self._queue = wanted.queue
        self._next = wanted.begin
        self._end = wanted.end
        self._replicas = dict(wanted.replicas)
        self._fail_on_loss = how.fail_on_loss
        self._how = how
        self._begin = wanted.begin
        self._longest_step = FILTERED_STEP if how.filtered else STEP
        # Messages that match, of all, going by the last answer.
        self._share = 1.0
        # Who filtered something for us.
        self._filtered_by: set[str] = set()
        # The broker that was suggested last, and how often one was.
        self._preferred: int | None = None
        self._moves = 0
        self._step = self._longest_step
        # What is known of each broker at the offset reached: where its messages resume, or why it failed.
        self._lacking: dict[str, MissingRange] = {}
        self._rounds = Rounds(driver.settings.retries, how.patience)
        # A queue with holes has many; the pause for retention is needed only once.
        self._has_holes = False

    def chunks(self) -> Iterator[bytes | memoryview]:
        """Whole records, back to back in each chunk, in the order of the queue. Ends only when the range does;
        raises OffsetsGone, OffsetsNotFound, BrokerGone or Refused."""
        while self._next < self._end:
            address = self._choose()
            if address is None:
                self._end_round()
                continue
            try:
                yield from self._read_from(address)
            except (BrokerGone, BadAnswer, Refused) as error:
                self._rounds.failed(address, error)
        for address in sorted(self._filtered_by):
            while not self._checks_begin(address):
                pause = self._rounds.pause()
                if pause is None:
                    raise self._final_error()
                self._driver.pause(pause)

    # ---- one broker

    def _read_from(self, address: str) -> Iterator[bytes | memoryview]:
        """What the broker has, up to the range's end or to what it lacks, or to where it sends us away."""
        under_way: deque[tuple[PullRequest, Waiter[RemotingCommand]]] = deque()
        ahead, connected = self._next, True
        try:
            while self._next < self._end:
                while connected and len(under_way) < WINDOW and ahead < self._end:
                    step = self._asked(address, ahead, min(ahead + self._step, self._end))
                    pull = self._driver.post(address, self._request(step))
                    under_way.append((step, pull))
                    ahead = step.end
                    connected = (
                        not pull.done
                    )  # it failed at once: it couldn't be sent, and others mustn't dial
                asked, pull = under_way.popleft()
                outcome = read_answer(asked, self._driver.wait(pull), self._how.filtered)
                if isinstance(outcome, MissingRange):
                    self._lacking[address] = outcome
                    return
                if outcome.upto < asked.end:
                    rest = self._asked(address, outcome.upto, asked.end)
                    under_way.appendleft((rest, self._driver.post(address, self._request(rest))))
                self._advance(asked, outcome)
                if self._how.filtered:
                    self._filtered_by.add(address)
                if outcome.count:
                    yield outcome.data
                if self._sent_elsewhere(address, outcome.suggested):
                    return
        finally:
            for _, pull in under_way:
                pull.give_up()

    def _asked(self, address: str, begin: int, end: int) -> PullRequest:
        return PullRequest(address, self._queue.queue_id, begin, end)

    def _request(self, step: PullRequest) -> RemotingCommand:
        length = step.end - step.begin
        # Not many more than match in it: those after it are cut off, and pulled again.
        count = min(length, STEP, int(length * self._share * 1.25) + 2)
        fields = pull_fields(self._driver.settings.group, self._queue, step.begin, count, self._how.terms)
        return command(RequestCode.PULL_MESSAGE, fields)

    def _advance(self, asked: PullRequest, found: PulledRecords) -> None:
        short, covered = found.upto < asked.end, found.upto - asked.begin
        came = covered if self._how.filtered else found.count
        if self._how.filtered:
            self._share = found.count / max(1, covered)
        self._step = max(1, came) if short else min(self._longest_step, self._step * 2)
        self._next = found.upto
        self._rounds.went_on()

    def _checks_begin(self, address: str) -> bool:
        """Ask a broker that has filtered the range for its first message, unfiltered: if that's there, nothing
        of the range was gone. False if it doesn't answer.
        """
        asked = self._asked(address, self._begin, self._begin + 1)
        fields = pull_fields(self._driver.settings.group, self._queue, self._begin, 1)
        try:
            answer = self._driver.ask(address, command(RequestCode.PULL_MESSAGE, fields))
            if isinstance(read_answer(asked, answer), MissingRange):
                # It's gone, or a hole.
                least = self._settled_least_offset(address, self._begin)
                if least > self._begin:
                    self._lost(self._begin, min(least, self._end), least)
        except (BrokerGone, BadAnswer, Refused) as error:
            self._rounds.failed(address, error)
            return False
        return True

    def _sent_elsewhere(self, address: str, suggested: int) -> bool:
        """Does the broker suggest another one that is up and not known to lack the messages?"""
        other = self._replicas.get(suggested)
        if self._driver.settings.read_from != "auto" or other is None or other == address:
            return False
        if self._moves >= MAX_MOVES or self._lacks(other) or self._driver.is_dead(other):
            return False
        self._preferred = suggested
        self._moves += 1
        return True

    # ---- all brokers of the group

    def _order(self) -> list[str]:
        """Addresses, in the order in which to ask them; the readers of several queues share several slaves."""
        slaves = [number for number in self._replicas if number != MASTER_ID]
        shift = self._queue.queue_id % len(slaves) if slaves else 0
        slaves = slaves[shift:] + slaves[:shift]
        masters = [number for number in self._replicas if number == MASTER_ID]
        ids = slaves + masters if self._driver.settings.read_from == "slave" else masters + slaves
        ids.sort(key=lambda number: number != self._preferred)
        return sorted((self._replicas[number] for number in ids), key=self._driver.is_dead)

    def _choose(self) -> str | None:
        """The first broker that may have the next offset and didn't fail in this round."""
        return self._rounds.first_of(each for each in self._order() if not self._lacks(each))

    def _lacks(self, address: str) -> bool:
        lacking = self._lacking.get(address)
        if lacking is None:
            return False
        return lacking.resume is None or lacking.resume > self._next

    def _end_round(self) -> None:
        """No broker can continue: skip what is gone, or pause and begin again, or give up."""
        master = self._replicas.get(MASTER_ID)
        if self._rounds.failures or master is None or not self._skips(master):
            pause = self._rounds.pause()
            if pause is None:
                raise self._final_error()
            self._driver.pause(pause)
            self._renew_replicas()
        # A lagging one may have caught up meanwhile, a failed one may be back.
        self._lacking.clear()

    def _skips(self, master: str) -> bool:
        """All brokers are up, and none has the next offset: continue after what is gone, if anything is."""
        if self._lacking[master].resume is None:
            return False
        try:
            least = self._settled_least_offset(master, self._next)
        except (BrokerGone, BadAnswer, Refused) as error:
            self._rounds.failed(master, error)
            return False
        known = self._lacking[master]
        self._lacking[master] = replace(known, resume=max(known.resume or 0, least))
        resume = min(each.resume for each in self._lacking.values() if each.resume is not None)
        skipped = min(resume, self._end)
        if least > self._next:
            self._lost(self._next, skipped, least)
            self._begin = skipped
        self._next = skipped
        return True

    def _lost(self, begin: int, end: int, least: int) -> None:
        """Messages [begin, end) are gone; the queue begins at `least`."""
        loss = f"{queue_name(self._queue)}: messages {begin} to {end - 1} are gone by retention"
        if self._fail_on_loss:
            raise OffsetsGone(
                f"{loss}: begin at {max(least, end)}, or set failOnDataLoss=false to continue without them"
            )
        _log.warning("%s; continuing without them", loss)

    def _settled_least_offset(self, master: str, offset: int) -> int:
        """The queue's least offset, once retention has finished if it may be at work at `offset`."""
        least = self._least_offset(master)
        if least <= offset and not self._has_holes:
            self._driver.pause(RETENTION_SETTLES)
            least = self._least_offset(master)
            self._has_holes = least <= offset
        return least

    def _least_offset(self, address: str) -> int:
        request = command(RequestCode.GET_MIN_OFFSET, queue_fields(self._queue))
        what = f"the least offset of {queue_name(self._queue)}"
        answer = succeeded(address, self._driver.ask(address, request), what)
        return number_in(address, answer, "offset")

    def _renew_replicas(self) -> None:
        """Ask the name servers where the group's brokers are now; what they don't know stays as it was."""
        try:
            route = Routes(self._driver, retries=0).route(self._queue.topic)
        except (BrokerGone, BadAnswer, Refused) as error:
            _log.info("%s: no fresh route: %s", queue_name(self._queue), error)
            return
        found = {} if route is None else replicas_of(route, self._queue.broker_name)
        # A master that left its name server is still tried at its old address: it may be back before the next
        # round.
        self._replicas |= found

    def _final_error(self) -> ClientError:
        where = f"{queue_name(self._queue)} at offset {self._next} of {self._end}"
        reasons = [f"{address} lacks it ({each.status})" for address, each in self._lacking.items()]
        reasons += [str(error) for error in self._rounds.failures.values()]
        details = "; ".join(reasons) or "no broker of this name is known"
        if not self._rounds.failures and MASTER_ID in self._replicas:
            return OffsetsNotFound(
                f"{where}: no broker has it: {details}: was the topic deleted, or the master replaced?"
            )
        gone = f"{where}: {details}: nothing of the range counts as read; read it again once it's back"
        return self._rounds.error(gone, f"{where}: {details}")

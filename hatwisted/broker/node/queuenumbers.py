"""Which number the next message of a queue gets, where a slave's log holds none of its messages.

A slave that begins in its master's last file (`haFirstSync=lastFile`) learns a queue's numbers from its records.
Of a queue that has had no message since it knows nothing. Promoted, it would number that one from 0 again: below
the progress of its groups, and where the former master, back as its slave, has other messages, which would lose
their places to the new ones. So a slave asks its master once for the ends of the queues that it has nothing of
(GET_TOPIC_STATS_INFO, which RocketMQ's masters answer too).

An end may count messages that the link still has to bring. It's taken once our log has come as far as the master's
had after the answer: a queue that is empty then has had its last message before our log begins. What is taken goes
to the disk at once, as no record of our log would tell it again after a failure of power.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.broker.node.masterlog import log_bounds
from hatwisted.broker.node.tablehold import TableHold
from hatwisted.broker.topic.topicconfig import TopicConfigTable
from hatwisted.clientcore.answers import TopicStats, by_queue
from hatwisted.clientcore.errors import CallFailed, ClientError, Refused
from hatwisted.remoting.client import RemotingClient
from hatwisted.store.messagestore import MessageStore
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.wire import layout
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.registration import decode_body
from hatwisted.wire.remoting import RemotingCommand

LOOK = 2.0
"""Seconds between two tries."""

TIMEOUT = 3.0
"""Seconds for an answer."""

Ends = dict[tuple[str, int], int]
"""Next queue offset by topic and queue id."""


class QueueNumbers:
    """Asks between `start` and `stop`, until it has been told.

    - client: calls the master
    - clock: of the tries
    - store: a slave's
    - topics: as copied from the master
    - hold: waits for our log
    - master: its address ("host:port") once its topics have been copied; None: they haven't, or it isn't known
    """

    _log = Logger()

    def __init__(
        self,
        client: RemotingClient,
        clock: IReactorTime,
        store: MessageStore,
        topics: TopicConfigTable,
        hold: TableHold,
        master: Callable[[], str | None],
    ) -> None:
        self._client = client
        self._store = store
        self._topics = topics
        self._hold = hold
        self._master = master
        self._under_way: Deferred[None] = succeed(None)
        self._loop = PeriodicCall(clock, "asking for the numbers of queues", self._turn)

    def start(self) -> None:
        """The first try comes after a LOOK."""
        self._loop.start(LOOK)

    def stop(self) -> None:
        """Ask no more; what is still answered isn't taken."""
        self._loop.stop()
        self._hold.drop()
        self._under_way.cancel()

    def link_changed(self) -> None:
        """The link has come, or gone: the log that is waited for may be lost with the master's power."""
        if self._hold.waiting:
            self._hold.drop()
            self._under_way.cancel()

    def _turn(self) -> Deferred[None]:
        self._under_way = self._try()
        return self._under_way.addErrback(_trap_cancelled)

    @inlineCallbacks
    def _try(self) -> Generator[Deferred[Any], Any, None]:
        master = self._master()
        log = self._store.log
        if master is None or not self._hold.agrees() or not log.max_offset:
            return
        if log.min_offset > 0 and not (yield self._told_by(master)):
            return
        self._loop.stop()

    @inlineCallbacks
    def _told_by(self, master: str) -> Generator[Deferred[Any], Any, bool]:
        """Have we all that it knows?"""
        try:
            ends = yield self._ask(master)
            info = yield self._call(master, RequestCode.GET_BROKER_RUNTIME_INFO)
        except (CallFailed, ClientError, ValueError):
            return False  # the tables are copied from there, too, and their copying says what is wrong
        log_end = log_bounds(info)[1]
        # More messages than the log can ever have had are a slip of whoever answers there.
        ends = {queue: end for queue, end in ends.items() if 0 < end * layout.FIXED_SIZE <= log_end}
        if ends:
            yield self._hold.wait(log_end)
            if self._store.dispatch_behind_bytes or master != self._master():
                return False
            self._take(ends)
            self._store.sync.request()
        return True

    def _call(self, master: str, code: RequestCode, **ext: str) -> Deferred[RemotingCommand]:
        return self._client.ask(master, RemotingCommand(code, ext=ext), TIMEOUT)

    @inlineCallbacks
    def _ask(self, master: str) -> Generator[Deferred[Any], Any, Ends]:
        """The ends of all queues that we have nothing of, as the master has them."""
        ends: Ends = {}
        for topic in self._topics.names():
            lacking = self._lacking(topic)
            if not lacking:
                continue
            try:
                answer = yield self._call(master, RequestCode.GET_TOPIC_STATS_INFO, topic=topic)
            except Refused as error:
                if error.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
                continue
            for queue, offsets in by_queue(master, decode_body(answer.body, TopicStats).offset_table).items():
                if queue.queue_id in lacking:
                    ends[topic, queue.queue_id] = offsets.max_offset
        return ends

    def _lacking(self, topic: str) -> set[int]:
        config = self._topics.get(topic)
        count = 0 if config is None else max(config.read_queue_nums, config.write_queue_nums)
        return {queue_id for queue_id in range(count) if not self._store.queue_end(topic, queue_id)}

    def _take(self, ends: Ends) -> None:
        taken = 0
        for (topic, queue_id), end in ends.items():
            if not self._store.queue_end(topic, queue_id):
                self._store.queues.get(topic, queue_id).begin_at(end)
                taken += 1
        self._log.info("the numbers of {count} queues without a message here are the master's", count=taken)


def _trap_cancelled(failure: Failure) -> None:
    failure.trap(CancelledError)

"""A slave takes over its master's tables: topics, consumer offsets, delay offsets, group settings.

They don't travel over the HA link but are asked for, in this order, every ten seconds (`slaveSyncInterval`). One
that fails is logged, keeps what the slave has, and stops neither the others nor the timer (B98 to B105). Topics
are asked for at the master's listenPort - 2, the rest at listenPort: RocketMQ's slaves do it so, and a RocketMQ
master answers both. Consumers' progress is the one table that goes both ways, see `offsetsync`.

What speaks of messages (progress of consumers and of delay levels) is held until our log has come as far as the
master's had then, see `tablehold`; as long as it's held, it isn't asked for again.

A topic made within the last ten seconds would be unknown to a slave whose master dies now, though its messages are
there. So the first message of a topic that the slave doesn't know makes it ask at once; a master of ours says when
topics or groups have changed, see `tablewatch`, and of RocketMQ's a name server knows, see `topicversions`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks, maybeDeferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.broker.consumer.offsetsync import asking_slave, flush_offset_of, joins_offsets, parts
from hatwisted.broker.consumer.progressbody import Progress, encode_progress, parse_progress
from hatwisted.broker.consumer.subscriptiongroup import GroupConfig, GroupTable
from hatwisted.broker.node.masterlog import log_bounds
from hatwisted.broker.node.progressjoin import joined
from hatwisted.broker.node.tabledoubt import believe
from hatwisted.broker.node.tablehold import TableHold
from hatwisted.broker.node.tablewatch import TableWatch
from hatwisted.broker.node.topicversions import AskVersion, TopicVersions, no_name_server
from hatwisted.broker.tables import BrokerTables
from hatwisted.clientcore.errors import CallFailed, Refused
from hatwisted.remoting.client import RemotingClient
from hatwisted.store.interfaces import GrownQueue
from hatwisted.timing.steps import Steps
from hatwisted.timing.timer import GuardedTimer
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.hostport import host_and_port
from hatwisted.wire.registration import TopicConfig, TopicTable
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.tablesteps import decoding_table

_Table = TypeVar("_Table", TopicTable, GroupTable)

UNKNOWN_TOPIC_PAUSE = 1.0
"""Seconds between rounds that messages of unknown topics ask for: many topics may be made at a time."""

CALL_TIMEOUT = 3.0
"""Seconds the master has for one answer."""

VIP_DISTANCE = 2
"""The port that serves topics is this much below listenPort."""


def vip_address(address: str) -> str:
    """ "host:port" of the fast port that belongs to a broker's address."""
    host, port = host_and_port(address)
    return f"{host}:{port - VIP_DISTANCE}"


@dataclass(frozen=True, kw_only=True)
class SyncOptions:
    """How a slave asks; times in seconds.

    - own_address: "host:port" as registered
    - broker_id: sent to our masters, for whom two slaves with one id are otherwise alike
    - first_delay: from the start to the first round, by when the name server has said where the master is
      (`slaveSyncFirstDelay`)
    - interval: between rounds (`slaveSyncInterval`)
    - ask_version: asks a name server how new a master's topics are
    """

    own_address: str
    broker_id: int = 1
    first_delay: float = 3.0
    interval: float = 10.0
    ask_version: AskVersion = no_name_server


class SlaveSynchronizer:
    """Runs the rounds between `start` and `stop`.

    - client: calls the master
    - clock: of the rounds
    - tables: what is copied
    - options: how often
    - hold: waits for our log
    - may_send_progress: are our messages the master's? If the logs have diverged, so have the offsets.
    """

    _log = Logger()

    def __init__(
        self,
        client: RemotingClient,
        clock: IReactorTime,
        tables: BrokerTables,
        options: SyncOptions,
        hold: TableHold,
        may_send_progress: Callable[[], bool],
    ) -> None:
        self._may_send_progress = may_send_progress
        self._hold = hold
        self._watch = TableWatch(client, clock, tables, self._copy_settings)
        self._versions = TopicVersions(
            clock, options.ask_version, lambda: tables.topics.version, self._copy_settings
        )
        self._master: str | None = None
        self.topics_from: str | None = None
        """The master that is followed, once its topics have been copied."""
        self._steps = Steps(clock, "taking the master's tables over")
        self._answers = 0
        self._taken: dict[type, int] = {}
        """Which of them brought the table of this kind that was taken last."""
        self._joining = False
        """Are steps of that to come? The rounds leave progress out meanwhile."""
        self._client = client
        self._clock = clock
        self._options = options
        self.master_flush_offset = 0
        """How far the master's log is on its disk, by its last word; 0 if it hasn't said (RocketMQ's never do)."""
        self.synced_at: float | None = None
        """Clock seconds of the last round that brought all tables; None before the first."""
        self._topics = tables.topics
        self._groups = tables.groups
        self._offsets = tables.offsets
        self._delays = tables.delays
        self._failing: set[RequestCode] = set()
        self._running = False
        self._under_way: Deferred[None] = succeed(None)
        """The timer's newest round."""
        self._held: Deferred[None] = succeed(None)
        """What was held newest, until all of it is taken."""
        self._timer = GuardedTimer(clock, "synchronising with the master", self._turn, options.interval)
        """Pending between `start` and `stop` unless a round is under way."""
        self._pause = options.interval
        """Seconds from the end of this round to the next."""
        self._last_turn = -options.interval
        self._asked_for: set[str] = set()
        """Unknown topics that have asked for a round since the table last changed: the master may not know
        them either, if they have been deleted."""

    def follow(self, address: str | None) -> None:
        """The master is at `address` ("host:port"), and asked at once if it wasn't there before; what another one
        still answers isn't taken. None or our own: nothing is asked (B100)."""
        if address == self._master:
            return
        self._master, self.topics_from = address, None
        if address is not None:
            self.round_now()
        self._drop()

    def start(self) -> None:
        """First round after the first delay, then one every interval."""
        self._running = True
        self._timer.set(self._options.first_delay)

    def stop(self) -> None:
        """No more rounds; what one under way would still bring isn't taken, nor what is held."""
        self._running = False
        self._timer.cancel()
        self._drop()

    def _drop(self) -> None:
        self._watch.follow(None)
        self._versions.follow(None)
        self._under_way.cancel()
        self._hold.drop()
        self._held.cancel()
        self._steps.forget(self)
        self._joining = False

    def round_now(self) -> None:
        """Don't wait for the next round: the master has just come, or come back. Nothing happens unless
        started; a round under way is followed by another."""
        if self._timer.pending:
            self._timer.set(0)
        else:
            self._pause = 0.0

    def arrived(self, grown: Sequence[GrownQueue]) -> None:
        """Messages are in these queues."""
        known = self._topics.known()
        for queue in grown:
            if queue.topic not in known and queue.topic not in self._asked_for:
                self._asked_for.add(queue.topic)
                self._round_soon()

    def _round_soon(self) -> None:
        due = self._timer.due
        if due is None:
            self._pause = min(self._pause, UNKNOWN_TOPIC_PAUSE)
            return
        now = self._clock.seconds()
        wait = max(0.0, self._last_turn + UNKNOWN_TOPIC_PAUSE - now)
        if due > now + wait:
            self._timer.set(wait)

    def _turn(self) -> Deferred[None]:
        self._pause = self._options.interval
        self._last_turn = self._clock.seconds()
        self._under_way = self.round()
        return self._under_way.addErrback(_trap_cancelled).addCallback(self._next)

    def _next(self, _: object) -> None:
        if self._running:
            self._timer.set(self._pause)

    @inlineCallbacks
    def round(self) -> Any:
        """Ask for the four tables, one after the other; fails only if it's cancelled."""
        master = self._master
        if master is None or master == self._options.own_address:
            return
        yield self._copy_topics(master)
        if not (self._hold.waiting or self._joining):
            yield self._copy_progress(master)
        yield self._copy_groups(master)
        if not self._failing:
            self.synced_at = self._clock.seconds()

    def _copy_topics(self, master: str) -> Deferred[None]:
        return self._copy(RequestCode.GET_ALL_TOPIC_CONFIG, vip_address(master), self._take_topics)

    def _copy_groups(self, master: str) -> Deferred[None]:
        return self._copy(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, master, self._take_groups)

    def _copy_settings(self) -> Deferred[None]:
        """Topics and groups, which the master says have changed."""
        master = self._master
        if master is None:
            return succeed(None)
        return self._copy_topics(master).addCallback(lambda _: self._copy_groups(master))

    @inlineCallbacks
    def _copy_progress(self, master: str) -> Generator[Deferred[Any], Any, None]:
        """What speaks of messages, and then how far the master's log goes: all of them lie below."""
        answers: dict[RequestCode, RemotingCommand] = {}
        who = asking_slave(self._options.broker_id, self._options.own_address)
        for code in (RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.GET_ALL_DELAY_OFFSET):
            yield self._copy(code, master, partial(answers.__setitem__, code), who)
        progress = answers.get(RequestCode.GET_ALL_CONSUMER_OFFSET)
        if progress is not None and self._running:
            ours = joins_offsets(progress)
            self._watch.follow(master if ours else None)
            self._versions.follow(None if ours else master)
        if answers:
            hold = partial(self._hold_answers, answers)
            yield self._copy(RequestCode.GET_BROKER_RUNTIME_INFO, master, hold)

    def _hold_answers(
        self, answers: Mapping[RequestCode, RemotingCommand], info: RemotingCommand
    ) -> Deferred[None] | None:
        taken = self._hold.wait(log_bounds(info)[1]).addCallback(lambda _: self._take_all(answers))
        if not self._hold.waiting:
            return taken
        self._held = taken.addErrback(_trap_cancelled)
        return None

    @inlineCallbacks
    def _take_all(
        self, answers: Mapping[RequestCode, RemotingCommand]
    ) -> Generator[Deferred[Any], Any, None]:
        for code, take in (
            (RequestCode.GET_ALL_CONSUMER_OFFSET, self._take_progress),
            (RequestCode.GET_ALL_DELAY_OFFSET, self._take_delays),
        ):
            if code in answers:
                yield self._guarded(code, maybeDeferred(take, answers[code]))

    def _copy(
        self,
        code: RequestCode,
        address: str,
        take: Callable[[RemotingCommand], object],
        ext: Mapping[str, str] | None = None,
    ) -> Deferred[None]:
        call = self._client.ask(address, RemotingCommand(code, ext=dict(ext or {})), CALL_TIMEOUT)
        return self._guarded(code, call.addCallback(take))

    def _guarded(self, code: RequestCode, copying: Deferred[Any]) -> Deferred[None]:
        return copying.addCallbacks(
            lambda _: self._failing.discard(code), self._not_copied, errbackArgs=(code,)
        )

    def _not_copied(self, failure: Failure, code: RequestCode) -> None:
        """Logged when it begins; the rounds after that are silent until one has worked."""
        if failure.check(CancelledError):
            failure.raiseException()
        if not failure.check(CallFailed, Refused, ValueError):
            self._log.failure("copying {what} failed", failure, what=code.name)
        elif code not in self._failing:
            self._failing.add(code)
            self._log.warn(
                "{what} not copied from the master; this slave keeps its own: {error}",
                event="tables.stale",
                what=code.name,
                error=failure.getErrorMessage(),
            )

    def _take_topics(self, answer: RemotingCommand) -> Deferred[None]:
        known = self._topics.known()
        reading = decoding_table(answer.body, TopicTable, TopicConfig, "topic_config_table", known)
        return self._read(reading, self._topics_read)

    def _read(self, reading: Generator[None, None, _Table], take: Callable[[_Table], None]) -> Deferred[None]:
        """A table read in steps, unless what a later answer has brought was taken meanwhile."""
        self._answers += 1
        number = self._answers

        def taken(table: _Table) -> None:
            if number > self._taken.get(type(table), 0):
                self._taken[type(table)] = number
                take(table)

        return self._steps.run(self, reading).addCallback(taken)

    def _topics_read(self, table: TopicTable) -> None:
        believe(self._topics.made(), self._topics.version, table.topic_config_table, table.data_version)
        self.topics_from = self._master
        if self._topics.replace(table):
            self._asked_for.clear()
            self._log.info(
                "topics copied from the master, version {number}", number=self._topics.version.counter
            )

    def _take_progress(self, answer: RemotingCommand) -> Deferred[None] | None:
        """A master of ours gets back what it doesn't know; RocketMQ's is right in everything it says."""
        if not joins_offsets(answer):
            self._offsets.take_over(answer.body)
            return None
        self.master_flush_offset = flush_offset_of(answer)
        walk = joined(self._offsets, parse_progress(answer.body), self._may_send_progress)
        self._joining = True
        return self._steps.run(self, walk).addBoth(self._end_join).addCallback(self._joined)

    def _end_join(self, result: Any) -> Any:
        self._joining = False
        return result

    def _joined(self, ahead: Progress | None) -> Deferred[None] | None:
        return None if ahead is None else self._send_progress(ahead)

    @inlineCallbacks
    def _send_progress(self, progress: Progress) -> Any:
        master = self._master
        for part in parts(progress):
            if master is None:
                return
            command = RemotingCommand(RequestCode.JOIN_CONSUMER_OFFSET, body=encode_progress(part))
            answer = yield self._client.ask(master, command, CALL_TIMEOUT)
            self._log.info(
                "sent the master the newer consumer offsets of {n} topic@group entries{but}",
                n=len(part.offset_table),
                but=f"; it answers: {answer.remark}" if answer.remark else "",
            )

    def _take_delays(self, answer: RemotingCommand) -> None:
        self._delays.take(answer.body)

    def _take_groups(self, answer: RemotingCommand) -> Deferred[None]:
        known = self._groups.known()
        reading = decoding_table(answer.body, GroupTable, GroupConfig, "subscription_group_table", known)
        return self._read(reading, self._groups_read)

    def _groups_read(self, table: GroupTable) -> None:
        believe(self._groups.made(), self._groups.version, table.subscription_group_table, table.data_version)
        if self._groups.replace(table):
            self._log.info(
                "groups copied from the master, version {number}", number=self._groups.version.counter
            )


def _trap_cancelled(failure: Failure) -> None:
    failure.trap(CancelledError)

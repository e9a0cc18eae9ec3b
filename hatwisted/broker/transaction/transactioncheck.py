"""The check of undecided transactions: producers are asked (39) what became of their half messages.

Each round walks the half queue from where the last one ended. A half with an op is passed; one that is too
young ends the round, as all after it are younger still; any other is parked again at the queue's end with its
count of checks raised, its producer is asked, and the walk moves on. So progress is one number per queue,
kept as that of consumer group CID_RMQ_SYS_TRANS where RocketMQ keeps it: either broker can go on with the
other's store.

Ops are read ahead of the halves, and those not yet met are kept; the op queue's progress never passes the
oldest of them, so a restart reads them again. Rejected: RocketMQ's one unbroken loop, as a round with many
halves would stop everything else here; a round runs in slices. A half that can't be put again ends the round
and is met by the next, where RocketMQ gives up those above the limit; one that never can be is given up. A round
goes as far as the queue did when it began. RocketMQ's ends at a half stored after that: one stored by a clock that
was ahead ends all rounds until then. And RocketMQ gives up a half by its age: one leap of a clock, or some days
without a broker, give up all that is undecided. Here its rounds count, and a round waits a while for a producer
that has yet to read what it was asked: one may have more transactions than a connection's buffers hold, and each
is to have its turn.

Only masters do this (B97 holds for halves too).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from msgspec import structs
from twisted.internet.defer import Deferred, inlineCallbacks, maybeDeferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from hatwisted.broker.consumer.clienttable import ClientTable
from hatwisted.broker.consumer.consumeroffset import CHECK_GROUP
from hatwisted.broker.consumer.consumerprocessors import ConsumerTables
from hatwisted.broker.put.innerput import InnerMessage, InnerPuts
from hatwisted.broker.transaction.halfmessages import (
    HALF_QUEUE,
    PROPERTY_FIRST_OFFSET,
    PROPERTY_IMMUNITY,
    again,
    decided_by,
    half_destination,
    number,
    parked_again,
)
from hatwisted.config.schema import BrokerConfig
from hatwisted.logcodec.encoder import RecordEncoder
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.errors import StoreError
from hatwisted.store.log.put import HOPELESS, STORED, Put
from hatwisted.store.messagestore import MessageStore
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.layout import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    PROPERTY_CHECK_TIMES,
    PROPERTY_PRODUCER_GROUP,
    PROPERTY_UNIQ_KEY,
    QUEUE_ENTRY,
)
from hatwisted.wire.messageid import encode_message_id
from hatwisted.wire.properties import NoDestination, encode_properties
from hatwisted.wire.remoting import RemotingCommand, encode_command
from hatwisted.wire.storedrecord import Record
from hatwisted.wire.topics import MAX_CHECKS_TOPIC

SLICE = 32
"""Halves or ops looked at before others have their turn; a few ms of work."""

MAX_KNOWN_OPS = 1_000_000
"""Decisions kept in memory (about 100 bytes each) until the walk meets their halves. Beyond it halves may be
asked about that are decided: their producers answer again."""

PATIENCE = 5.0
"""Most seconds that a round waits for producers that don't read."""

READ_PAUSE = 0.05
"""Seconds between two looks at those."""

_ONEWAY = 2


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """interval, timeout: seconds (`transactionCheckInterval`, `transactionTimeOut`); max_checks:
    `transactionCheckMax`; reserved: seconds (`fileReservedTime`) of asking after which a half is given up, and
    that it may be spared questions for."""

    interval: float = 60.0
    timeout: float = 6.0
    max_checks: int = 15
    reserved: float = 72 * 3600.0


def check_options(config: BrokerConfig) -> CheckOptions:
    """Those of a broker's configuration."""
    return CheckOptions(
        interval=config.transaction_check_interval / 1000,
        timeout=config.transaction_time_out / 1000,
        max_checks=config.transaction_check_max,
        reserved=config.file_reserved_time * 3600.0,
    )


class TransactionCheck:
    """Asks on a master between `start` and `stop`.

    - clock: tells what is due
    - store: has the halves
    - puts: store what is decided
    - tables: topics and groups
    - clients: who can be asked
    - options: when, and how often
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        store: MessageStore,
        puts: InnerPuts,
        tables: ConsumerTables,
        clients: ClientTable,
        options: CheckOptions,
    ) -> None:
        self._clock = clock
        self._store = store
        self._puts = puts
        self._offsets = tables.offsets
        self._topics = tables.topics
        self._clients = clients
        self._options = options
        self._decided: dict[int, int] = {}
        """Half offset -> offset of its op, in the order of ops."""
        self._ops_read = -1
        self._ops_done = -1
        self._immune: set[int] = set()
        """First offsets of halves parked again without a question: an op may still name these."""
        self._turn = 0
        self._patience = PATIENCE
        """What is left of it in this round."""
        self._loop = PeriodicCall(clock, "checking undecided transactions", self._round)

    def start(self) -> None:
        """The first round comes after an interval."""
        self._loop.start(self._options.interval)

    def stop(self) -> Deferred[Any]:
        """Ask no more; fires when the round under way has ended."""
        self._loop.stop()
        ended: Deferred[None] = Deferred()
        self._round_ended.addCallback(lambda _: ended.callback(None))
        return ended

    _round_ended: Deferred[Any] = succeed(None)

    # -- a round ---------------------------------------------------------------------------------------------

    @inlineCallbacks
    def _round(self) -> Generator[Deferred[Any], Any, None]:
        ended = self._round_ended = Deferred()
        try:
            yield self._walk()
        except (OSError, StoreError, LookupError) as error:
            self._log.warn("undecided transactions can't be checked now: {error}", error=error)
        finally:
            ended.callback(None)

    @inlineCallbacks
    def _walk(self) -> Generator[Deferred[Any], Any, None]:
        self._patience = PATIENCE
        at = self._begin(HALF_TOPIC)
        end = self._store.queue_end(HALF_TOPIC, HALF_QUEUE)
        yield self._read_ops(at)
        steps = 0
        while at < end and self._loop.running:
            if self._decided.pop(at, None) is None and not (yield self._undecided(at)):
                break
            at += 1
            steps += 1
            if steps % SLICE == 0:
                self._commit(HALF_TOPIC, at)
                yield deferLater(self._clock, 0)
        self._commit(HALF_TOPIC, at)
        self._ops_done = next(iter(self._decided.values()), self._ops_read)
        self._commit(OP_HALF_TOPIC, self._ops_done)

    def _begin(self, topic: str) -> int:
        """Where to go on in a queue of ours, within what it holds."""
        low, high = self._store.queue_offsets(topic, HALF_QUEUE)
        at = self._offsets.query(CHECK_GROUP, topic, HALF_QUEUE)
        return min(max(low if at is None else at, low), high)

    def _commit(self, topic: str, at: int) -> None:
        if self._offsets.query(CHECK_GROUP, topic, HALF_QUEUE) != at and self._store.queues.find(
            topic, HALF_QUEUE
        ):
            self._offsets.commit(CHECK_GROUP, topic, HALF_QUEUE, at)

    # -- ops -------------------------------------------------------------------------------------------------

    @inlineCallbacks
    def _read_ops(self, half_at: int) -> Generator[Deferred[Any], Any, None]:
        """Learn of all decisions stored by now."""
        begin = self._begin(OP_HALF_TOPIC)
        if begin != self._ops_done:  # the first round, or the progress was set by somebody else
            self._decided.clear()
            self._ops_read = begin
        end = self._store.queue_end(OP_HALF_TOPIC, HALF_QUEUE)
        while self._ops_read < end and len(self._decided) < MAX_KNOWN_OPS and self._loop.running:
            count = min(SLICE, end - self._ops_read)
            for index, position in self._places(OP_HALF_TOPIC, self._ops_read, count):
                op = self._store.record_at(position)
                for half in decided_by(op) if op is not None else ():
                    if half >= half_at or half in self._immune:
                        self._decided.setdefault(half, index)
            self._ops_read += count
            yield deferLater(self._clock, 0)

    def _places(self, topic: str, at: int, count: int) -> list[tuple[int, int]]:
        """(queue offset, log offset) of this many entries."""
        queue = self._store.queues.find(topic, HALF_QUEUE)
        entries = queue.read(at, count) if queue is not None else b""
        return [(index, entry[0]) for index, entry in enumerate(QUEUE_ENTRY.iter_unpack(entries), at)]

    # -- halves ----------------------------------------------------------------------------------------------

    def _undecided(self, at: int) -> Deferred[bool]:
        """Deal with one half; False ends the round before it."""
        places = self._places(HALF_TOPIC, at, 1)
        half = self._store.record_at(places[0][1]) if places else None
        if half is None or half.topic != HALF_TOPIC:
            return succeed(True)  # expired with its log file
        properties = half.properties
        first = number(properties.get(PROPERTY_FIRST_OFFSET, ""))
        if first >= 0 and self._decided.pop(first, None) is not None:
            self._immune.discard(first)
            return succeed(True)
        now = int(self._clock.seconds() * 1000)
        age = (now - half.born_timestamp) / 1000
        times = number(properties.get(PROPERTY_CHECK_TIMES, "0"))
        options = self._options
        if times >= options.max_checks or times * options.interval > options.reserved:
            return self._give_up(half, times)
        return self._by_age(half, properties, age, max(times, 0) + 1)

    def _by_age(self, half: Record, properties: dict[str, str], age: float, times: int) -> Deferred[bool]:
        own = PROPERTY_IMMUNITY in properties
        immunity = number(properties.get(PROPERTY_IMMUNITY, ""))
        spared = min(immunity, self._options.reserved) if immunity >= 0 else self._options.timeout
        if own and abs(age) < spared:  # a producer's clock may be ahead, by any time
            first = properties.setdefault(PROPERTY_FIRST_OFFSET, str(half.queue_offset))
            self._immune.add(number(first))
            return self._put(parked_again(half, properties)).addCallback(self._parked, half, properties)
        if not own and 0 <= age < self._options.timeout:
            return succeed(False)
        self._immune.discard(number(properties.get(PROPERTY_FIRST_OFFSET, "")))
        properties[PROPERTY_CHECK_TIMES] = str(times)
        return self._check(half, properties)

    def _give_up(self, half: Record, times: int) -> Deferred[bool]:
        self._topics.ensure(MAX_CHECKS_TOPIC, HALF_QUEUE + 1)
        self._log.warn(
            "half message {offset} of {group} stays undecided after {times} checks, it goes to {topic}",
            offset=half.queue_offset,
            group=half.properties.get(PROPERTY_PRODUCER_GROUP),
            times=max(times, 0),
            topic=MAX_CHECKS_TOPIC,
        )
        return self._put(again(half, MAX_CHECKS_TOPIC, HALF_QUEUE)).addCallback(self._given_up)

    def _given_up(self, put: Put) -> bool:
        if put.status in HOPELESS:
            self._log.error("{topic} doesn't take it: {reason}", topic=put.topic, reason=put.reason)
        return put.status in STORED or put.status in HOPELESS

    def _parked(self, put: Put, half: Record, properties: dict[str, str]) -> bool | Deferred[bool]:
        """Has it been parked again? One that can never be would end all rounds: it's asked about as it is, this
        once."""
        if put.status not in HOPELESS:
            return put.status in STORED
        self._log.warn(
            "half message {offset} can't be parked again: {reason}",
            offset=half.queue_offset,
            reason=put.reason,
        )
        self._immune.discard(number(properties.get(PROPERTY_FIRST_OFFSET, "")))
        self._ask(half.queue_offset, half.physical_offset, half, half.properties)
        return self._give_up(half, number(half.properties.get(PROPERTY_CHECK_TIMES, "")))

    def _put(self, message: InnerMessage) -> Deferred[Put]:
        return self._puts.put(message)

    # -- the question ----------------------------------------------------------------------------------------

    @inlineCallbacks
    def _check(self, half: Record, properties: dict[str, str]) -> Generator[Deferred[Any], Any, bool]:
        yield self._heard(properties.get(PROPERTY_PRODUCER_GROUP, ""))
        put = yield self._put(parked_again(half, properties))
        if put.status in STORED:
            self._ask(put.queue_offset, put.offset, half, properties)
        done: bool = yield maybeDeferred(self._parked, put, half, properties)
        return done

    @inlineCallbacks
    def _heard(self, group: str) -> Generator[Deferred[Any], Any, None]:
        """Wait until one of a group's producers reads, if there are any, and if this round's patience lasts."""
        while self._patience > 0 and self._loop.running and self._members(group):
            if any(not member.paused for member in self._members(group)):
                return
            self._patience -= READ_PAUSE
            yield deferLater(self._clock, READ_PAUSE)

    def _ask(self, queue_offset: int, offset: int, half: Record, properties: dict[str, str]) -> None:
        """Ask one of its producers, if there is one.

        - queue_offset, offset: where the half lies now, in its queue and in the log
        - half: as it was read
        - properties: as it has them now
        """
        group = properties.get(PROPERTY_PRODUCER_GROUP, "")
        producer = self._producer(group)
        if producer is None:
            self._log.info("no producer of group {group} is connected, and reads, to check with", group=group)
            return
        try:
            topic, queue_id = half_destination(properties)
        except NoDestination as error:
            self._log.warn("half message {offset}: {error}", offset=half.queue_offset, error=error)
            return
        shown = structs.replace(
            half,
            topic=topic,
            raw_properties=encode_properties(properties),
            queue_id=queue_id,
            queue_offset=queue_offset,
            physical_offset=offset,
        )
        producer.send(encode_command(_question(shown, properties)))

    def _producer(self, group: str) -> RemotingConnection | None:
        """One of the group's, in turn; of those that read: questions have a whole message with them."""
        members = [member for member in self._members(group) if not member.paused]
        if not members:
            return None
        self._turn += 1
        return members[self._turn % len(members)]

    def _members(self, group: str) -> list[RemotingConnection]:
        producers = self._clients.producers.get(group, ())
        return [member for member in producers if isinstance(member, RemotingConnection)]


def _question(shown: Record, properties: dict[str, str]) -> RemotingCommand:
    unique = properties.get(PROPERTY_UNIQ_KEY, "")
    ext = {
        "tranStateTableOffset": str(shown.queue_offset),
        "commitLogOffset": str(shown.physical_offset),
        "msgId": unique,
        "transactionId": unique,
        "offsetMsgId": encode_message_id(shown.store_host, shown.physical_offset),
    }
    return RemotingCommand(RequestCode.CHECK_TRANSACTION_STATE, flag=_ONEWAY, ext=ext, body=_encoded(shown))


def _encoded(shown: Record) -> bytes:
    """The half message as the record that it would be under its own topic."""
    one: Put[None] = Put(
        shown.topic,
        shown.queue_id,
        [(shown.flag, shown.body, shown.raw_properties)],
        shown.born_host.pack(),
        shown.born_timestamp,
        sys_flag=shown.sys_flag,
        reconsume_times=shown.reconsume_times,
    )
    encoder, parts = RecordEncoder(shown.store_host.pack()), list[bytes]()
    offsets = shown.physical_offset, shown.store_timestamp, shown.queue_offset
    encoder.encode(one, encoder.topic_field(shown.topic), parts, *offsets)
    return b"".join(parts)

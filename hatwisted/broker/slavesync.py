"""A slave takes over its master's tables: topics, consumer offsets, delay offsets, group settings.

They don't travel over the HA link but are asked for, in this order, every ten seconds. One that fails is
logged, keeps what the slave has, and stops neither the others nor the timer (B98 to B105). Topics are asked
for at the master's listenPort - 2, the rest at listenPort: RocketMQ's slaves do it so, and a RocketMQ
master answers both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.broker.groups import GroupTable, SubscriptionGroupTable
from hatwisted.broker.offsets import ConsumerOffsetTable
from hatwisted.broker.topics import TopicConfigTable
from hatwisted.remoting.client import CallFailed, RemotingClient, RequestRefused, parse_address
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.registration import TopicTable, decode_body
from hatwisted.wire.remoting import RemotingCommand

FIRST_DELAY = 3.0
"""Seconds from the start to the first round, by when the name server has told where the master is."""

INTERVAL = 10.0
"""Seconds between rounds."""

CALL_TIMEOUT = 3.0
"""Seconds the master has for one answer."""

VIP_DISTANCE = 2
"""The port that serves topics is this much below listenPort."""


def vip_address(address: str) -> str:
    """ "host:port" of the fast port that belongs to a broker's address."""
    host, port = parse_address(address)
    return f"{host}:{port - VIP_DISTANCE}"


class DelayOffsets:
    """The master's delay offsets as it sent them: kept for the file (`config/delayOffset.json`), not looked
    at,
    because a slave delivers no delayed message (B97). changed: called to have it written."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._text = b'{"offsetTable":{}}'
        self.changed = changed

    def take(self, text: bytes) -> None:
        """Remember what the master answered. Raises ValueError if it isn't such a table."""
        self.decode(text)
        self.changed()

    def encode(self) -> bytes:
        """The content of delayOffset.json on a slave: the bytes received."""
        return self._text

    def encode_compact(self) -> bytes:
        """The answer to GET_ALL_DELAY_OFFSET, whichever way the file is laid out."""
        return fastjson.dumps_compact(fastjson.loads(self._text))

    def decode(self, data: bytes) -> None:
        """Take over delayOffset.json. Raises ValueError."""
        if not isinstance(fastjson.loads(data), dict):
            raise ValueError("delay offsets must be an object")
        self._text = data


class SlaveSynchronizer:
    """Runs the rounds between `start` and `stop`.

    master: the master's address, set by whoever learns it; None or our own: nothing is asked (B100).
    """

    _log = Logger()

    def __init__(
        self,
        client: RemotingClient,
        clock: IReactorTime,
        own_address: str,
        topics: TopicConfigTable,
        groups: SubscriptionGroupTable,
        offsets: ConsumerOffsetTable,
        delays: DelayOffsets,
    ) -> None:
        self.master: str | None = None
        self._client = client
        self._clock = clock
        self._own_address = own_address
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._delays = delays
        self._failing: set[RequestCode] = set()
        self._first: IDelayedCall | None = None
        self._loop = LoopingCall(self.round)
        self._loop.clock = clock

    def start(self) -> None:
        """First round after FIRST_DELAY, then one every INTERVAL."""
        self._first = self._clock.callLater(FIRST_DELAY, self._loop.start, INTERVAL)

    def stop(self) -> None:
        """No more rounds; one under way ends by its calls' timeouts."""
        if self._first is not None and self._first.active():
            self._first.cancel()
        if self._loop.running:
            self._loop.stop()

    @inlineCallbacks
    def round(self) -> Any:
        """Ask for the four tables, one after the other; never fails."""
        master = self.master
        if master is None or master == self._own_address:
            return
        for code, address, take in (
            (RequestCode.GET_ALL_TOPIC_CONFIG, vip_address(master), self._take_topics),
            (RequestCode.GET_ALL_CONSUMER_OFFSET, master, self._offsets.merge),
            (RequestCode.GET_ALL_DELAY_OFFSET, master, self._delays.take),
            (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, master, self._take_groups),
        ):
            yield self._copy(code, address, take)

    def _copy(self, code: RequestCode, address: str, take: Callable[[bytes], None]) -> Deferred[None]:
        call = self._client.ask(address, RemotingCommand(code), CALL_TIMEOUT)
        copied = call.addCallback(lambda response: take(response.body))
        return copied.addCallbacks(
            lambda _: self._failing.discard(code), self._not_copied, errbackArgs=(code,)
        )

    def _not_copied(self, failure: Failure, code: RequestCode) -> None:
        """Told when it begins; the rounds after that are silent until one has worked."""
        if not failure.check(CallFailed, RequestRefused, ValueError):
            self._log.failure("copying {what} failed", failure, what=code.name)
        elif code not in self._failing:
            self._failing.add(code)
            self._log.warn(
                "{what} not copied from the master, what this slave has stays: {error}",
                what=code.name,
                error=failure.getErrorMessage(),
            )

    def _take_topics(self, body: bytes) -> None:
        if self._topics.replace(decode_body(body, TopicTable)):
            self._log.info(
                "topics copied from the master, version {number}", number=self._topics.version.counter
            )

    def _take_groups(self, body: bytes) -> None:
        if self._groups.replace(decode_body(body, GroupTable)):
            self._log.info(
                "groups copied from the master, version {number}", number=self._groups.version.counter
            )

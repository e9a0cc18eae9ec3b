"""A program's link to a RocketMQ cluster: connections, routes, heartbeats; producers and consumers stand on it.

    cluster = Cluster(reactor, "127.0.0.1:9876")
    producer = cluster.producer("orders")
    sent = await producer.send(Message(topic="Orders", body=b"..."))
    await cluster.close()

One `Cluster` has one identity (`client_id`) and one connection per broker, whatever number of producers and
consumers it serves; a broker sees their groups in one heartbeat, every 30 s, to masters for producers and to
every broker when there are consumers. What brokers ask in return (40, 39, 220) is handed to the member of the
group it is for.

API: whatever waits returns a Deferred, which `await` takes as well. No reactor is imported: it's given.
"""

from __future__ import annotations

import itertools
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IReactorTCP, IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from hatwisted.client.command import command
from hatwisted.client.errors import Closed, Refused
from hatwisted.client.routes import MASTER_ID, Routes
from hatwisted.remoting.client import CallFailed, ConnectFailed, RemotingClient, TooManyCalls
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.remoting import RemotingCommand

if TYPE_CHECKING:
    from hatwisted.client.admin import Admin
    from hatwisted.client.consumer import Consumer
    from hatwisted.client.producer import Producer
    from hatwisted.client.transactions import Check, TransactionProducer

HEARTBEAT_INTERVAL: Final = 30.0
ROUTE_INTERVAL: Final = 30.0
"""Seconds; RocketMQ's clients do the same, and brokers forget a client after 120."""
INNER_GROUP: Final = "CLIENT_INNER_PRODUCER"
CALL_TIMEOUT: Final = 3.0
"""Seconds for an ordinary answer of a broker (4.9.7: 3 s)."""

_numbers = itertools.count(1)


class GroupMember(Protocol):
    """A producer or consumer as its cluster sees it."""

    @property
    def group(self) -> str:
        """Group name."""

    @property
    def topics(self) -> list[str]:
        """Topics whose routes it needs."""

    def heartbeat(self) -> Mapping[str, object]:
        """Its entry in a heartbeat."""

    def asked(self, address: str, request: RemotingCommand) -> RemotingCommand | None:
        """A broker asks it something."""

    def stop(self) -> Deferred[None]:
        """Leave in order."""


class Cluster:
    """reactor: makes the connections; name_servers: "host:port", several separated by ";"; clock: for time
    other than the reactor's; client_id: unique among all clients ("host@pid#random" by default).
    """

    _log = Logger(namespace="hatwisted.client")

    def __init__(
        self,
        reactor: Any,
        name_servers: str | Sequence[str],
        *,
        clock: IReactorTime | None = None,
        client_id: str | None = None,
    ) -> None:
        servers = name_servers.split(";") if isinstance(name_servers, str) else list(name_servers)
        connector: IReactorTCP = reactor
        self.clock: IReactorTime = reactor if clock is None else clock
        self.client_id = client_id or default_client_id()
        self.remoting = RemotingClient(connector, self.clock)
        self.remoting.on_request = self._asked
        self.remoting.on_lost(self._lost)
        self.routes = Routes(self.remoting, self.clock, [each.strip() for each in servers if each.strip()])
        self._producers: dict[str, GroupMember] = {}
        self._consumers: dict[str, GroupMember] = {}
        self._beaten: set[str] = set()
        self._inner: Producer | None = None
        self._beat = self._loop(self._heartbeat_quietly)
        self._refresh = self._loop(self._refresh_routes)
        self._closed = self._introducing = False

    def _loop(self, what: Any) -> LoopingCall:
        loop = LoopingCall(what)
        loop.clock = self.clock
        return loop

    # ---- who stands on it

    def producer(self, group: str = "hatwisted-producer", **options: Any) -> Producer:
        """A new Producer of `group`; options as Producer's."""
        from hatwisted.client.producer import Producer

        return Producer(self, group, **options)

    def inner_producer(self) -> Producer:
        """The one that consumers give messages back by when their broker won't have them."""
        if self._inner is None:
            self._inner = self.producer(INNER_GROUP)
        return self._inner

    def transaction_producer(self, group: str, check: Check, **options: Any) -> TransactionProducer:
        """A new TransactionProducer of `group`; check: says what became of earlier messages."""
        from hatwisted.client.transactions import TransactionProducer

        return TransactionProducer(self, group, check, **options)

    def consumer(self, group: str, subscriptions: Mapping[str, Any], **options: Any) -> Consumer:
        """A new Consumer of `group`; it reads nothing before it is started. Options as Consumer's."""
        from hatwisted.client.consumer import Consumer

        return Consumer(self, group, subscriptions, **options)

    def admin(self) -> Admin:
        """Topics, groups and offsets of this cluster."""
        from hatwisted.client.admin import Admin

        return Admin(self)

    def join(self, member: GroupMember, *, consumer: bool) -> None:
        """From now on `member` is in the heartbeats. Closed, or ValueError if the group has one here."""
        if self._closed:
            raise Closed("this cluster link is closed")
        table = self._consumers if consumer else self._producers
        if table.get(member.group, member) is not member:
            raise ValueError(f"group {member.group} has a member on this cluster link already")
        table[member.group] = member
        if not self._beat.running:
            self._beat.start(HEARTBEAT_INTERVAL, now=False)
            self._refresh.start(ROUTE_INTERVAL, now=False)

    async def leave(self, member: GroupMember, *, consumer: bool) -> None:
        """Take `member` out of the heartbeats and tell all brokers that heard of it."""
        table = self._consumers if consumer else self._producers
        if table.get(member.group) is not member:
            return
        del table[member.group]
        field = "consumerGroup" if consumer else "producerGroup"
        ext = {"clientID": self.client_id, field: member.group}
        request = RemotingCommand(RequestCode.UNREGISTER_CLIENT, ext=ext)
        calls = [self.remoting.call(each, request, CALL_TIMEOUT) for each in sorted(self._beaten)]
        await DeferredList(calls, consumeErrors=True)
        if not self._producers and not self._consumers and self._beat.running:
            self._beat.stop()
            self._refresh.stop()

    def close(self) -> Deferred[None]:
        """Stop all producers and consumers in order, then close the connections."""
        return Deferred.fromCoroutine(self._close())

    async def _close(self) -> None:
        members = [*self._consumers.values(), *self._producers.values()]
        await DeferredList([member.stop() for member in members], consumeErrors=True)
        self._closed = True
        await self.remoting.close()

    # ---- asking brokers

    async def call(
        self,
        address: str,
        code: int,
        ext: Mapping[str, object] | None = None,
        body: bytes = b"",
        timeout: float = CALL_TIMEOUT,
    ) -> RemotingCommand:
        """The answer, whatever its code. CallFailed if there's none; who can't be reached is remembered."""
        try:
            return await self.remoting.call(address, command(code, ext, body), timeout)
        except TooManyCalls:
            raise
        except ConnectFailed:
            self.routes.unreachable(address)
            raise

    async def ask(
        self,
        address: str,
        code: int,
        ext: Mapping[str, object] | None = None,
        body: bytes = b"",
        timeout: float = CALL_TIMEOUT,
    ) -> RemotingCommand:
        """As `call`, and Refused when the answer isn't SUCCESS."""
        answer = await self.call(address, code, ext, body, timeout)
        if answer.code != ResponseCode.SUCCESS:
            raise Refused.of(address, answer)
        return answer

    # ---- heartbeats

    async def heartbeat(self) -> None:
        """Tell every broker that should know who is here; one that can't be reached hears it next time."""
        body = fastjson.dumps_compact(
            {
                "clientID": self.client_id,
                "consumerDataSet": [each.heartbeat() for each in self._consumers.values()],
                "producerDataSet": [each.heartbeat() for each in self._producers.values()],
            }
        )
        calls = [self._beat_one(address, body) for address in self._listeners()]
        await DeferredList([Deferred.fromCoroutine(call) for call in calls])

    def introduce(self) -> None:
        """Beat soon, if a known broker hasn't heard of this client yet."""
        if not self._introducing and not self._beaten.issuperset(self._listeners()):
            self._introducing = True
            self.in_background(self._introduce(), "first heartbeat")

    async def _introduce(self) -> None:
        try:
            await self.heartbeat()
        finally:
            self._introducing = False

    def _listeners(self) -> list[str]:
        return [
            address
            for addresses in self.routes.brokers().values()
            for number, address in addresses.items()
            if self._consumers or number == MASTER_ID
        ]

    async def _beat_one(self, address: str, body: bytes) -> None:
        try:
            await self.ask(address, RequestCode.HEART_BEAT, body=body)
        except (CallFailed, Refused) as error:
            self._log.info("heartbeat: {error}", error=error)
        else:
            self._beaten.add(address)

    def _heartbeat_quietly(self) -> None:
        if self._producers or self._consumers:
            self.in_background(self.heartbeat(), "heartbeat")

    def _refresh_routes(self) -> None:
        members = [*self._producers.values(), *self._consumers.values()]
        topics = {topic for member in members for topic in member.topics}
        self.in_background(self.routes.refresh(sorted(topics)), "refresh of routes")

    def in_background(self, work: Any, what: str) -> None:
        """Run a coroutine that nobody waits for; its failure is logged."""
        Deferred.fromCoroutine(work).addErrback(
            lambda failure: self._log.failure("{what} failed", failure=failure, what=what)
        )

    # ---- what brokers want

    def _lost(self, address: str) -> None:
        self._beaten.discard(address)

    def _asked(self, address: str, request: RemotingCommand) -> RemotingCommand | None:
        group = request.ext.get("consumerGroup") or request.ext.get("group")
        if request.code == RequestCode.CHECK_TRANSACTION_STATE:
            for producer in list(self._producers.values()):
                producer.asked(address, request)
            return None
        member = self._consumers.get(group or "")
        return None if member is None else member.asked(address, request)


def default_client_id() -> str:
    """Unique for each `Cluster`: members of a group share its queues by these names."""
    return f"{socket.gethostname()}@{os.getpid()}#{next(_numbers)}{secrets.token_hex(4)}"

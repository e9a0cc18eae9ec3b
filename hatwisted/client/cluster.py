"""A program's link to a RocketMQ cluster: what producers, consumers and administration are made from.

    cluster = Cluster(reactor, "127.0.0.1:9876")
    producer = cluster.producer("orders")
    sent = await producer.send(Message(topic="Orders", body=b"..."))
    await cluster.close()

API: whatever waits returns a Deferred, which `await` takes as well. No reactor is imported: it's given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, Unpack

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from hatwisted.client.admin import Admin
from hatwisted.client.consumer import Consumer
from hatwisted.client.driver import TwistedDriver, deferred
from hatwisted.client.producer import Producer, TransactionProducer
from hatwisted.clientcore.clusterlink import PRODUCER_GROUP, ClusterLink
from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.delivery import Listener
from hatwisted.clientcore.options import (
    ConsumerKeywords,
    ConsumerOptions,
    ProducerKeywords,
    ProducerOptions,
)
from hatwisted.clientcore.subscription import Sql
from hatwisted.clientcore.tls import Tls
from hatwisted.clientcore.transactions import Check
from hatwisted.remoting.interfaces import IConnecting
from hatwisted.remoting.tcp import TcpConnecting
from hatwisted.tls.tlsconnecting import encrypted


class Cluster:
    """One client to the brokers.

    reactor: the clock, and makes the connections
    name_servers: "host:port", several separated by ";"
    client_id: unique among all clients ("host@pid#random" by default)
    connecting: makes the connections; given it, any clock will do for `reactor`
    credentials: the account that its requests are signed for, where brokers ask (aclEnable)
    tls: how connections are encrypted; None: they aren't
    """

    def __init__(
        self,
        reactor: Any,
        name_servers: str | Sequence[str],
        *,
        client_id: str | None = None,
        connecting: IConnecting | None = None,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
    ) -> None:
        connecting = connecting or TcpConnecting(reactor)
        if tls is not None:
            connecting = encrypted(connecting, reactor, tls)
        self._use(TwistedDriver(reactor, connecting, credentials=credentials), name_servers, client_id)

    @classmethod
    def on(
        cls, driver: TwistedDriver, name_servers: str | Sequence[str], client_id: str | None = None
    ) -> Self:
        """For a program that makes its driver itself.

        - driver: the clock, the connections, and what's left to chance: a seeded one makes runs that replay
        - name_servers, client_id: as Cluster
        """
        made = cls.__new__(cls)
        made._use(driver, name_servers, client_id)
        return made

    def _use(self, driver: TwistedDriver, name_servers: str | Sequence[str], client_id: str | None) -> None:
        self.driver = driver
        self._link = ClusterLink(driver, name_servers, client_id)
        self.session = self._link.session

    @property
    def client_id(self) -> str:
        """Its name among all clients."""
        return self.session.client_id

    @property
    def clock(self) -> IReactorTime:
        """Its clock."""
        return self.driver.clock

    def producer(self, group: str = PRODUCER_GROUP, **options: Unpack[ProducerKeywords]) -> Producer:
        """A new Producer of `group`; options as ProducerOptions."""
        return Producer(self._link.producer(group, ProducerOptions(**options)))

    def transaction_producer(
        self, group: str, check: Check, **options: Unpack[ProducerKeywords]
    ) -> TransactionProducer:
        """A new TransactionProducer of `group`; check: says what became of earlier messages, a TransactionState,
        or a Deferred or coroutine of one."""
        core = self._link.transaction_producer(group, check, ProducerOptions(**options))
        return TransactionProducer(core)

    def consumer(
        self,
        group: str,
        subscriptions: Mapping[str, str | Sql],
        *,
        on_messages: Listener | None = None,
        **options: Unpack[ConsumerKeywords],
    ) -> Consumer:
        """A new Consumer, which reads nothing before it is started.

        - group: the consumer group
        - subscriptions: topic -> "*", "tag || tag" or Sql(...)
        - on_messages: gets batches, and gives None, a Deferred or a coroutine; None: for `async for`
        - options: as ConsumerOptions
        """
        return Consumer(self._link.consumer(group, subscriptions, on_messages, ConsumerOptions(**options)))

    def admin(self) -> Admin:
        """Topics, groups and offsets of this cluster."""
        return Admin(self._link.admin())

    def close(self) -> Deferred[None]:
        """Stop all consumers, then all producers, in order; then close the connections."""
        return deferred(self._link.close())

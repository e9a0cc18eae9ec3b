"""A program's link to a RocketMQ cluster, on asyncio.

async def main() -> None:
    async with Cluster("127.0.0.1:9876") as cluster:
        producer = cluster.producer("orders")
        sent = await producer.send(Message(topic="Orders", body=b"..."))

asyncio.run(main())
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self, Unpack

from hatwisted.aio.driver import AioDriver, run
from hatwisted.aio.members import Admin, Consumer, Producer, TransactionProducer
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


class Cluster:
    """One client to the brokers; use it in the loop where it is made.

    name_servers: "host:port", several separated by ";"
    client_id: unique among all clients ("host@pid#random" by default)
    credentials: the account that its requests are signed with, where brokers require one (aclEnable)
    tls: how connections are encrypted; None: they aren't
    """

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        client_id: str | None = None,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
    ) -> None:
        self.driver = AioDriver(credentials, tls)
        self._link = ClusterLink(self.driver, name_servers, client_id)
        self.session = self._link.session

    @property
    def client_id(self) -> str:
        """Its name among all clients."""
        return self.session.client_id

    def producer(self, group: str = PRODUCER_GROUP, **options: Unpack[ProducerKeywords]) -> Producer:
        """A new Producer of `group`; options as ProducerOptions."""
        return Producer(self._link.producer(group, ProducerOptions(**options)))

    def transaction_producer(
        self, group: str, check: Check, **options: Unpack[ProducerKeywords]
    ) -> TransactionProducer:
        """A new TransactionProducer of `group`; check: says what became of earlier messages: gives a
        TransactionState or a coroutine of one."""
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
        - on_messages: gets batches, and gives None or a coroutine; None: for `async for`
        - options: as ConsumerOptions
        """
        return Consumer(self._link.consumer(group, subscriptions, on_messages, ConsumerOptions(**options)))

    def admin(self) -> Admin:
        """Topics, groups and offsets of this cluster."""
        return Admin(self._link.admin())

    async def close(self) -> None:
        """Stop all consumers, then all producers, cleanly; then close the connections."""
        await run(self._link.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

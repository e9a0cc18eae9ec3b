"""A program's link to a RocketMQ cluster: what producers, consumers and administration are made from.

    cluster = Cluster(reactor, "127.0.0.1:9876")
    producer = cluster.producer("orders")
    sent = await producer.send(Message(topic="Orders", body=b"..."))
    await cluster.close()

One `Cluster` is one client to the brokers (`session.py`). It is the only module that knows all the others.

API: whatever waits returns a Deferred, which `await` takes as well. No reactor is imported: it's given.
"""

from __future__ import annotations

import itertools
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IReactorTime

from hatwisted.client.admin import Admin
from hatwisted.client.consumer import Consumer
from hatwisted.client.producer import Producer
from hatwisted.client.session import Session
from hatwisted.client.subscription import Sql
from hatwisted.client.transactions import Check, TransactionProducer

INNER_GROUP: Final = "CLIENT_INNER_PRODUCER"
"""Group of the producer that consumers give messages back by; RocketMQ's clients have one of this name."""

_numbers = itertools.count(1)


class Cluster:
    """reactor: makes the connections; name_servers: "host:port", several separated by ";"; clock: for time
    other than the reactor's; client_id: unique among all clients ("host@pid#random" by default).
    """

    def __init__(
        self,
        reactor: Any,
        name_servers: str | Sequence[str],
        *,
        clock: IReactorTime | None = None,
        client_id: str | None = None,
    ) -> None:
        servers = name_servers.split(";") if isinstance(name_servers, str) else name_servers
        self.session = Session(
            reactor,
            reactor if clock is None else clock,
            [each.strip() for each in servers if each.strip()],
            client_id or default_client_id(),
        )
        self._inner: Producer | None = None

    @property
    def client_id(self) -> str:
        """Its name among all clients."""
        return self.session.client_id

    @property
    def clock(self) -> IReactorTime:
        """What it tells the time by."""
        return self.session.clock

    def producer(self, group: str = "hatwisted-producer", **options: Any) -> Producer:
        """A new Producer of `group`; options as Producer's."""
        return Producer(self.session, group, **options)

    def transaction_producer(self, group: str, check: Check, **options: Any) -> TransactionProducer:
        """A new TransactionProducer of `group`; check: says what became of earlier messages."""
        return TransactionProducer(self.session, group, check, **options)

    def consumer(self, group: str, subscriptions: Mapping[str, str | Sql], **options: Any) -> Consumer:
        """A new Consumer of `group`; it reads nothing before it is started. Options as Consumer's."""
        return Consumer(self.session, group, subscriptions, self._inner_producer, **options)

    def admin(self) -> Admin:
        """Topics, groups and offsets of this cluster."""
        return Admin(self.session)

    def close(self) -> Deferred[None]:
        """Stop all consumers, then all producers, in order; then close the connections."""
        return Deferred.fromCoroutine(self._close())

    async def _close(self) -> None:
        # A consumer's last message may go back by a producer.
        await DeferredList([member.stop() for member in self.session.consumers], consumeErrors=True)
        await DeferredList([member.stop() for member in self.session.producers], consumeErrors=True)
        await self.session.close()

    def _inner_producer(self) -> Producer:
        if self._inner is None:
            self._inner = self.producer(INNER_GROUP)
        return self._inner


def default_client_id() -> str:
    """Unique for each `Cluster`: members of a group share its queues by these names."""
    return f"{socket.gethostname()}@{os.getpid()}#{next(_numbers)}{secrets.token_hex(4)}"

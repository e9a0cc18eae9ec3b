"""A program's link to a cluster, without its loop: what every `Cluster` makes its members from, and ends in
order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hatwisted.clientcore.address import split_addresses
from hatwisted.clientcore.admin import Admin
from hatwisted.clientcore.consumer import Consumer
from hatwisted.clientcore.delivery import Listener
from hatwisted.clientcore.driver import Driver
from hatwisted.clientcore.options import ConsumerOptions, ProducerOptions
from hatwisted.clientcore.producer import Producer
from hatwisted.clientcore.session import Session
from hatwisted.clientcore.subscription import Sql
from hatwisted.clientcore.tasks import settle_all
from hatwisted.clientcore.transactions import Check, TransactionProducer

PRODUCER_GROUP: Final = "hatwisted-producer"
"""Of producers that name none."""
CLIENT_ID_BYTES: Final = 8
"""Random ones, which distinguish the clients of a process."""
INNER_GROUP: Final = "CLIENT_INNER_PRODUCER"
"""Group of the producer that consumers send messages back by; RocketMQ's clients have one of this name."""


class ClusterLink:
    """One client to the brokers.

    driver: the loop it runs on
    name_servers: "host:port"; in a text several are separated by ";"
    client_id: unique among all clients, as members of a group share its queues by these names; None:
        "host@pid#random"
    """

    def __init__(
        self, driver: Driver, name_servers: str | Sequence[str], client_id: str | None = None
    ) -> None:
        if client_id is None:
            client_id = f"{driver.process_name}#{driver.randomness.randbytes(CLIENT_ID_BYTES).hex()}"
        self.session = Session(driver, split_addresses(name_servers), client_id)
        self._inner: Producer | None = None

    def producer(self, group: str, options: ProducerOptions) -> Producer:
        """A new one."""
        return Producer(self.session, group, options)

    def transaction_producer(self, group: str, check: Check, options: ProducerOptions) -> TransactionProducer:
        """A new one.

        - group: its own
        - check: says what became of earlier messages
        - options: as for a producer
        """
        return TransactionProducer(self.session, group, check, options)

    def consumer(
        self,
        group: str,
        subscriptions: Mapping[str, str | Sql],
        listener: Listener | None,
        options: ConsumerOptions,
    ) -> Consumer:
        """A new one, which reads nothing before it is started.

        - group: it is a member of
        - subscriptions: topic -> "*", "tag || tag" or Sql(...)
        - listener: the program's callback, None for `next_message`
        - options: how it consumes
        """
        return Consumer(self.session, group, subscriptions, self._inner_producer, listener, options)

    def admin(self) -> Admin:
        """Topics, groups and offsets of this cluster."""
        return Admin(self.session)

    async def close(self) -> None:
        """Stop all consumers, then all producers, in order; then close the connections."""
        # A consumer's last message may go back by a producer.
        await settle_all(member.stop() for member in self.session.consumers)
        await settle_all(member.stop() for member in self.session.producers)
        await self.session.close()

    def _inner_producer(self) -> Producer:
        if self._inner is None:
            self._inner = self.producer(INNER_GROUP, ProducerOptions())
        return self._inner

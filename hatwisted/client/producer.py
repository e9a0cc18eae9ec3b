"""Producers for Twisted programs: the logic of `clientcore.producer`, with Deferreds."""

from __future__ import annotations

from hatwisted.client.faces import returning_deferred
from hatwisted.clientcore import producer, transactions


class Producer:
    """Made by `Cluster.producer`. Methods return Deferreds, which `await` takes as well."""

    def __init__(self, core: producer.Producer) -> None:
        self._core = core

    @property
    def group(self) -> str:
        """Its producer group."""
        return self._core.group

    send = returning_deferred(producer.Producer.send)
    send_batch = returning_deferred(producer.Producer.send_batch)
    deliver = returning_deferred(producer.Producer.deliver)
    send_oneway = returning_deferred(producer.Producer.send_oneway)
    ready = returning_deferred(producer.Producer.ready)
    settled = returning_deferred(producer.Producer.settled)
    queues = returning_deferred(producer.Producer.queues)
    stop = returning_deferred(producer.Producer.stop)


class TransactionProducer(Producer):
    """Made by `Cluster.transaction_producer`."""

    _core: transactions.TransactionProducer

    def __init__(self, core: transactions.TransactionProducer) -> None:
        super().__init__(core)

    send_in_transaction = returning_deferred(transactions.TransactionProducer.send_in_transaction)

"""What a type checker accepts and refuses of the public API. mypy reads this with the rest; nothing runs it.

Each wrong line bears the error that it must give. As strict mypy complains of such a comment where there is none,
a wrong keyword that is let through fails the check, and so does a right one that is refused.
"""

from collections.abc import Sequence
from typing import Unpack

import hatwisted.aio
import hatwisted.blocking
import hatwisted.client
from hatwisted.client import (
    AckIndex,
    ConsumerKeywords,
    Message,
    ProducerKeywords,
    ReceivedMessage,
    TransactionState,
)


def check(message: ReceivedMessage) -> TransactionState:
    return TransactionState.COMMIT


async def check_later(message: ReceivedMessage) -> TransactionState:
    return TransactionState.COMMIT


def keep_last(batch: Sequence[ReceivedMessage]) -> AckIndex:
    return AckIndex(len(batch) - 2)


async def keep_last_later(batch: Sequence[ReceivedMessage]) -> AckIndex:
    return AckIndex(len(batch) - 2)


def count(batch: Sequence[ReceivedMessage]) -> int:
    return len(batch)


async def on_twisted(cluster: hatwisted.client.Cluster) -> None:
    cluster.producer("x", retries=4, coalesce=True)
    cluster.producer("x", retrys=4)  # type: ignore[call-arg]
    cluster.producer("x", timeout="3")  # type: ignore[arg-type]
    cluster.consumer("g", {"T": "*"}, batch=8, orderly=True)
    cluster.consumer("g", {"T": "*"}, bach=8)  # type: ignore[call-arg]
    cluster.consumer("g", {"T": "*"}, on_messages=keep_last)
    cluster.consumer("g", {"T": "*"}, on_messages=keep_last_later)
    cluster.consumer("g", {"T": "*"}, on_messages=count)  # type: ignore[arg-type]
    cluster.transaction_producer("g", check_later)
    cluster.transaction_producer("g", print)  # type: ignore[arg-type]
    cluster.transaction_producer("g", check, retrys=4)  # type: ignore[call-arg]
    producer = cluster.transaction_producer("g", check)
    await producer.send_in_transaction(Message(topic="T", body=b""), lambda _: TransactionState.UNKNOWN)
    await producer.send_in_transaction(Message(topic="T", body=b""), lambda _: True)  # type: ignore[arg-type, return-value]
    await cluster.admin().create_group("g", retryMaxTime=4)  # type: ignore[call-arg]
    await cluster.producer().send("no message")  # type: ignore[arg-type]


async def on_asyncio(cluster: hatwisted.aio.Cluster) -> None:
    cluster.producer("x", retries=4, coalesce=True)
    cluster.producer("x", retrys=4)  # type: ignore[call-arg]
    cluster.producer("x", timeout="3")  # type: ignore[arg-type]
    cluster.consumer("g", {"T": "*"}, batch=8, orderly=True)
    cluster.consumer("g", {"T": "*"}, bach=8)  # type: ignore[call-arg]
    cluster.consumer("g", {"T": "*"}, on_messages=keep_last)
    cluster.consumer("g", {"T": "*"}, on_messages=keep_last_later)
    cluster.consumer("g", {"T": "*"}, on_messages=count)  # type: ignore[arg-type]
    cluster.transaction_producer("g", check_later)
    cluster.transaction_producer("g", print)  # type: ignore[arg-type]
    cluster.transaction_producer("g", check, retrys=4)  # type: ignore[call-arg]
    producer = cluster.transaction_producer("g", check)
    await producer.send_in_transaction(Message(topic="T", body=b""), lambda _: TransactionState.UNKNOWN)
    await producer.send_in_transaction(Message(topic="T", body=b""), lambda _: True)  # type: ignore[arg-type, return-value]
    await cluster.admin().create_group("g", retryMaxTime=4)  # type: ignore[call-arg]
    await cluster.producer().send("no message")  # type: ignore[arg-type]


def blocking(cluster: hatwisted.blocking.Cluster) -> None:
    cluster.producer("x", retries=4, coalesce=True)
    cluster.producer("x", retrys=4)  # type: ignore[call-arg]
    cluster.admin().create_group("g", retryMaxTime=4)  # type: ignore[call-arg]
    cluster.producer().send("no message")  # type: ignore[arg-type]


class Shop:
    """A program's own wrapper hands keywords on."""

    def __init__(self, cluster: hatwisted.client.Cluster) -> None:
        self.cluster = cluster

    def producer(self, **options: Unpack[ProducerKeywords]) -> hatwisted.client.Producer:
        return self.cluster.producer("shop", **options)

    def consumer(self, topic: str, **options: Unpack[ConsumerKeywords]) -> hatwisted.client.Consumer:
        return self.cluster.consumer("shop", {topic: "*"}, **options)


def use(shop: Shop) -> None:
    shop.producer(retries=4)
    shop.producer(retrys=4)  # type: ignore[call-arg]
    shop.consumer("T", bach=8)  # type: ignore[call-arg]

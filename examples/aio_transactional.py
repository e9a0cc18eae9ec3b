"""Two orders in transactions: what is paid is delivered, what isn't never is. On asyncio.

python examples/aio_transactional.py [NAME_SERVERS]
"""

from __future__ import annotations

import asyncio
import sys

from hatwisted.aio import Cluster, ConsumeFrom, Message, ReceivedMessage, TransactionState

PAID: set[str] = set()
"""Stands for a database."""


async def pay(message: Message) -> TransactionState:
    """The program's own work, between the half message and its commit."""
    await asyncio.sleep(0.01)
    if message.keys[0] == "order-1":
        PAID.add(message.keys[0])
        return TransactionState.COMMIT
    return TransactionState.ROLLBACK


async def was_paid(message: ReceivedMessage) -> TransactionState:
    """Answers a broker that doesn't know a message's outcome."""
    return TransactionState.COMMIT if message.keys[0] in PAID else TransactionState.ROLLBACK


async def main(name_servers: str = "127.0.0.1:9876") -> None:
    async with Cluster(name_servers) as cluster:
        producer = cluster.transaction_producer("aio-payments", was_paid)
        for key in ("order-1", "order-2"):
            order = Message(topic="AioPayments", body=b"an order", keys=[key])
            _, state = await producer.send_in_transaction(order, pay)
            print(f"{key}: {state.name}")
        async with cluster.consumer(
            "aio-delivery", {"AioPayments": "*"}, consume_from=ConsumeFrom.FIRST
        ) as consumer:
            async for message in consumer:
                print(f"to be delivered: {message.keys[0]}")
                consumer.settle(message)
                break


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

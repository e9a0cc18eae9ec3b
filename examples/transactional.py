"""Orders that exist for consumers only if they were paid: half message, own work, commit or roll back.

python examples/transactional.py [NAME_SERVERS]
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.task import react

from hatwisted.client import Cluster, ConsumeFrom, Message, ReceivedMessage, TransactionState

PAID = {"order-1": True, "order-2": False}  # stands for the program's own database


def state_of(order: str) -> TransactionState:
    return TransactionState.COMMIT if PAID[order] else TransactionState.ROLLBACK


def work(message: Message) -> TransactionState:
    """The program's own work, while the broker withholds the message."""
    return state_of(message.keys[0])


def check(message: ReceivedMessage) -> TransactionState:
    """Answers a broker about an undecided message: this program may have crashed in the middle."""
    return state_of(message.keys[0])


async def main(reactor: Any, name_servers: str = "127.0.0.1:9876") -> None:
    cluster = Cluster(reactor, name_servers)
    try:
        producer = cluster.transaction_producer("shop", check)
        for order in PAID:
            message = Message(topic="PaidOrders", body=order.encode(), keys=[order])
            _, state = await producer.send_in_transaction(message, work)
            print(f"{order}: {state.name}")
        consumer = cluster.consumer("delivery", {"PaidOrders": "*"}, consume_from=ConsumeFrom.FIRST)
        await consumer.start()
        async for paid in consumer:
            print(f"to be delivered: {paid.body.decode()}")
            consumer.settle(paid)
            break
    finally:
        await cluster.close()


if __name__ == "__main__":
    react(main, sys.argv[1:])

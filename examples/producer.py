"""Sends one message by itself and ten as a batch, and prints where each of them is.

python examples/producer.py [NAME_SERVERS]
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.task import react

from hatwisted.client import Cluster, Message


async def main(reactor: Any, name_servers: str = "127.0.0.1:9876") -> None:
    cluster = Cluster(reactor, name_servers)
    try:
        producer = cluster.producer("examples")
        one = await producer.send(Message(topic="Examples", body=b"hello", tags="greeting", keys=["first"]))
        print(
            f"{one.status.name}: {one.message_id} in {one.queue.topic}/{one.queue.queue_id} at {one.queue_offset}"
        )

        batch = [Message(topic="Examples", body=f"number {n}".encode(), tags="count") for n in range(10)]
        many = await producer.send_batch(batch)
        print(f"{many[0].status.name}: {len(many)} messages in a row from offset {many[0].queue_offset} on")
    finally:
        await cluster.close()  # waits for outstanding answers


if __name__ == "__main__":
    react(main, sys.argv[1:])

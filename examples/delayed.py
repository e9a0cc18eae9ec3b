"""A reminder that is delivered a second after it was sent.

python examples/delayed.py [NAME_SERVERS]
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.task import react

from hatwisted.client import Cluster, ConsumeFrom, Message

ONE_SECOND = 1  # the first of the broker's messageDelayLevel: 1s 5s 10s 30s 1m ... 2h


async def main(reactor: Any, name_servers: str = "127.0.0.1:9876") -> None:
    cluster = Cluster(reactor, name_servers)
    try:
        producer = cluster.producer("examples")
        await producer.send(Message(topic="Reminders", body=b"stand up", delay_level=ONE_SECOND))
        consumer = cluster.consumer("sleepers", {"Reminders": "*"}, consume_from=ConsumeFrom.FIRST)
        await consumer.start()
        async for message in consumer:
            late = message.store_timestamp - message.born_timestamp
            print(f"{message.body.decode()}: delivered {late / 1000:.1f} s after it was sent")
            consumer.settle(message)
            break
    finally:
        await cluster.close()


if __name__ == "__main__":
    react(main, sys.argv[1:])

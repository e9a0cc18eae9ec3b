"""Prints the messages of a topic, from the first one on, until COUNT have arrived.

python examples/consumer.py [NAME_SERVERS [COUNT]]

Members of a group share the queues: start it several times. What a member hasn't settled when it stops is
delivered again, to it or to another.
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.task import react

from hatwisted.client import Cluster, ConsumeFrom


async def main(reactor: Any, name_servers: str = "127.0.0.1:9876", count: str = "11") -> None:
    cluster = Cluster(reactor, name_servers)
    try:
        consumer = cluster.consumer(
            "example-readers", {"Examples": "greeting || count"}, consume_from=ConsumeFrom.FIRST
        )
        await consumer.start()
        missing = int(count)
        async for message in consumer:  # asking for the next one settles this one
            print(f"{message.queue.queue_id}/{message.queue_offset} {message.tags}: {message.body.decode()}")
            missing -= 1
            if not missing:
                consumer.settle(message)
                break
    finally:
        await cluster.close()  # commits the group's progress


if __name__ == "__main__":
    react(main, sys.argv[1:])

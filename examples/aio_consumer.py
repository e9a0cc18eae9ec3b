"""Reads a topic as a member of a group, commits after every ten messages, and stops when none has arrived for
two seconds. On asyncio.

python examples/aio_consumer.py [NAME_SERVERS]
"""

from __future__ import annotations

import asyncio
import sys

from hatwisted.aio import Cluster, ConsumeFrom, Consumer

IDLE = 2.0  # seconds


async def read(consumer: Consumer) -> int:
    """Read until the topic is idle; returns the number of messages."""
    count = 0
    while True:
        try:
            message = await asyncio.wait_for(consumer.next_message(), IDLE)
        except TimeoutError:
            return count
        if message is None:  # somebody stopped the consumer
            return count
        count += 1
        consumer.settle(message)  # or consumer.reject(message): it would come again later
        if count % 10 == 0:
            await consumer.commit()
            print(f"{count} messages, up to offset {message.queue_offset} of queue {message.queue.queue_id}")


async def main(name_servers: str = "127.0.0.1:9876") -> None:
    topics = {"AioExamples": "*"}
    async with (
        Cluster(name_servers) as cluster,
        cluster.consumer(
            "aio-examples", topics, consume_from=ConsumeFrom.FIRST, auto_commit=False
        ) as consumer,
    ):
        count = await read(consumer)
        await consumer.commit()
    print(f"read {count}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

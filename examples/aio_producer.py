"""Sends a hundred messages concurrently, and prints how many each queue got. On asyncio.

python examples/aio_producer.py [NAME_SERVERS]
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter

from hatwisted.aio import Cluster, Message


async def main(name_servers: str = "127.0.0.1:9876") -> None:
    async with Cluster(name_servers) as cluster:
        # Messages that wait for earlier ones of their topic share requests.
        producer = cluster.producer("examples", coalesce=True, limit=10.0)
        sends = [producer.send(Message(topic="AioExamples", body=b"number %d" % n)) for n in range(100)]
        results = await asyncio.gather(*sends, return_exceptions=True)
    failures = [each for each in results if isinstance(each, BaseException)]
    stored = Counter(each.queue.queue_id for each in results if not isinstance(each, BaseException))
    for queue, count in sorted(stored.items()):
        print(f"queue {queue}: {count}")
    if failures:  # a SendFailed has each try, with the broker that was asked
        sys.exit(f"{len(failures)} not stored, the first of them: {failures[0]}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

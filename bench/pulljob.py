"""Pieces of work for bench/sparkjob.py that read a topic of a running cluster: our clients, and Spark's source.

A job names the cluster's "namesrv" and the "topic"; all three read the master.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from bench.kafkajob import narrowed
from hatwisted.aio import Cluster, ConsumeFrom, ReceivedMessage
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.pipeline.remote.clusterreader import ClusterReader
from hatwisted.pipeline.remote.queuepull import QueueRange

Job = dict[str, Any]
BATCH = 32
"""Messages that a consumer's program is given at once: what one pull brings."""
PATIENCE = 300.0
"""Seconds until a consumer has all."""


def pull(job: Job) -> Callable[[], int]:
    """The reader that the source's tasks have, alone: one queue after the other, records as they come."""
    settings = ClusterSettings(name_servers=(job["namesrv"],), read_from="master")

    def run() -> int:
        pulled = 0
        with ClusterReader(settings) as cluster:
            queues = cluster.queues([job["topic"]])
            for queue, bounds in cluster.bounds(queues).items():
                wanted = QueueRange(queue, bounds.low, bounds.high, queues[queue])
                for _ in cluster.records(wanted):
                    pass
                pulled += bounds.high - bounds.low  # all of them came, or it's an error
        return pulled

    return run


def consume(job: Job) -> Callable[[], int]:
    """A consumer of a new group, which has each message as an object; until it has had as many as "records"."""

    async def consumed() -> int:
        seen = 0
        done = asyncio.Event()

        async def listen(messages: Sequence[ReceivedMessage]) -> None:
            nonlocal seen
            seen += len(messages)
            if seen >= job["records"]:
                done.set()

        async with asyncio.timeout(PATIENCE), Cluster(job["namesrv"]) as cluster:
            consumer = cluster.consumer(
                f"bench-{uuid4().hex}",  # one of an earlier process has its offsets at the broker
                {job["topic"]: "*"},
                on_messages=listen,
                batch=BATCH,
                consume_from=ConsumeFrom.FIRST,
            )
            async with consumer:
                await done.wait()
        return seen

    return lambda: asyncio.run(consumed())


def source(job: Job) -> Callable[[], int]:
    """All rows by Spark's source with the columns asked for, built and handed to Spark's JVM, which drops them."""
    from hatwisted.pipeline.spark.sparksession import spark_session

    reader = spark_session(f"local[{job['cores']}]").read.format("rocketmq")
    reader = reader.option("namesrvAddr", job["namesrv"]).option("topics", job["topic"])
    reader = narrowed(reader.option("readFrom", "master"), job)

    def run() -> int:
        return int(reader.load().count())

    return run

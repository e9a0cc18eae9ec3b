"""What a type checker accepts and refuses of the public API. mypy reads this with the rest; nothing runs it.

Each wrong line bears the error that it must give. As strict mypy complains of such a comment where there is none,
a wrong keyword that is let through fails the check, and so does a right one that is refused.
"""

import hatwisted.aio
import hatwisted.client


async def on_twisted(cluster: hatwisted.client.Cluster) -> None:
    cluster.producer("x", retries=4, coalesce=True)
    cluster.producer("x", retrys=4)  # type: ignore[call-arg]
    cluster.producer("x", timeout="3")  # type: ignore[arg-type]
    cluster.consumer("g", {"T": "*"}, batch=8, orderly=True)
    cluster.consumer("g", {"T": "*"}, bach=8)  # type: ignore[call-arg]
    cluster.transaction_producer("g", print, retrys=4)  # type: ignore[call-arg]
    await cluster.admin().create_group("g", retryMaxTime=4)  # type: ignore[call-arg]
    await cluster.producer().send("no message")  # type: ignore[arg-type]


async def on_asyncio(cluster: hatwisted.aio.Cluster) -> None:
    cluster.producer("x", retries=4, coalesce=True)
    cluster.producer("x", retrys=4)  # type: ignore[call-arg]
    cluster.producer("x", timeout="3")  # type: ignore[arg-type]
    cluster.consumer("g", {"T": "*"}, batch=8, orderly=True)
    cluster.consumer("g", {"T": "*"}, bach=8)  # type: ignore[call-arg]
    cluster.transaction_producer("g", print, retrys=4)  # type: ignore[call-arg]
    await cluster.admin().create_group("g", retryMaxTime=4)  # type: ignore[call-arg]
    await cluster.producer().send("no message")  # type: ignore[arg-type]

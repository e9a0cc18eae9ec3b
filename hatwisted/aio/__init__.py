"""A RocketMQ client for asyncio programs: `Cluster`, and on it `Producer`, `Consumer` and `Admin`. Coroutines
throughout, `async with` and `async for`; no reactor, no thread.

The logic is `hatwisted.clientcore`; here are its driver (`driver`, `link`) and its methods as asyncio
coroutines (`members`, `cluster`)."""

from hatwisted.aio.cluster import Cluster
from hatwisted.aio.members import Admin, Consumer, Producer, TransactionProducer
from hatwisted.clientcore import api
from hatwisted.clientcore.api import *  # noqa: F403

__all__ = ["Admin", "Cluster", "Consumer", "Producer", "TransactionProducer"]
__all__ += api.__all__

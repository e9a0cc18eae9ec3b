"""A RocketMQ client for Twisted programs: `Cluster`, and on it `Producer`, `Consumer` and `Admin`. Deferreds
throughout, which `await` takes as well; works against hatwisted and RocketMQ 4.x and 5.x brokers.

The logic is `hatwisted.clientcore`; here are only the reactor (`driver`) and the methods that return Deferreds
(`faces`, and with them `cluster`, `producer`, `consumer`, `admin`)."""

from hatwisted.client.admin import Admin
from hatwisted.client.cluster import Cluster
from hatwisted.client.consumer import Consumer
from hatwisted.client.producer import Producer, TransactionProducer
from hatwisted.clientcore import api
from hatwisted.clientcore.api import *  # noqa: F403

__all__ = ["Admin", "Cluster", "Consumer", "Producer", "TransactionProducer"]
__all__ += api.__all__

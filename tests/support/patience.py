"""A client of ours that gives brokers more time than it would by itself.

Its calls time out after 3 s, as RocketMQ's do, and are then repeated or given up. While a machine stands still for
some seconds brokers don't answer either, and a test would see a message twice.
"""

from __future__ import annotations

from typing import TypeVar

from hatwisted import aio, client

STALL_SECONDS = 10.0  # added to each timeout


AnyCluster = TypeVar("AnyCluster", client.Cluster, aio.Cluster)


def patient(cluster: AnyCluster, seconds: float = STALL_SECONDS) -> AnyCluster:
    """The same cluster link, whose calls may take so much longer."""
    call = cluster.driver.call
    cluster.driver.call = lambda address, command, timeout: call(address, command, timeout + seconds)
    return cluster

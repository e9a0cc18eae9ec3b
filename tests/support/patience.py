"""A client of ours that gives brokers more time than it would by itself.

Its calls time out after 3 s, as RocketMQ's do, and are then repeated or given up. While a machine stands still for
some seconds brokers don't answer either, and a test would see a message twice.
"""

from __future__ import annotations

from hatwisted.client import Cluster

STALL_SECONDS = 10.0  # added to each timeout


def patient(cluster: Cluster, seconds: float = STALL_SECONDS) -> Cluster:
    """The same cluster link, whose calls may take so much longer."""
    call = cluster.driver.call
    cluster.driver.call = lambda address, command, timeout: call(address, command, timeout + seconds)
    return cluster

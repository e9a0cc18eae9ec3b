"""One look at a cluster, as a Deferred."""

from __future__ import annotations

from hatwisted.client.cluster import Cluster
from hatwisted.client.driver import deferred
from hatwisted.clientcore.survey import Survey
from hatwisted.health.figures import Look
from hatwisted.metrics.looking import look_at_cluster


async def look_at(cluster: Cluster, *, consumers: bool = True, before: Look | None = None) -> Look:
    """Ask everybody.

    - cluster: how
    - consumers: their groups, too, which costs the most requests
    - before: an earlier look, whose brokers are asked if no name server answers; None: that raises NoNameServer
    """
    found: Look = await deferred(look_at_cluster(Survey(cluster.session), consumers=consumers, before=before))
    return found

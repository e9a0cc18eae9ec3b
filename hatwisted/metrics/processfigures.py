"""A server's process: whether it's well, and what may run out, connections, descriptors, certificates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from prometheus_client import ProcessCollector
from prometheus_client.core import GaugeMetricFamily

from hatwisted.metrics.families import Figures, counter, gauge, labelled
from hatwisted.metrics.web import Probed
from hatwisted.timing.garbage import Pauses

Expiries = Callable[[], Mapping[str, float]]


class Server(NamedTuple):
    """One that is shown.

    - health: what is wrong with it
    - connections: of clients, now
    - most_connections: that there may be
    - expiries: a certificate's file -> seconds since the epoch at which it expires
    - pauses: for which it has stood still to look for garbage
    """

    health: Probed
    connections: Callable[[], int]
    most_connections: int
    expiries: Expiries
    pauses: Pauses


class ProcessFigures:
    """A source. server: whose process it is."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._process = ProcessCollector(registry=None)

    def __call__(self) -> Figures:
        """See families.Source."""
        server = self._server
        yield gauge("hatwisted_up", "1 if it lives, as /healthz.", not server.health.dead())
        yield gauge("hatwisted_ready", "1 if it's ready, as /readyz.", not server.health.unready())
        yield gauge("hatwisted_connections", "Clients connected.", server.connections())
        yield gauge("hatwisted_connections_limit", "How many there may be.", server.most_connections)
        yield labelled(
            GaugeMetricFamily,
            "hatwisted_certificate_expiry_timestamp_seconds",
            "When a certificate expires, in seconds since the epoch.",
            ["path"],
            [([path], at) for path, at in server.expiries().items() if math.isfinite(at)],
        )
        yield gauge(
            "hatwisted_garbage_longest_seconds",
            "Longest that a look for garbage has kept the server from its work.",
            server.pauses.longest,
        )
        yield counter(
            "hatwisted_garbage_seconds_total", "Seconds of all looks for garbage.", server.pauses.total
        )
        yield None
        yield from self._process.collect()

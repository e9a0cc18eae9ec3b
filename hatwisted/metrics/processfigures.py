"""Who the broker is, its process, what its start has found, and what may run out: certificates, connections."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from prometheus_client import ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from twisted.internet.interfaces import IReactorTime

from hatwisted import __version__
from hatwisted.broker.node.brokernode import BrokerNode
from hatwisted.config.schema import BrokerRole
from hatwisted.metrics.families import Figures, gauge, labelled
from hatwisted.metrics.health import Health
from hatwisted.metrics.trafficfigures import Labels

Expiries = Callable[[], Mapping[str, float]]


class ProcessFigures:
    """A source.

    - node: the broker
    - health: what is wrong with it
    - expiries: a certificate's file -> seconds since the epoch at which it expires
    - clock: the node's
    """

    def __init__(self, node: BrokerNode, health: Health, expiries: Expiries, clock: IReactorTime) -> None:
        self._node = node
        self._health = health
        self._expiries = expiries
        self._clock = clock
        self._process = ProcessCollector(registry=None)

    def __call__(self) -> Figures:
        """See families.Source."""
        node, parts = self._node, self._node.parts
        identity, role = parts.identity, parts.role
        kind = BrokerRole.SLAVE if role.slave else parts.config.config.broker_role
        yield labelled(
            GaugeMetricFamily,
            "hatwisted_broker_info",
            "Who this is; always 1.",
            ["cluster", "broker", "broker_id", "role", "version"],
            [([identity.cluster, identity.name, str(role.broker_id), kind.value, __version__], 1)],
        )
        yield gauge("hatwisted_up", "1 if the broker lives, as /healthz.", not self._health.dead())
        yield gauge("hatwisted_ready", "1 if it's ready, as /readyz.", not self._health.unready())
        yield labelled(
            GaugeMetricFamily,
            "rocketmq_broker_permission",
            "4: may be read from, 2: may be sent to, 6: both.",
            Labels._fields,
            [([identity.cluster, "broker", identity.name], parts.config.config.broker_permission)],
        )
        yield gauge(
            "hatwisted_name_servers_registered",
            "Name servers that have taken our registration.",
            parts.registration.registered_at,
        )
        yield gauge(
            "hatwisted_name_servers_configured", "Name servers.", len(parts.config.config.name_servers)
        )
        yield gauge("hatwisted_connections", "Clients connected.", node.connections)
        yield gauge("hatwisted_connections_limit", "How many there may be.", parts.connections.most)
        yield gauge(
            "hatwisted_held_pulls", "Pulls that wait for a message (at most 100,000).", parts.hold.count
        )
        yield from self._recovery()
        yield labelled(
            GaugeMetricFamily,
            "hatwisted_certificate_expiry_timestamp_seconds",
            "When a certificate expires, in seconds since the epoch.",
            ["path"],
            [([path], at) for path, at in self._expiries().items() if math.isfinite(at)],
        )
        yield None
        yield from self._process.collect()

    def _recovery(self) -> Figures:
        report = self._node.recovered
        if report is None:
            return
        for name, help_text, figure in (
            ("seconds", "Seconds that the start took to load the store.", self._node.recovery_seconds),
            ("unclean", "1 if the broker hadn't been stopped in order.", report.unclean),
            ("torn_bytes", "Bytes of torn tail that the start has cut.", report.torn_bytes),
            ("records", "Records that the start has checked.", report.records),
        ):
            yield gauge(f"hatwisted_recovery_{name}", help_text, figure)

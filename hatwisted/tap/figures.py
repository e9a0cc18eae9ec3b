"""A broker's ports of figures, loaded only where one is asked for."""

from __future__ import annotations

from twisted.application.service import IService

from hatwisted.assembly.parts import Parts
from hatwisted.broker.node.brokernode import BrokerNode


def with_figures(node: BrokerNode, parts: Parts) -> IService:
    """See `assembly.monitoring.monitored`.

    twisted.web, prometheus_client and jinja2 would be 80 ms of each start.
    """
    config = node.parts.config.config
    if config.metrics_port is None and config.dashboard_port is None:
        return node
    from hatwisted.assembly.monitoring import monitored

    return monitored(node, parts)

"""A server's ports of figures, loaded only where one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.application.service import IService

from hatwisted.assembly.parts import Parts
from hatwisted.namesrv.service import NameServerService

if TYPE_CHECKING:  # a name server would load a whole broker
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


def with_name_server_figures(service: NameServerService, parts: Parts) -> IService:
    """See `assembly.namesrvmonitoring.monitored_name_server`."""
    if service.config.config.metrics_port is None:
        return service
    from hatwisted.assembly.namesrvmonitoring import monitored_name_server

    return monitored_name_server(service, parts)

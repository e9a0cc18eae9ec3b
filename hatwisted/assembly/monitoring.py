"""A broker with its port of figures, where the configuration asks for one."""

from __future__ import annotations

from functools import partial

from twisted.application.service import IService

from hatwisted.assembly.nameserver import stacked
from hatwisted.assembly.parts import Parts
from hatwisted.assembly.ports import interface_of
from hatwisted.broker.node.brokernode import BrokerNode
from hatwisted.broker.node.masterlog import MasterLog
from hatwisted.broker.node.masterrole import MasterRole
from hatwisted.broker.node.slaverole import SlaveRole
from hatwisted.broker.put.putack import PutAcks
from hatwisted.config.errors import SettingError
from hatwisted.config.schema import BrokerConfig
from hatwisted.metrics.exposition import Exposition
from hatwisted.metrics.families import Source
from hatwisted.metrics.hafigures import MasterFigures, SlaveFigures
from hatwisted.metrics.health import Health
from hatwisted.metrics.linkwatch import LinkWatch
from hatwisted.metrics.processfigures import ProcessFigures
from hatwisted.metrics.service import MetricsService
from hatwisted.metrics.storefigures import StoreFigures
from hatwisted.metrics.trafficfigures import Labels, TrafficFigures, TrafficParts
from hatwisted.metrics.web import Gate, metrics_site
from hatwisted.remoting.interfaces import PortUnavailable
from hatwisted.wire.networks import allow_list

LOOPBACK = "127.0.0.1"


def monitored(node: BrokerNode, parts: Parts) -> IService:
    """The broker, with what shows its figures if `metricsPort` is set; that port is claimed now.

    - node: the broker
    - parts: its surroundings

    Raises SettingError if the port can't be had; the broker's own are given back then.
    """
    config = node.parts.config.config
    port = config.metrics_port
    if port is None:
        return node
    interface = interface_of(metrics_address(config))
    try:
        parts.listening.claim(port, interface)
    except PortUnavailable as error:
        node.parts.release_ports()
        key = "metricsAddress" if error.foreign_address else "metricsPort"
        raise SettingError(key, str(error)) from None
    watch = LinkWatch(parts.clock, lambda: node.parts.store.log.max_offset, partial(_master_log, node))
    health = Health(node)
    exposition = Exposition(parts.clock, sources(node, watch, health))
    gate = Gate(metrics_site(exposition, health, parts.clock), allow_list(config.listen_allow_list))
    listen = partial(parts.listening.listen, port, interface=interface)
    return stacked(MetricsService(listen, gate, watch), node)


def metrics_address(config: BrokerConfig) -> str:
    """Where its figures are shown: not to the whole network unless that is said."""
    if config.metrics_address is not None:
        return config.metrics_address
    return LOOPBACK if config.bind_address == "0.0.0.0" else config.bind_address


def sources(node: BrokerNode, watch: LinkWatch, health: Health) -> list[Source]:
    """All figures of a broker.

    - node: the broker
    - watch: knows how late links are
    - health: what is wrong
    """
    parts, config = node.parts, node.parts.config.config
    traffic = TrafficParts(
        labels=Labels(parts.identity.cluster, "broker", parts.identity.name),
        store=parts.store,
        tables=parts.tables,
        clients=parts.consumers.clients,
        stats=parts.consumer_admin.stats,
        now=parts.clock.seconds,
        topics=config.metrics_topics,
        groups=config.metrics_groups,
    )
    return [
        ProcessFigures(node, health, parts.expiries, parts.clock),
        StoreFigures(parts.store, partial(_acks, node), parts.clock.seconds),
        MasterFigures(parts.ha, watch, parts.clock),
        SlaveFigures(partial(_slave, node), watch, parts.clock),
        TrafficFigures(traffic),
    ]


def _slave(node: BrokerNode) -> SlaveRole | None:
    return node.services if isinstance(node.services, SlaveRole) else None


def _acks(node: BrokerNode) -> PutAcks | None:
    return node.services.acks if isinstance(node.services, MasterRole) else None


def _master_log(node: BrokerNode) -> MasterLog | None:
    """How a slave that has a link asks its master."""
    role = _slave(node)
    if role is None or not node.running or role.ha_client.status().reported_offset < 0:
        return None
    return MasterLog(node.parts.client, lambda: node.parts.master.log)

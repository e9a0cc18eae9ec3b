"""A broker with its port of figures, where the configuration asks for one."""

from __future__ import annotations

from functools import partial

from twisted.application.service import IService
from twisted.logger import globalLogPublisher

from hatwisted.assembly.nameserver import stacked
from hatwisted.assembly.pageports import LOOPBACK, Claim, PageDoor, metrics_claim
from hatwisted.assembly.parts import Parts
from hatwisted.assembly.ports import interface_of
from hatwisted.broker.node.brokernode import BrokerNode
from hatwisted.broker.node.masterlog import MasterLog
from hatwisted.broker.node.masterrole import MasterRole
from hatwisted.broker.node.slaverole import SlaveRole
from hatwisted.broker.put.putack import PutAcks
from hatwisted.config.errors import SettingError
from hatwisted.config.protection import is_loopback
from hatwisted.config.schema import BrokerConfig
from hatwisted.metrics.brokerfigures import BrokerFigures
from hatwisted.metrics.eventfeed import EventFeed
from hatwisted.metrics.exposition import Exposition
from hatwisted.metrics.families import Source
from hatwisted.metrics.groupwatch import GroupWatch
from hatwisted.metrics.guardfigures import GuardFigures, Guards
from hatwisted.metrics.hafigures import MasterFigures, SlaveFigures
from hatwisted.metrics.health import Health
from hatwisted.metrics.linkwatch import LinkWatch
from hatwisted.metrics.livepage import Access, live_site
from hatwisted.metrics.livestate import LiveState
from hatwisted.metrics.processfigures import ProcessFigures, Server
from hatwisted.metrics.service import MetricsService, Runs, Served
from hatwisted.metrics.storefigures import StoreFigures
from hatwisted.metrics.trafficfigures import Labels, TrafficFigures, TrafficParts
from hatwisted.metrics.web import metrics_site
from hatwisted.timing.garbage import Pauses
from hatwisted.wire.networks import allow_list


def monitored(node: BrokerNode, parts: Parts) -> IService:
    """The broker, with what shows its figures if `metricsPort` or `dashboardPort` is set; these are claimed now.

    - node: the broker
    - parts: its surroundings

    Raises SettingError if a port can't be had or mustn't be opened; the broker's own are given back then.
    """
    config = node.parts.config.config
    if config.metrics_port is None and config.dashboard_port is None:
        return node
    watch = LinkWatch(parts.clock, lambda: node.parts.store.log.max_offset, partial(_master_log, node))
    health = Health(node)
    door = PageDoor(parts.listening, node.parts.page_port, allow_list(config.listen_allow_list))
    ports: list[Served] = []
    beside: list[Runs] = [watch]
    claims: list[Claim] = []
    try:
        if config.metrics_port is not None:
            claims.append(metrics_claim(config, config.metrics_port))
            exposition = Exposition(parts.clock, sources(node, watch, health, parts.pauses))
            ports.append(door.opened(claims[-1], metrics_site(exposition, health, parts.clock)))
        if config.dashboard_port is not None:
            interface = interface_of(config.dashboard_address or LOOPBACK)
            claims.append(Claim(config.dashboard_port, interface, "dashboard", config.dashboard_tls_mode))
            password = _dashboard_password(config, parts)
            state = LiveState(node, watch, health, GroupWatch(node), EventFeed(globalLogPublisher))
            site, streams = live_site(state, Access(password, node.parts.entrance.failed_logins), parts.clock)
            ports.append(door.opened(claims[-1], site))
            beside += [state, streams]
    except SettingError:
        door.release(claims)
        node.parts.release_ports()
        raise
    return stacked(MetricsService(ports, beside), node)


def _dashboard_password(config: BrokerConfig, parts: Parts) -> str | None:
    """ "name:password", or None if nobody but this host can look. Raises SettingError."""
    path, address = config.dashboard_password_file, config.dashboard_address or LOOPBACK
    if path is None:
        if is_loopback(address):
            return None
        raise SettingError(
            "dashboardAddress",
            f"{address} shows the page to other hosts: set dashboardPasswordFile to a file with name:password",
        )
    try:
        text = parts.file_system.read(path).decode().strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise SettingError("dashboardPasswordFile", f"{path} can't be read: {why}") from None
    if ":" not in text or "\n" in text:
        raise SettingError("dashboardPasswordFile", f"{path} must have one line, name:password")
    return text


def sources(node: BrokerNode, watch: LinkWatch, health: Health, pauses: Pauses) -> list[Source]:
    """All figures of a broker.

    - node: the broker
    - watch: knows how late links are
    - health: what is wrong
    - pauses: of its process
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
        BrokerFigures(node),
        ProcessFigures(
            Server(health, lambda: node.connections, parts.connections.most, parts.expiries, pauses)
        ),
        GuardFigures(
            Guards(
                lambda: node.refused_connections,
                lambda: parts.entrance.refused,
                lambda: node.busy_answers,
                lambda: node.incomplete_bytes,
                parts.connections.unread.seen,
                parts.handshakes,
            )
        ),
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

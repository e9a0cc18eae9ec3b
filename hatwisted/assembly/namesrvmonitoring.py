"""A name server with its port of figures, where the configuration asks for one."""

from __future__ import annotations

from twisted.application.service import IService

from hatwisted.assembly.nameserver import stacked
from hatwisted.assembly.pageports import PageDoor, metrics_claim
from hatwisted.assembly.parts import Parts
from hatwisted.config.errors import SettingError
from hatwisted.metrics.exposition import Exposition
from hatwisted.metrics.families import Source
from hatwisted.metrics.guardfigures import GuardFigures, Guards
from hatwisted.metrics.namesrvfigures import NameServerFigures, NameServerHealth
from hatwisted.metrics.processfigures import ProcessFigures, Server
from hatwisted.metrics.service import MetricsService
from hatwisted.metrics.web import metrics_site
from hatwisted.namesrv.service import NameServerService
from hatwisted.timing.garbage import Pauses
from hatwisted.wire.networks import allow_list


def monitored_name_server(service: NameServerService, parts: Parts) -> IService:
    """The name server, with what shows its figures if `metricsPort` is set, which is claimed now.

    - service: the name server
    - parts: its surroundings

    Raises SettingError if the port can't be had; the name server's own is given back then.
    """
    config, port = service.config.config, service.port
    if config.metrics_port is None:
        return service
    claim = metrics_claim(config, config.metrics_port)
    door = PageDoor(parts.listening, port.page_port, allow_list(config.listen_allow_list))
    health = NameServerHealth(service)
    exposition = Exposition(parts.clock, _sources(service, health, parts.pauses))
    try:
        served = door.opened(claim, metrics_site(exposition, health, parts.clock))
    except SettingError:
        door.release([claim])
        service.stopService()
        raise
    return stacked(MetricsService([served], []), service)


def _sources(service: NameServerService, health: NameServerHealth, pauses: Pauses) -> list[Source]:
    port = service.port
    most = service.connection_budget.most
    return [
        NameServerFigures(service),
        ProcessFigures(Server(health, lambda: service.connections, most, port.expiries, pauses)),
        GuardFigures(
            Guards(
                lambda: service.refused_connections,
                lambda: service.refused_requests,
                lambda: service.busy_answers,
                lambda: service.incomplete_bytes,
                service.connection_budget.unread.seen,
                port.handshakes,
            )
        ),
    ]

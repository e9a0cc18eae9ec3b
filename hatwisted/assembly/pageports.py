"""Ports of figures and pages, which brokers and name servers have: where they are, and how they are opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from twisted.web.server import Site

from hatwisted.assembly.ports import interface_of
from hatwisted.config.errors import SettingError
from hatwisted.config.schema import BrokerConfig, NamesrvConfig
from hatwisted.config.tlskeys import TlsMode
from hatwisted.metrics.service import Served
from hatwisted.metrics.web import Gate
from hatwisted.remoting.interfaces import IListening, Listen, PortUnavailable
from hatwisted.wire.networks import Networks

LOOPBACK = "127.0.0.1"


class Claim(NamedTuple):
    """A port. key: what its keys begin with; tls_mode: None if it isn't configured."""

    port: int
    interface: str
    key: str
    tls_mode: TlsMode | None


class PageDoor:
    """Opens such ports of one server.

    - listening: where they are claimed
    - page_port: gives them their TLS
    - networks: from where clients may come; None: from everywhere
    """

    def __init__(
        self,
        listening: IListening,
        page_port: Callable[[Listen, TlsMode | None], Listen],
        networks: Networks | None,
    ) -> None:
        self._listening = listening
        self._page_port = page_port
        self._networks = networks

    def opened(self, claim: Claim, site: Site) -> Served:
        """A port that is claimed now. Raises SettingError."""
        try:
            self._listening.claim(claim.port, claim.interface)
        except PortUnavailable as error:
            key = f"{claim.key}{'Address' if error.foreign_address else 'Port'}"
            raise SettingError(key, str(error)) from None
        listen = partial(self._listening.listen, claim.port, interface=claim.interface)
        return Served(self._page_port(listen, claim.tls_mode), Gate(site, self._networks))

    def release(self, claims: Iterable[Claim]) -> None:
        """Give back those that were never opened."""
        for claim in claims:
            self._listening.release(claim.port, claim.interface)


def metrics_claim(config: BrokerConfig | NamesrvConfig, port: int) -> Claim:
    """The port of figures. port: its number, once that is configured."""
    return Claim(port, interface_of(metrics_address(config)), "metrics", config.metrics_tls_mode)


def metrics_address(config: BrokerConfig | NamesrvConfig) -> str:
    """Where its figures are shown: not to the whole network unless that is said."""
    if config.metrics_address is not None:
        return config.metrics_address
    return LOOPBACK if config.bind_address == "0.0.0.0" else config.bind_address

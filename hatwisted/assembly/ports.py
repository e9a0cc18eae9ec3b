"""Ports claimed while a node is built, so that one in use is reported as a mistake in the configuration."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IReactorTime

from hatwisted.config.accesskeys import AccessKeys
from hatwisted.config.errors import SettingError
from hatwisted.config.schema import BrokerConfig
from hatwisted.remoting.interfaces import IListening, Listen, PortUnavailable
from hatwisted.remoting.proxyprotocol import ProxiedFactory
from hatwisted.wire.networks import allow_list


class BrokerPorts:
    """A broker's ports: `remoting`, `vip` (listenPort - 2) and `ha` (listenPort + 1) open them.

    - config: the broker's
    - listening: opens them
    - encrypted: gives a port its TLS
    """

    def __init__(
        self, config: BrokerConfig, listening: IListening, encrypted: Callable[[Listen], Listen]
    ) -> None:
        self._listening = listening
        self._interface = interface_of(config.bind_address)
        self._roles = {config.listen_port: ""}
        if config.vip_listen_enable:
            self._roles[config.vip_listen_port] = " (listenPort - 2)"
        self._roles[config.ha_listen_port] = " (listenPort + 1, for slaves)"

        def opener(port: int) -> Listen:
            backlog = config.server_socket_backlog
            return partial(listening.listen, port, backlog=backlog, interface=self._interface)

        self.remoting = encrypted(opener(config.listen_port))
        self.vip = encrypted(opener(config.vip_listen_port))
        self.ha = opener(config.ha_listen_port)

    def claim(self) -> None:
        """Claim all of them, or none and raise SettingError."""
        try:
            for port, role in self._roles.items():
                claim(self._listening, port, self._interface, role)
        except SettingError:
            self.release()
            raise

    def release(self) -> None:
        """Give back those that were never opened; idempotent."""
        for port in self._roles:
            self._listening.release(port, self._interface)


class ProxiedPorts:
    """Ports behind the configured proxies.

    - config: says where they are
    - clock: of time limits
    """

    def __init__(self, config: AccessKeys, clock: IReactorTime) -> None:
        self._proxies = allow_list(config.proxy_protocol_from)
        self._clock = clock
        self._opened: list[ProxiedFactory] = []

    @property
    def rejected_total(self) -> int:
        """Connections closed for their header, which hadn't come or was none, or for want of room."""
        return sum(each.rejected_total for each in self._opened)

    def port(self, listen: Listen) -> Listen:
        """What opens one. listen: opens the port itself"""
        proxies = self._proxies
        if proxies is None:
            return listen

        def listen_behind(factory: IProtocolFactory) -> IListeningPort:
            proxied = ProxiedFactory(factory, proxies, self._clock)
            self._opened.append(proxied)
            return listen(proxied)

        return listen_behind


def interface_of(bind_address: str) -> str:
    """`bindAddress` as Twisted names it: "all addresses" is the empty one."""
    return "" if bind_address == "0.0.0.0" else bind_address


def claim(listening: IListening, port: int, interface: str, role: str = "") -> None:
    """Claim a port before anything else is started. Raises SettingError, naming the key at fault.

    - listening: where it is claimed
    - port: its number
    - interface: the address to listen on
    - role: what the port is for, in words
    """
    try:
        listening.claim(port, interface)
    except PortUnavailable as error:
        key = "bindAddress" if error.foreign_address else "listenPort"
        raise SettingError(key, f"{error}{role}") from None

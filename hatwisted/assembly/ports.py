"""Ports claimed while a node is built, so that one in use is told as a fault of the configuration."""

from __future__ import annotations

from functools import partial

from hatwisted.config.errors import SettingError
from hatwisted.config.schema import BrokerConfig
from hatwisted.remoting.interfaces import IListening, Listen, PortUnavailable


class BrokerPorts:
    """A broker's ports, claimed: `remoting`, `vip` (listenPort - 2) and `ha` (listenPort + 1) open them. Raises
    SettingError."""

    def __init__(self, config: BrokerConfig, listening: IListening) -> None:
        interface = interface_of(config.bind_address)

        def opener(port: int) -> Listen:
            return partial(listening.listen, port, backlog=config.server_socket_backlog, interface=interface)

        claim(listening, config.listen_port, interface)
        if config.vip_listen_enable:
            claim(listening, config.vip_listen_port, interface, " (listenPort - 2)")
        claim(listening, config.ha_listen_port, interface, " (listenPort + 1, for slaves)")
        self.remoting = opener(config.listen_port)
        self.vip = opener(config.vip_listen_port)
        self.ha = opener(config.ha_listen_port)


def interface_of(bind_address: str) -> str:
    """`bindAddress` as Twisted names it: "all addresses" is the empty one."""
    return "" if bind_address == "0.0.0.0" else bind_address


def claim(listening: IListening, port: int, interface: str, role: str = "") -> None:
    """Claim a port; role: what it's for, in words. Raises SettingError that blames the key at fault."""
    try:
        listening.claim(port, interface)
    except PortUnavailable as error:
        key = "bindAddress" if error.foreign_address else "listenPort"
        raise SettingError(key, f"{error}{role}") from None

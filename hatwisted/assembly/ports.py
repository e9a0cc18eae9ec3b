"""Ports claimed while a node is built, so that one in use is told as a fault of the configuration."""

from __future__ import annotations

from hatwisted.config.errors import SettingError
from hatwisted.remoting.interfaces import IListening, PortUnavailable


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

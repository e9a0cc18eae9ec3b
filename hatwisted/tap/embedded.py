"""A master that has no name server brings one along, in the same process.

It takes the well-known port 9876 when that is free: clients and slaves are told "this host, 9876" as they would
be of a name server of its own. If something else listens there, another name server most likely, the master
still starts, on a port that the system gives, and says so loudly: the operator has either forgotten
`namesrvAddr`, or doesn't care. With `embeddedNamesrvPort` the operator does care, and a port in use ends the
start. Rejected: a fixed other port (two masters on a host would collide again), and joining whoever listens on
9876 unasked (a broker must not register with a cluster it wasn't told of).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from typing import Any

from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import Deferred, inlineCallbacks, maybeDeferred
from twisted.logger import Logger

from hatwisted.config.errors import SettingError
from hatwisted.namesrv.service import DEFAULT_PORT
from hatwisted.tap.ports import ClaimedPorts, PortUnavailable

_log = Logger()


class Stack(MultiService):
    """Services that stand on each other: started in the order they were added, stopped the other way round,
    each when the one above it has stopped."""

    @inlineCallbacks
    def stopService(self) -> Generator[Deferred[Any], Any, None]:
        Service.stopService(self)
        for service in reversed(list(self)):
            yield maybeDeferred(service.stopService)


def stacked(*services: IService) -> Stack:
    """A Stack of these, the lowest first."""
    stack = Stack()
    for service in services:
        service.setServiceParent(stack)
    return stack


def claim_name_server_port(ports: ClaimedPorts, interface: str, wished: int | None) -> int:
    """A port of `ports` for the name server, by the rule above. Raises SettingError if `wished` can't be had."""
    if wished is not None:
        try:
            ports.claim(wished, interface)
        except PortUnavailable as error:
            raise SettingError("embeddedNamesrvPort", str(error)) from None
        return wished
    try:
        ports.claim(DEFAULT_PORT, interface)
    except PortUnavailable as error:
        port = ports.claim_any(interface)
        _tell(
            _log.warn,
            f"{error}; the name server takes port {port}, another one with every start: set namesrvAddr if "
            "this host has a name server, or embeddedNamesrvPort",
        )
        return port
    return DEFAULT_PORT


def announce(address: str) -> None:
    """Tell clients' `namesrvAddr` on the terminal and in the log."""
    _tell(_log.info, f"no namesrvAddr is set: this master brings its own name server, {address}")


def _tell(log: Callable[..., None], line: str) -> None:
    """twistd hasn't forked: the terminal still hears it; with -n the log goes there as well."""
    sys.stdout.write(f"hamaster: {line}\n")
    sys.stdout.flush()
    log("{line}", line=line)

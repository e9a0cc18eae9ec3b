"""A master that has no name server brings one along, in the same process.

It takes the well-known port 9876 when that is free: clients and slaves are told "this host, 9876" as they would
be of a name server of its own. If something else listens there, another name server most likely, the master
still starts, on a port that the system gives, and says so loudly: the operator has either forgotten
`namesrvAddr`, or doesn't care. With `embeddedNamesrvPort` the operator does care, and a port in use ends the
start. Rejected: a fixed other port (two masters on a host would collide again), and joining whoever listens on
9876 unasked (a broker must not register with a cluster it wasn't told of).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from typing import Any, TextIO

from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import Deferred, inlineCallbacks, maybeDeferred
from twisted.logger import Logger

from hatwisted.config.errors import SettingError
from hatwisted.namesrv.service import DEFAULT_PORT
from hatwisted.remoting.interfaces import PortUnavailable
from hatwisted.tap.ports import ClaimedPorts


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


def claim_name_server_port(ports: ClaimedPorts, interface: str, wished: int | None) -> tuple[int, str | None]:
    """A port of `ports` for the name server, by the rule above, and what to tell the operator about it. Raises
    SettingError if `wished` can't be had."""
    port = DEFAULT_PORT if wished is None else wished
    try:
        ports.claim(port, interface)
        return port, None
    except PortUnavailable as error:
        if wished is not None:
            raise SettingError("embeddedNamesrvPort", str(error)) from None
        port = ports.claim(0, interface)
        return port, (
            f"{error}; the name server takes port {port}, another one with every start: set namesrvAddr if "
            "this host has a name server, or embeddedNamesrvPort"
        )


class Announcement(Service):
    """Tells clients' `namesrvAddr` in the log and on the terminal, once all beneath it has started.

    A daemon has left the terminal by then: a duplicate of standard output passes through the fork.
    """

    _log = Logger()

    def __init__(self, address: str, warning: str | None) -> None:
        self._address = address
        self._warning = warning
        self._terminal = _duplicate(sys.stdout)

    def startService(self) -> None:
        super().startService()
        line = f"no namesrvAddr is set: this master brings its own name server, {self._address}"
        self._log.info("{line}", line=line)
        told = [line]
        if self._warning is not None:
            self._log.warn("{line}", line=self._warning)
            told.append(self._warning)
        self._terminal.write("".join(f"hamaster: {each}\n" for each in told))
        self._terminal.flush()
        if self._terminal is not sys.stdout:
            self._terminal.close()


def _duplicate(stream: TextIO) -> TextIO:
    try:
        return os.fdopen(os.dup(stream.fileno()), "w")
    except (OSError, ValueError):  # no file behind it
        return stream

"""The loopback interface of the unit layer: in memory, turned by the reactor."""

from __future__ import annotations

import itertools
from dataclasses import replace

from twisted.internet import reactor

from hatwisted.assembly.parts import Parts
from hatwisted.config.host import Host
from hatwisted.sim.memorynet import MemoryNetwork
from hatwisted.tap.realparts import real_parts

loopback = MemoryNetwork(reactor).host()  # type: ignore[arg-type]

_broker_ports = itertools.count(10911, 10)


def broker_port() -> int:
    """A port whose neighbours are free as well: a broker listens two below and one above, too."""
    return next(_broker_ports)


def loopback_parts() -> Parts:
    """A node's parts with this network, and all else as twistd's."""
    return replace(real_parts(reactor), listening=loopback, connecting=loopback)


HOST = Host("test-host", "127.0.0.1", "/nonexistent")
"""What a configuration takes from the machine, in tests."""

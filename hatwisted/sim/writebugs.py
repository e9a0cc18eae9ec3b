"""Mistakes in how bytes are written to a connection."""

from __future__ import annotations

from typing import Any

from hatwisted.ha import haconnection
from hatwisted.remoting import server
from hatwisted.sim.plantedbug import Bug


def _drop_the_rest(transport: Any, data: bytes) -> None:
    if transport.dataBuffer:
        transport.write(data)
    else:
        transport.writeSomeData(data)


def _overtake(transport: Any, data: bytes) -> None:
    sent = transport.writeSomeData(data)
    if isinstance(sent, int):
        transport.write(data[sent:])


WRITE_BUGS: dict[str, Bug] = {
    "rest-dropped": Bug(
        "what the kernel has no room for in a direct write to a slave is dropped",
        haconnection,
        "write_now",
        _drop_the_rest,
        ("pieces",),
    ),
    "queue-overtaken": Bug(
        "an answer that is written directly overtakes what is queued of those before",
        server,
        "write_now",
        _overtake,
        ("pieces", "slow"),
        conf={"pause": 0.05, "sizes": (20, 500)},
    ),
}
"""By name."""

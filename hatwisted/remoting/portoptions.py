"""What an operator decides about a port: who may connect, how many, and for how long without a word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hatwisted.wire.networks import Networks

IDLE_LIMIT: Final = 120.0
"""Seconds without a byte from the client, or without the end of a frame that it has begun, before its connection
is closed (serverChannelMaxIdleTimeSeconds). A client that doesn't read its answers isn't read from, so this is its
time as well."""


@dataclass(frozen=True, kw_only=True)
class PortOptions:
    """Without arguments RocketMQ's openness.

    - networks: from where connections are taken; None: from everywhere
    - of_address: connections of one address, over all ports of the process; None: half of all that there may be
    - unread_bytes: of answers that clients may leave unread, over all ports of the process; None: MAX_UNREAD_BYTES
    - unacknowledged_bytes: of one address's messages, over all ports of the process; None: MAX_UNACKNOWLEDGED
    - idle_limit: seconds, see IDLE_LIMIT
    - sizes: are the bytes of requests asked for, as a rate does?
    """

    networks: Networks | None = None
    of_address: int | None = None
    unread_bytes: int | None = None
    unacknowledged_bytes: int | None = None
    idle_limit: float = IDLE_LIMIT
    sizes: bool = False

"""What a client needs to know about a cluster: a value that is sent to every process that reads.

Addresses are "host:port", IPv6 in brackets; several name servers are separated by ";" as RocketMQ's clients
take them, or by ",".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from hatwisted.clientcore.address import parse_address
from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.errors import BadSetting
from hatwisted.clientcore.message import checked_group
from hatwisted.clientcore.tls import Tls
from hatwisted.wire.consumerdata import TOOLS_GROUP

CONNECT_TIMEOUT: Final = 3.0
"""Seconds for the handshakes of TCP and TLS (RocketMQ's clients: 3 s)."""
ANSWER_TIMEOUT: Final = 15.0
"""Seconds for an answer. Our pulls aren't held, but a broker under load reads old messages from disk."""
RETRIES: Final = 8
"""Rounds over all brokers of a group without any progress, with pauses that add up to 16 s: long enough for a
broker to be restarted."""

ReadFrom = Literal["slave", "master", "auto"]
READ_FROM: Final[tuple[ReadFrom, ...]] = ("slave", "master", "auto")


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """name_servers: at least one. Timeouts in seconds. retries: rounds without progress before giving up.

    read_from: `slave` reads slaves first and the master only for what they lack, `master` the other way round,
    `auto` starts with the master and follows the brokers' suggestions.
    """

    name_servers: tuple[str, ...]
    group: str = TOOLS_GROUP
    read_from: ReadFrom = "slave"
    connect_timeout: float = CONNECT_TIMEOUT
    answer_timeout: float = ANSWER_TIMEOUT
    retries: int = RETRIES
    credentials: Credentials | None = None
    tls: Tls | None = None

    def __post_init__(self) -> None:
        if not self.name_servers:
            raise BadSetting("no name server given: give host:port, several separated by ;")
        for address in self.name_servers:
            parse_address(address)
        checked_group(self.group)

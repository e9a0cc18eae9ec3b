"""A broker that asks for accounts, behind a load balancer: what a client may send there, and what a proxy may say.

As `servertargets`, with a PROXY header in front of each connection, or none or a broken one, and requests that are
signed by an administrator, by an account with few permissions, with a wrong key, or by nobody. The honest client
comes from an address of its own and has an account.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.python.failure import Failure

from hatwisted.assembly.parts import Parts
from hatwisted.remoting.proxyprotocol import ProxiedFactory
from hatwisted.store.disk.wholefile import replace_file
from hatwisted.wire.networks import Networks
from hatwisted.wire.proxyheader import SIGNATURE_2
from hatwisted.wire.remoting import RemotingCommand, encode_command
from tests.fuzz.servertargets import (
    CODES,
    ClientsTransport,
    Server,
    World,
    check_broker,
    make_broker,
    programs,
)
from tests.fuzz.target import Target
from tests.fuzz.turns import TURNS
from tests.unit.acl.files import ADMIN, OTHER_SECRET, SAMPLE, USER

PROXY = "10.8.0.1"
ACCOUNTS = "/home/plain_acl.yml"
SIGNERS = (ADMIN, USER, OTHER_SECRET, None)
HONEST_HEADER = b"PROXY TCP4 10.7.0.50 10.0.0.1 50312 10911\r\n"
HEADERS = (
    b"PROXY TCP4 10.7.0.66 10.0.0.1 4711 10911\r\n",
    SIGNATURE_2 + bytes((0x21, 0x11, 0, 12, 10, 7, 0, 67, 10, 0, 0, 1, 18, 103, 42, 159)),
    b"",
)
"""Of each client: the last one's is what an input says."""


class Connection:
    """A proxy's: whose protocol is the server's once the header is read."""

    def __init__(self, factory: Any) -> None:
        address = IPv4Address("TCP", PROXY, 40000)
        self.transport: Any = ClientsTransport(peerAddress=address)
        self.transport.protocol = factory.buildProtocol(address)
        self.transport.protocol.makeConnection(self.transport)

    def dataReceived(self, data: bytes) -> None:
        """See IProtocol."""
        self.transport.protocol.dataReceived(data)

    def connectionLost(self, reason: Failure) -> None:
        """See IProtocol."""
        self.transport.protocol.connectionLost(reason)


class ClosedWorld(World):
    """A broker with accounts, and its clients behind a proxy."""

    def run(self, data: bytes) -> None:
        """Who has no account changes nothing."""
        before, self.signed = self._tables(), False
        super().run(data)
        assert self.signed or self._tables() == before

    def _tables(self) -> tuple[int, int, int]:
        tables = self.service.parts.tables
        versions = tables.topics.version.counter, tables.groups.version.counter
        return *versions, self.service.parts.config.config.file_reserved_time

    def connection(self) -> Connection:
        """The honest client's."""
        made = Connection(self.factory)
        made.dataReceived(HONEST_HEADER)
        return made

    def client(self, number: int) -> Any:
        known = self.clients[number]
        if known is None or known.transport.disconnecting:
            self.close(number)
            known = self.clients[number] = Connection(self.factory)
            known.dataReceived(HEADERS[number])
        return known

    def encoded(self, request: RemotingCommand, *, honest: bool = False) -> bytes:
        signer = ADMIN if honest else SIGNERS[request.opaque >> 2 & 3]
        self.signed |= signer in (ADMIN, USER)
        if signer is not None:
            signer.sign(request)
        return encode_command(request)


def make_closed(parts: Parts) -> tuple[Any, Any]:
    """A broker with the accounts of RocketMQ's sample."""
    replace_file(parts.file_system, ACCOUNTS, SAMPLE)
    node, factory = make_broker(parts, acl_enable=True, acl_plain_file=ACCOUNTS)
    return node, ProxiedFactory(factory, Networks(PROXY), parts.clock)


def closed_programs() -> Iterable[bytes]:
    """Each code, signed by each of them; headers that come with requests, in pieces and not at all."""
    yield from programs()
    for number in range(len(CODES)):
        for signer in range(len(SIGNERS)):
            yield bytes([1 | (signer % 2) << 4, number, 0, 1, signer << 2])
    last = 2 << 4 | 14
    frame = encode_command(RemotingCommand(CODES[0]))
    for header in (*HEADERS, HONEST_HEADER, b"PROXY UNKNOWN\r\n", SIGNATURE_2 + bytes((0x20, 0, 0, 0))):
        whole = header + frame
        yield bytes([last]) + len(whole).to_bytes(2, "big") + whole
        yield (
            bytes([last, 0, 5]) + header[:5] + bytes([last]) + len(header[5:]).to_bytes(2, "big") + header[5:]
        )


CLOSED = {
    "closed-broker": Target(
        Server(make_closed, check_broker, ClosedWorld), (), closed_programs, tries=100, turns=TURNS
    ),
}

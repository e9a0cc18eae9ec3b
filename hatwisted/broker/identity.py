"""Who this broker is, to clients, to other brokers and in its messages."""

from __future__ import annotations

import msgspec

from hatwisted.wire.hostport import HostPort
from hatwisted.wire.requestheader import RegisterBrokerHeader

_IPV6_SIZE = 20
"""Bytes of a host field that holds an IPv6 address and a port."""


class BrokerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's names and addresses.

    - cluster, name: brokerClusterName and brokerName
    - address, ha_address: "host:port" for clients and for slaves, as configured
    - store_host: address and port as they brand every record, 8 or 20 bytes
    """

    cluster: str
    name: str
    address: str
    ha_address: str
    store_host: bytes

    @property
    def store_address(self) -> str:
        """`store_host` as "ip:port"."""
        return str(HostPort.unpack(self.store_host, ipv6=len(self.store_host) == _IPV6_SIZE))

    def header(self, broker_id: int) -> RegisterBrokerHeader:
        """The fields every request to a name server begins with. broker_id: its number in the group."""
        return RegisterBrokerHeader(
            broker_name=self.name,
            broker_addr=self.address,
            cluster_name=self.cluster,
            broker_id=broker_id,
            ha_server_addr=self.ha_address,
        )

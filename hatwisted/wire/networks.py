"""Lists of networks, as an operator writes them: who may connect.

`10.1.0.0/16;192.168.7.3;fd00::/8`: networks and single addresses, separated by semicolons or commas; `*` is
everybody. RocketMQ's patterns (`10.1.*.*`, in `acl.addresspattern`) belong to its files of accounts; what is
written here is what firewalls and other servers understand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    collapse_addresses,
    ip_address,
    ip_network,
)
from typing import Final

MAX_NETWORKS: Final = 1000
"""Entries of one list: they are looked through for every connection."""

EVERYBODY: Final = "*"

_HOST_BITS: Final = 64
"""Of an IPv6 address: chosen by the host itself."""

_HALF_OF_4: Final = 1 << 31
_HALF_OF_6: Final = 1 << 124
"""Of 2000::/3: nobody has any of the others."""

_SEPARATORS: Final = re.compile("[;,]")


class Networks:
    """The addresses that `text` names. Raises ValueError with the entry that can't be read, or if there's none."""

    def __init__(self, text: str) -> None:
        entries = [entry.strip() for entry in _SEPARATORS.split(text) if entry.strip()]
        if not entries or len(entries) > MAX_NETWORKS:
            raise ValueError(f"has {len(entries)} networks, must have 1 to {MAX_NETWORKS}")
        self.text = ";".join(entries)
        self._everybody = EVERYBODY in entries
        self._networks = tuple(_network(entry) for entry in entries if entry != EVERYBODY)

    def __contains__(self, address: str) -> bool:
        """Is the IP address `address` one of them? What isn't an address never is."""
        if self._everybody:
            return True
        try:
            parsed = plain_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)

    def __str__(self) -> str:
        return self.text

    @property
    def wide(self) -> bool:
        """Has it half of the Internet's addresses or more, IPv4's or IPv6's? Such a list keeps out hardly
        anybody."""
        of_4 = collapse_addresses(each for each in self._networks if isinstance(each, IPv4Network))
        of_6 = collapse_addresses(each for each in self._networks if isinstance(each, IPv6Network))
        return self._everybody or _size(of_4) >= _HALF_OF_4 or _size(of_6) >= _HALF_OF_6


def plain_address(text: str) -> IPv4Address | IPv6Address:
    """An IP address without its zone; an IPv4 one that came through an IPv6 socket (`::ffff:10.1.2.3`) as what it
    is. Raises ValueError."""
    address = ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def counted_as(address: str) -> str:
    """What an address counts as where each may have so much: of IPv6 its network of 64 bits, since a host that has
    one address there has as many as it likes. Link-local ones, and what isn't an address, count for themselves."""
    if ":" not in address:
        return address
    try:
        parsed = plain_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv4Address) or parsed.is_link_local:
        return str(parsed)
    return str(IPv6Network((int(parsed) >> _HOST_BITS << _HOST_BITS, 128 - _HOST_BITS)))


def allow_list(text: str | None) -> Networks | None:
    """What an operator has written, which may be nothing. Raises ValueError as Networks does."""
    return None if text is None else Networks(text)


def is_network_list(text: str) -> bool:
    """Can it be read?"""
    try:
        Networks(text)
    except ValueError:
        return False
    return True


def is_narrow(text: str | None) -> bool:
    """Is it a list that keeps others out?"""
    networks = allow_list(text)
    return networks is not None and not networks.wide


def _size(networks: Iterable[IPv4Network | IPv6Network]) -> int:
    return sum(network.num_addresses for network in networks)


def _network(entry: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(entry)
    except ValueError as error:
        raise ValueError(f"{entry!r} isn't a network: {error}") from None

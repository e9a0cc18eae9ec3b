"""Addresses as programs give them: "host:port", IPv6 in brackets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hatwisted.clientcore.errors import BadSetting

_ADDRESS: Final = re.compile(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:\[\]]+)):(\d{1,5})")


def parse_address(address: str) -> tuple[str, int]:
    """Host and port. Raises BadSetting."""
    found = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if found is None or not 0 < int(found[3]) < 1 << 16:
        raise BadSetting(f"address {address!r} isn't host:port")
    return found[1] or found[2], int(found[3])


def split_addresses(addresses: str | Sequence[str]) -> tuple[str, ...]:
    """The addresses of a list, each once; in a text they are separated by ";" or ","."""
    parts = re.split("[;,]", addresses) if isinstance(addresses, str) else addresses
    return tuple(dict.fromkeys(each.strip() for each in parts if each.strip()))

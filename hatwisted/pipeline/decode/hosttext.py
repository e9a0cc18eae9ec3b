"""Hosts as text: `1.2.3.4:5`, `[fd00::1]:5`.

A log has few hosts and each of them many times (its own broker's in all records), so each distinct IPv4 host
is formatted once, and the rows share the result. IPv6 hosts, which few logs have, are formatted one by one as
`wire.hostport.HostPort` does.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.logcodec.scan import Records
from hatwisted.pipeline.decode.ragged import patch
from hatwisted.wire import layout
from hatwisted.wire.hostport import HostPort

FEW: Final = 20
"""Distinct hosts above which Arrow's functions are cheaper than formatting one by one."""


def born_hosts(records: Records) -> pa.Array:
    """string[n]."""
    return _hosts(records, "born_host", layout.SYS_BORN_HOST_V6)


def store_hosts(records: Records) -> pa.Array:
    """string[n]."""
    return _hosts(records, "store_host", layout.SYS_STORE_HOST_V6)


def _hosts(records: Records, name: str, long_bit: int) -> pa.Array:
    numbers = records.heads[name].astype(np.uint64)
    if (numbers == numbers[:1]).all():
        texts = (
            pa.repeat(_ipv4_texts(numbers[:1])[0], len(numbers))
            if len(numbers)
            else pa.array([], pa.string())
        )
    else:
        hosts = pa.array(numbers).dictionary_encode()
        texts = _ipv4_texts(hosts.dictionary.to_numpy()).take(hosts.indices)
    flags = records.heads["sys_flag"]
    if (flags & (layout.SYS_BORN_HOST_V6 | layout.SYS_STORE_HOST_V6)).any():
        texts = _with_moved(texts, records, name, flags.astype(np.int64), long_bit)
    return texts


@cache
def _octets() -> pa.Array:
    """0 to 255. Made once needed: the first array that Arrow makes of a list has it load pandas, if there is one,
    and Spark imports this to look for sources."""
    return pa.array([str(octet) for octet in range(256)])


def _ipv4_texts(hosts: npt.NDArray[np.uint64]) -> pa.Array:
    """Address and port of each number; the port is signed on disk."""
    if len(hosts) < FEW:
        raw = hosts.astype(">u8").tobytes()
        return pa.array([str(HostPort.unpack(raw, at)) for at in range(0, len(raw), 8)], pa.string())
    octets = [
        _octets().take(pa.array((hosts >> np.uint64(shift) & np.uint64(0xFF)).astype(np.int64)))
        for shift in (56, 48, 40, 32)
    ]
    ports = pa.array((hosts & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.int32)).cast(pa.string())
    return pc.binary_join_element_wise(pc.binary_join_element_wise(*octets, "."), ports, ":")


def _with_moved(texts: pa.Array, records: Records, name: str, flags: Any, long_bit: int) -> pa.Array:
    """Correct the rows whose host is long, or follows a long one."""
    is_store = name == "store_host"
    moving = long_bit | (layout.SYS_BORN_HOST_V6 if is_store else 0)
    rows = np.flatnonzero(flags & moving)
    if not len(rows):
        return texts
    view = memoryview(records.buf)
    found = []
    for start, flag in zip(records.positions[rows].tolist(), flags[rows].tolist(), strict=True):
        at = start + (layout.STORE_HOST_AT if is_store else layout.BORN_HOST_AT)
        if is_store and flag & layout.SYS_BORN_HOST_V6:
            at += layout.IPV6_EXTRA
        found.append(str(HostPort.unpack(view, at, ipv6=bool(flag & long_bit))))
    return patch(texts, rows, pa.array(found, pa.string()))

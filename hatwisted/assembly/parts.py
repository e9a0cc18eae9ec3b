"""All that a node takes from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from twisted.application.service import IService
from twisted.internet.interfaces import IReactorTime

from hatwisted.assembly.orders import Orders
from hatwisted.remoting.connectionbudget import ConnectionBudget
from hatwisted.remoting.interfaces import IConnecting, IListening
from hatwisted.store.interfaces import IFileSystem, IWorker, LocalTime
from hatwisted.timing.garbage import Pauses


class MakeWorker(Protocol):
    """Makes what runs blocking calls."""

    def __call__(self, name: str, threads: int) -> IWorker:
        """name: what it works for; threads: calls that may be under way at a time."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A node's surroundings.

    - clock: seconds since the epoch that never run backwards, and timers
    - local_time: such seconds as this host's wall clock shows them (file names, hours of housekeeping)
    - file_system: where stores and settings lie
    - make_worker: for the calls that block on a disk
    - listening, connecting: the network
    - resolve: packed IPv4 address of a host name, asked once while the node is built; raises OSError
    - random: jitter of retries
    - process_id: of the process that serves; asked when the node starts, since a daemon forks before
    - boot: a name of the system's boot, which a machine that has crashed since doesn't have again; empty: can't be
      known
    - memory_bytes: physical memory, by which a broker distinguishes recent messages from old ones
    - descriptors: that the process may have, by which a broker decides how many files it keeps open
    - connections: how many of clients the process may have
    - orders: what the operator wants while it runs
    - pauses: for which the process has stood still to look for garbage; whoever runs the node counts them
    - give_back_memory: what was freed and is kept for what comes next; called when a slave's link rests or is lost
    - steady_time: keeps `clock` even while the system's is set; whoever runs the node runs it around the node.
      None: `clock` is even by itself
    """

    clock: IReactorTime
    local_time: LocalTime
    file_system: IFileSystem
    make_worker: MakeWorker
    listening: IListening
    connecting: IConnecting
    resolve: Callable[[str], bytes]
    random: Random
    process_id: Callable[[], int]
    boot: str
    memory_bytes: int
    descriptors: int = 1 << 20
    connections: ConnectionBudget = field(default_factory=ConnectionBudget)
    orders: Orders = field(default_factory=Orders)
    pauses: Pauses = field(default_factory=Pauses)
    give_back_memory: Callable[[], object] = lambda: None
    steady_time: IService | None = None

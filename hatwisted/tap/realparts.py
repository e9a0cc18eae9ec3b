"""The parts of a node that runs in this process: reactor, disk, threads, sockets, memory of the machine."""

from __future__ import annotations

import os
import socket
import time
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from hatwisted.assembly.parts import Parts
from hatwisted.config.host import Host
from hatwisted.remoting.connectionbudget import ConnectionBudget
from hatwisted.remoting.tcp import TcpConnecting
from hatwisted.store.disk.filesystem import PRIVATE, PosixFileSystem
from hatwisted.store.disk.worker import ThreadWorker
from hatwisted.store.interfaces import IWorker
from hatwisted.tap.claimedports import ClaimedPorts
from hatwisted.tap.descriptors import connections_within, descriptor_limit, raise_descriptor_limit
from hatwisted.tap.heap import give_back_memory, keep_freed_memory
from hatwisted.tap.steadytime import SteadyTime, SteadyTimeService


def real_parts(reactor: Any, umask: int = PRIVATE) -> Parts:
    """Everything from `reactor` and the operating system. umask: as of PosixFileSystem."""

    raise_descriptor_limit()
    keep_freed_memory()
    descriptors = descriptor_limit()

    def make_worker(name: str, threads: int) -> IWorker:
        return ThreadWorker(reactor, threads, name)

    return Parts(
        clock=reactor,
        local_time=datetime.fromtimestamp,
        file_system=PosixFileSystem(umask),
        make_worker=make_worker,
        listening=ClaimedPorts(reactor),
        connecting=TcpConnecting(reactor),
        resolve=lambda host: socket.inet_aton(socket.gethostbyname(host)),
        random=Random(),
        process_id=os.getpid,
        boot=boot(),
        memory_bytes=memory_bytes(),
        descriptors=descriptors,
        connections=ConnectionBudget(connections_within(descriptors)),
        give_back_memory=give_back_memory,
        steady_time=SteadyTimeService(reactor, SteadyTime(time.monotonic, time.time)),
    )


def this_host() -> Host:
    """The machine that this process runs on."""
    return Host(socket.gethostname(), _address_of_this_host(), os.path.expanduser("~"))


def _address_of_this_host() -> str:
    """That of the default route, else the loopback's. Nothing is sent: connecting a datagram socket only makes
    the kernel choose a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def boot() -> str:
    """The kernel's name for this boot; empty where it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def memory_bytes() -> int:
    """Physical memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

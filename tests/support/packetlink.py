"""Two hosts on one machine, and the wire between them: network namespaces, and a link whose packets are delayed,
dropped, doubled and overtaken.

What `tc netem` does in the kernel is done here by a thread between two TUN devices, as not every kernel has netem:
TCP on both sides is the kernel's own, with its retransmissions and timeouts. Everything ends with this process.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from testbed.processes import dies_with_us

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x1, 0x1000
CLONE_NEWNET = 0x40000000
MTU = 1500
MOST_WAITING = 2000
"""Packets on their way in one direction; further ones are dropped, as by any router."""
COMMAND_SECONDS = 60.0


class Host:
    """A network namespace with a loopback of its own; a process holds it open. Close it."""

    def __init__(self) -> None:
        ours = os.stat("/proc/self/ns/net").st_ino
        self._holder = subprocess.Popen([*dies_with_us(), "unshare", "--net", "sleep", "infinity"])
        self._path = f"/proc/{self._holder.pid}/ns/net"
        until = time.monotonic() + COMMAND_SECONDS
        while os.stat(self._path).st_ino == ours:
            if self._holder.poll() is not None or time.monotonic() > until:
                self.close()
                raise OSError("no network namespace could be made")
            time.sleep(0.01)
        self.run("ip", "link", "set", "lo", "up")

    def close(self) -> None:
        """End it, once nothing runs there any more."""
        self._holder.kill()
        self._holder.wait()

    def prefix(self) -> list[str]:
        """What has a command run there."""
        return ["nsenter", f"--net={self._path}", "--"]

    def run(self, *command: str) -> None:
        """A command there, which must succeed."""
        done = subprocess.run(
            [*self.prefix(), *command], capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
        )
        if done.returncode:
            raise OSError(f"{' '.join(command)} failed: {done.stderr.strip()}")

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """What this thread opens meanwhile, sockets and devices, is there, and stays there."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net", "rb") as home, open(self._path, "rb") as there:
            _enter(libc, there.fileno())
            try:
                yield
            finally:
                _enter(libc, home.fileno())

    def tun(self, name: str, address: str) -> int:
        """A device of point-to-point packets, up; the descriptor that gives and takes them.

        - name: the device's
        - address: with its prefix length
        """
        with self.inside():
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
        self.run("ip", "addr", "add", address, "dev", name)
        self.run("ip", "link", "set", name, "mtu", str(MTU), "up")
        return device


def _enter(libc: ctypes.CDLL, namespace: int) -> None:
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"setns: {os.strerror(code)}")


@dataclass(frozen=True, kw_only=True)
class Weather:
    """What becomes of packets of one direction.

    - loss, doubled: shares of them
    - delay, jitter: seconds; of all, and on top of it at most
    """

    loss: float = 0.0
    doubled: float = 0.0
    delay: float = 0.0
    jitter: float = 0.0


FINE = Weather()
NOTHING = Weather(loss=1.0)


class PacketLink(threading.Thread):
    """The wire between two hosts. Start it and close it.

    - ends: the TUN devices at both, which are closed with it
    - seed: draws what becomes of each packet
    """

    def __init__(self, ends: tuple[int, int], seed: int) -> None:
        super().__init__(name="packet link", daemon=True)
        self.weather = [FINE, FINE]
        """From the first end to the second, and back."""
        self.dropped = 0
        self._ends = ends
        self._random = random.Random(seed)
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._number = 0
        self._wake, self._woken = os.pipe()
        self._closing = False

    def set(self, there: Weather, back: Weather | None = None) -> None:
        """From now on; back: as there, if it isn't said."""
        self.weather = [there, there if back is None else back]

    def close(self) -> None:
        """Nothing passes any more."""
        self._closing = True
        os.close(self._woken)
        self.join()
        for end in (*self._ends, self._wake):
            os.close(end)

    def run(self) -> None:
        """Take packets and give them when they are due."""
        while not self._closing:
            pause = max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None
            readable, _, _ = select.select((*self._ends, self._wake), (), (), pause)
            for direction, end in enumerate(self._ends):
                if end in readable:
                    self._take(direction, os.read(end, 1 << 16))
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                _, _, direction, packet = heapq.heappop(self._waiting)
                with contextlib.suppress(BlockingIOError):  # a full device drops it
                    os.write(self._ends[1 - direction], packet)

    def _take(self, direction: int, packet: bytes) -> None:
        weather, chance = self.weather[direction], self._random.random
        if chance() < weather.loss or len(self._waiting) >= MOST_WAITING:
            self.dropped += 1
            return
        for _ in range(2 if chance() < weather.doubled else 1):
            due = time.monotonic() + weather.delay + chance() * weather.jitter
            self._number += 1
            heapq.heappush(self._waiting, (due, self._number, direction, packet))


def missing() -> str | None:
    """Why there can't be such hosts on this machine; None: they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    lacking = [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]
    if lacking:
        return f"there is no {', no '.join(lacking)}"
    try:
        host = Host()
        try:
            os.close(host.tun("try0", "10.77.0.1/30"))
        finally:
            host.close()
    except OSError as error:
        return str(error)
    return None

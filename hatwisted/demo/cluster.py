"""Name server, SYNC master and slave as twistd processes on the loopback, their stores under one folder.

Each process is stopped by its own pid: SIGTERM first, SIGKILL if that takes too long. If
this process dies without a chance to do that, the kernel ends them (with util-linux's setpriv).

The folder is emptied at the start, so that what is compared at the end is what this run sent; a lock beside
it keeps a second run from emptying it while the first runs.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred, gatherResults, inlineCallbacks
from twisted.internet.interfaces import IDelayedCall, IProcessTransport
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from hatwisted.client import cluster as client
from hatwisted.client.driver import deferred
from hatwisted.clientcore.errors import CallFailed
from hatwisted.config.javaproperties import format_property
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.errors import StoreLocked
from hatwisted.store.interfaces import ILock
from hatwisted.wire.codes import RequestCode

LOOPBACK = "127.0.0.1"

# Below Linux's ephemeral ports, which outgoing connections take at any moment.
PORT_RANGE = range(12000, 16000)
BROKER_PORTS = (-2, 0, 1)  # VIP, remoting, HA, relative to listenPort

READY_LIMIT = 60.0  # s for a process to answer; an empty store takes about one on an idle machine
READY_POLL = 0.1  # s between two tries
CALL_TIMEOUT = 2.0  # s for one try
LAST_WORDS = 4096  # bytes kept of what a process prints beside its log: why it couldn't start
STOP_LIMIT = 30.0  # s between SIGTERM and SIGKILL: an orderly stop drains replication for up to 5 s

# A log file of RocketMQ's default size would reserve 1 GiB per store (and one ahead) on somebody's laptop.
STORE_SIZES = {
    "mappedFileSizeCommitLog": 64 * 1024 * 1024,
    "mappedFileSizeConsumeQueue": 600_000,
    "maxHashSlotNum": 100_000,
    "maxIndexNum": 400_000,
}


class DemoError(Exception):
    """The demo can't go on; `str()` is one line for the user."""


class Ports(NamedTuple):
    """Where the three listen."""

    namesrv: int
    master: int
    slave: int


def free_ports() -> Ports:
    """Ports that are free now, the brokers' with their neighbours."""
    taken: set[int] = set()
    return Ports(_free(taken, (0,)), _free(taken, BROKER_PORTS), _free(taken, BROKER_PORTS))


class Cluster:
    """The three processes; `addresses` are "host:port".

    - reactor: the process's
    - folder: theirs alone
    - ports: what they listen on
    """

    def __init__(self, reactor: Any, folder: str, ports: Ports) -> None:
        self._reactor = reactor
        self.folder = folder
        self.namesrv = f"{LOOPBACK}:{ports.namesrv}"
        self.master = f"{LOOPBACK}:{ports.master}"
        self.slave = f"{LOOPBACK}:{ports.slave}"
        self._ports = ports
        self._servers: list[ServerProcess] = []
        self._lock: ILock | None = None

    def store(self, name: str) -> str:
        """The store folder of "master" or "slave"."""
        return os.path.join(self.folder, name, "store")

    @inlineCallbacks
    def start(self, link: client.Cluster) -> Any:
        """Empty the folder and start all three; fires when each answers. Fails with DemoError."""
        self._claim_folder()
        yield self._run(link, "namesrv", "hanamesrv", self._ports.namesrv, _namesrv_conf(self.folder))
        brokers = {
            "master": ("hamaster", {"brokerRole": "SYNC_MASTER", "brokerId": 0}),
            "slave": ("haslave", {"brokerRole": "SLAVE", "brokerId": 1}),
        }
        for name, (program, role) in brokers.items():
            port = self._ports.master if name == "master" else self._ports.slave
            yield self._run(link, name, program, port, {**role, **self._broker_conf(name)})

    @inlineCallbacks
    def stop(self) -> Any:
        """End all processes, the name server last, so that the brokers can sign off; fires when they are gone."""
        yield gatherResults([server.stop() for server in self._servers[1:]])
        yield gatherResults([server.stop() for server in self._servers[:1]])
        self._release_folder()

    def pids(self) -> dict[str, int]:
        """The processes that run."""
        return {server.name: server.pid for server in self._servers if server.pid}

    def _run(
        self, link: client.Cluster, name: str, program: str, port: int, conf: dict[str, object]
    ) -> Deferred[None]:
        folder = os.path.join(self.folder, name)
        os.makedirs(folder)
        path = os.path.join(folder, f"{name}.properties")
        with open(path, "w", encoding="iso-8859-1") as file:
            file.writelines(
                format_property(key, str(value)) + "\n"
                for key, value in {"listenPort": port, "bindAddress": LOOPBACK, **conf}.items()
            )
        server = ServerProcess(self._reactor, name, folder)
        self._servers.append(server)
        server.spawn([program, "--conf", path])
        code = (
            RequestCode.GET_BROKER_CLUSTER_INFO if name == "namesrv" else RequestCode.GET_BROKER_RUNTIME_INFO
        )
        return server.ready(link, f"{LOOPBACK}:{port}", code)

    def _broker_conf(self, name: str) -> dict[str, object]:
        return {
            "brokerName": "broker-demo",
            "brokerIP1": LOOPBACK,
            "brokerIP2": LOOPBACK,
            "namesrvAddr": self.namesrv,
            "storePathRootDir": self.store(name),
            # Sends must not fail because the disk is fuller than RocketMQ's default watermark.
            "diskMaxUsedSpaceRatio": 95,
            **STORE_SIZES,
        }

    def _claim_folder(self) -> None:
        os.makedirs(os.path.dirname(self.folder), exist_ok=True)
        try:
            self._lock = PosixFileSystem().lock(self.folder + ".lock")
        except StoreLocked as error:
            held = str(error).partition(";")[0]
            raise DemoError(f"another run uses this folder, stop that one first ({held})") from None
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)

    def _release_folder(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


class ServerProcess(ProcessProtocol):
    """One `twistd -n` process.

    - reactor: the process's
    - name: of the server; what it prints goes to NAME.log
    - folder: where it runs, and its log
    """

    def __init__(self, reactor: Any, name: str, folder: str) -> None:
        self._reactor = reactor
        self.name = name
        self.log_path = os.path.join(folder, f"{name}.log")
        self._folder = folder
        self._process: IProcessTransport | None = None
        self._ended: Deferred[None] = Deferred()
        self._killer: IDelayedCall | None = None
        self._last_words = b""
        self.pid: int | None = None

    def spawn(self, command: Sequence[str]) -> None:
        """Start `twistd COMMAND`."""
        twistd = os.path.join(os.path.dirname(sys.executable), "twistd")
        options = ["-n", "--pidfile=", f"--logfile={self.log_path}", f"--rundir={self._folder}"]
        arguments = [*dies_with_us(), sys.executable, twistd, *options, *command]
        self._process = self._reactor.spawnProcess(self, arguments[0], arguments, env=None)
        self.pid = self._process.pid

    @inlineCallbacks
    def ready(self, link: client.Cluster, address: str, code: int) -> Any:
        """Fires when the server answers; fails with DemoError if it ends or takes too long.

        - link: asks it
        - address: its "host:port"
        - code: of the request
        """
        give_up = self._reactor.seconds() + READY_LIMIT
        while True:
            if self.pid is None:
                raise DemoError(f"{self.name} ended at once: {self._story()}")
            try:
                yield deferred(link.session.call(address, code, timeout=CALL_TIMEOUT))
                return
            except CallFailed as error:
                if self._reactor.seconds() > give_up:
                    raise DemoError(f"{self.name} doesn't answer: {error}; see {self.log_path}") from None
            yield deferLater(self._reactor, READY_POLL)

    def stop(self) -> Deferred[None]:
        """SIGTERM, SIGKILL after STOP_LIMIT; fires when the process is gone."""
        if self._process is not None and self.pid is not None:
            self._process.signalProcess("TERM")
            self._killer = self._reactor.callLater(STOP_LIMIT, self._process.signalProcess, "KILL")
        elif self._process is None:
            self._ended.callback(None)
        return self._ended

    def outReceived(self, data: bytes) -> None:
        self._last_words = (self._last_words + data)[-LAST_WORDS:]

    errReceived = outReceived

    def processEnded(self, reason: Failure) -> None:
        self.pid = None
        if self._killer is not None and self._killer.active():
            self._killer.cancel()
        self._ended.callback(None)

    def _story(self) -> str:
        lines = self._last_words.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"see {self.log_path}"


def _namesrv_conf(folder: str) -> dict[str, object]:
    return {"kvConfigPath": os.path.join(folder, "namesrv", "kvConfig.json")}


def dies_with_us() -> list[str]:
    """The prefix of a command that ends with this process, however this one ends."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM", "--"] if setpriv else []


def _free(taken: set[int], around: Sequence[int]) -> int:
    for _ in range(200):
        port = random.choice(PORT_RANGE)
        wanted = {port + distance for distance in around}
        if not wanted & taken and all(map(_bindable, wanted)):
            taken |= wanted
            return port
    raise DemoError(f"no free ports between {PORT_RANGE.start} and {PORT_RANGE.stop}")


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            return True
        except OSError:
            return False

"""Real server processes for tests and benchmarks: start, wait until they answer, stop, kill, weigh.

One class for every server, ours or RocketMQ's, so that a test says `broker.kill()` whoever is running. A
process is known by its own pid and nothing else; ready means that it answers a remoting call, because an open
port says nothing about a store that is still recovering. Output goes to a file in the process's folder and is
quoted in the error when the process dies early.

Rejected: running servers inside the test's reactor (kill -9 and torn files need a real process), and waiting
for a log line (wording is no interface).
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.remotingclient import RemotingClient, RemotingFailure

REPOSITORY = Path(__file__).resolve().parents[1]
READY_SECONDS = (
    120.0  # a JVM on a busy two-core machine needs up to 20 s; recovery of a big store is the caller's
)
STOP_SECONDS = 120.0  # RocketMQ's own shutdown takes 3-10 s of an idle machine
POLL_SECONDS = 0.1
LOG_TAIL = 4000  # bytes of output quoted in an error

BROKER_RUNTIME_INFO = 28
BROKER_CLUSTER_INFO = 106

_alive: set[ServerProcess] = set()


class ServerDied(Exception):
    """The process ended, or didn't answer in time; the message carries the end of its output."""


@dataclass(eq=False)
class ServerProcess:
    """One server: `argv` run in `folder`, ready when `probe(port)` returns without an error."""

    name: str
    argv: Sequence[str]
    folder: Path
    port: int
    probe: Callable[[int], object]
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} was never started"
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log_path(self) -> Path:
        return self.folder / f"{self.name}.out"

    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def start(self, wait: float | None = READY_SECONDS) -> float:
        """Start it and wait until it answers (`wait=None`: don't); returns the seconds until it did."""
        assert not self.running, f"{self.name} is running"
        self.folder.mkdir(parents=True, exist_ok=True)
        begun = time.monotonic()
        with open(self.log_path, "ab") as output:
            self.process = subprocess.Popen(
                [*dies_with_us(), *self.argv],
                cwd=self.folder,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        _alive.add(self)
        if wait is not None:
            self.wait_ready(wait)
        return time.monotonic() - begun

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while True:
            if not self.running:
                raise ServerDied(self._story("ended before it answered"))
            try:
                self.probe(self.port)
                return
            except (OSError, RemotingFailure) as failure:
                if time.monotonic() > deadline:
                    raise ServerDied(
                        self._story(f"didn't answer within {seconds:g} s ({failure})")
                    ) from failure
            time.sleep(POLL_SECONDS)

    def stop(self, seconds: float = STOP_SECONDS) -> int:
        """SIGTERM and wait; a server that ignores it is killed and reported."""
        return self._end(signal.SIGTERM, seconds)

    def kill(self) -> int:
        """SIGKILL: what a crash leaves behind."""
        return self._end(signal.SIGKILL, STOP_SECONDS)

    def restart(self, kill: bool = False) -> float:
        """Stop (or kill) and start again; seconds until it answers."""
        if self.running:
            self.kill() if kill else self.stop()
        return self.start()

    def suspend(self) -> None:
        """SIGSTOP: connected, silent."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def memory(self) -> int:
        """Anonymous resident bytes (RssAnon): what the process costs besides the page cache it maps."""
        return memory_of(self.pid)

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _end(self, number: int, seconds: float) -> int:
        assert self.process is not None
        _alive.discard(self)
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.send_signal(signal.SIGCONT)  # a suspended one would never see a SIGTERM
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_SECONDS)
            raise ServerDied(self._story(f"ignored signal {number} for {seconds:g} s")) from None

    def _story(self, what: str) -> str:
        status = self.process.returncode if self.process is not None else None
        return f"{self.name} {what}; exit status {status}; its output ends:\n{self.log_text()[-LOG_TAIL:]}"


def memory_of(pid: int) -> int:
    """RssAnon of a process, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"no RssAnon for process {pid}")


def dies_with_us() -> list[str]:
    """A prefix that has the kernel kill the server when this process dies, where util-linux offers it."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


@atexit.register
def _leave_nothing_running() -> None:
    for server in list(_alive):
        with contextlib.suppress(Exception):
            server.kill()


# Ports ---------------------------------------------------------------------------------------------

BROKER_PORTS = (-2, 0, 1)  # VIP listener, remoting, HA
PORT_RANGE = (16016, 31984)  # above the demo's; below Linux's ephemeral ports, which any connection may take
PORT_LOCKS = Path(tempfile.gettempdir(), f"hatwisted-ports-{os.getuid()}.lock")
"""Its byte p is locked by the process that was given port p, until it ends."""
_given: set[int] = set()


def free_port(around: Sequence[int] = (0,)) -> int:
    """A port p where every p + d (d in `around`) can be bound on all addresses now. Never given out twice, nor to
    two processes: a test's own server may listen there much later, or go away and come back."""
    for _ in range(200):
        base = random.randrange(*PORT_RANGE)
        wanted = {base + distance for distance in around}
        if not wanted & _given and all(map(_locked, wanted)) and all(map(_bindable, wanted)):
            _given.update(wanted)
            return base
    raise OSError("no free ports found in 200 tries")


@functools.cache
def _locks() -> int:
    return os.open(PORT_LOCKS, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _locked(port: int) -> bool:
    """Whether it's this process's now. Locks of ports that turn out to be taken stay: nobody can use those."""
    try:
        fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


# What "answers" means ------------------------------------------------------------------------------


def broker_answers(port: int) -> None:
    with RemotingClient("127.0.0.1", port, timeout=10.0) as client:
        client.call(BROKER_RUNTIME_INFO).expect(0)


def namesrv_answers(port: int) -> None:
    with RemotingClient("127.0.0.1", port, timeout=10.0) as client:
        client.call(BROKER_CLUSTER_INFO).expect(0)


# Configuration -------------------------------------------------------------------------------------

Setting = str | int | bool | Path


def write_conf(path: Path, settings: Mapping[str, Setting]) -> Path:
    """A RocketMQ properties file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={_as_text(value)}\n" for key, value in settings.items()))
    return path


def _as_text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_conf(path: Path) -> dict[str, str]:
    """The plain `key=value` lines of a properties file."""
    lines = (line.strip() for line in path.read_text().splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}


# Ours ----------------------------------------------------------------------------------------------


def twistd(command: str, name: str, folder: Path, conf: Path, port: int, reactor: str = "") -> ServerProcess:
    """`twistd -n COMMAND --conf CONF` of this checkout: hanamesrv, hamaster or haslave."""
    program = Path(sys.executable).with_name("twistd")
    options = ["-n", "--pidfile=", *([f"--reactor={reactor}"] if reactor else [])]
    return ServerProcess(
        name=name,
        argv=[str(program), *options, command, "--conf", str(conf)],
        folder=folder,
        port=port,
        probe=namesrv_answers if command == "hanamesrv" else broker_answers,
        environment={"PYTHONPATH": str(REPOSITORY)},
    )


def wait_until(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Poll a condition with a limit; `what` completes "gave up waiting until ..."."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"gave up waiting until {what} after {seconds:g} s")
        time.sleep(POLL_SECONDS)


@contextlib.contextmanager
def all_stopped(*servers: ServerProcess) -> Iterator[None]:
    """Kill whatever still runs on leaving."""
    try:
        yield
    finally:
        for server in servers:
            if server.running:
                server.kill()

"""What real servers tell the supervisor that listens on NOTIFY_SOCKET, as systemd does."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.processes import (
    BROKER_PORTS,
    REPOSITORY,
    ServerProcess,
    all_stopped,
    broker_answers,
    free_port,
    namesrv_answers,
)

SECONDS = 120.0
WATCHDOG_SECONDS = 1.0
SETTINGS = (
    "bindAddress=127.0.0.1",
    "brokerIP1=127.0.0.1",
    "embeddedNamesrv=false",
    "mappedFileSizeCommitLog=1048576",
    "maxHashSlotNum=1000",
    "maxIndexNum=4000",
)


class Listener:
    """The supervisor's end. told: all that has come, line by line."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.told: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + path[1:] if path.startswith("@") else path)
        self._socket.settimeout(SECONDS)

    def close(self) -> None:
        self._socket.close()

    def until(self, line: str) -> list[str]:
        """The lines up to the next that begins with `line`."""
        begin = len(self.told)
        while not any(each.startswith(line) for each in self.told[begin:]):
            self.told += self._socket.recv(4096).decode().splitlines()
        return self.told[begin:]


@pytest.fixture(params=["a file", "an abstract name"])
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Listener]:
    listener = Listener(
        str(tmp_path / "notify")
        if request.param == "a file"
        else f"@hatwisted-{os.getpid()}-{time.time_ns()}"
    )
    yield listener
    listener.close()


def started(kind: str, folder: Path, listener: Listener, *settings: str) -> ServerProcess:
    """The process, not waited for: its supervisor is told."""
    broker = kind != "hanamesrv"
    port = free_port(BROKER_PORTS if broker else (0,))
    words = (
        [*settings, f"listenPort={port}", f"storePathRootDir={folder}/store"]
        if broker
        else [f"listenPort={port}"]
    )
    server = ServerProcess(
        name=kind,
        argv=[
            str(Path(sys.executable).with_name("twistd")), "-n", "--pidfile=", kind,
            *(word for each in words for word in ("--set", each)),
        ],
        folder=folder,
        port=port,
        probe=broker_answers if broker else namesrv_answers,
        environment={
            "PYTHONPATH": str(REPOSITORY),
            "HOME": str(folder),
            "NOTIFY_SOCKET": listener.path,
            "WATCHDOG_USEC": str(int(WATCHDOG_SECONDS * 1_000_000)),
        },
    )  # fmt: skip
    server.start(wait=None)
    return server


def test_a_broker_tells_of_its_life(tmp_path: Path, listener: Listener) -> None:
    server = started("hamaster", tmp_path, listener, *SETTINGS)
    with all_stopped(server):
        before = listener.until("READY=1")
        server.probe(server.port)  # at the first try: ready is ready
        assert any(line.startswith("STATUS=ready: hatwisted") for line in before)
        assert "WATCHDOG=1" not in before[:-1], "a start isn't watched"
        for _ in range(3):
            listener.until("WATCHDOG=1")
        now = time.monotonic_ns() // 1000
        os.kill(server.pid, signal.SIGHUP)
        listener.until("RELOADING=1")
        lines = [*listener.told[-1:], *listener.until("READY=1")]
        (stamp,) = (line for line in lines if line.startswith("MONOTONIC_USEC="))
        assert int(stamp.partition("=")[2]) >= now
        listener.until("WATCHDOG=1")
        assert server.stop() == -signal.SIGTERM
        assert listener.until("STOPPING=1")[-1] == "STATUS=stopping"
        assert listener.told.count("STOPPING=1") == 1


def test_a_reactor_that_stands_still_gives_no_sign_of_life(tmp_path: Path, listener: Listener) -> None:
    server = started("hanamesrv", tmp_path, listener)
    with all_stopped(server):
        assert any(line.startswith("STATUS=name server on ") for line in listener.until("READY=1"))
        listener.until("WATCHDOG=1")
        server.suspend()
        listener._socket.settimeout(3 * WATCHDOG_SECONDS)
        with pytest.raises(TimeoutError):
            while True:
                listener.until("WATCHDOG=1")
        listener._socket.settimeout(SECONDS)
        server.resume()
        listener.until("WATCHDOG=1")


def test_a_start_that_is_refused_never_was_ready(tmp_path: Path, listener: Listener) -> None:
    server = started("hamaster", tmp_path, listener, *SETTINGS, "brokerRole=SLAVE")
    with all_stopped(server):
        assert server.process is not None
        assert server.process.wait(SECONDS) == 1
    listener._socket.settimeout(0.0)
    with pytest.raises(BlockingIOError):
        listener.until("READY=1")
    assert listener.told == []

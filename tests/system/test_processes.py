"""The shipped configurations as running processes, and what is left when they are stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
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
    wait_until,
)
from testbed.remotingclient import RemotingClient

TWISTD = str(Path(sys.executable).with_name("twistd"))

SUCCESS, SLAVE_NOT_AVAILABLE, SERVICE_NOT_AVAILABLE = 0, 11, 14
LINK_SECONDS = 120.0

# Beside what a shipped file says: four brokers on one host need their own ports and folders, and when that host
# hangs for some seconds, no slave is lost.
LOCAL = {"bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1"}
SMALL = {
    "mappedFileSizeCommitLog": "8388608",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "slaveTimeout": "15000",
}


def server(program: str, folder: Path, port: int, conf: Path | None, **settings: str) -> ServerProcess:
    overrides = [f"--set={key}={value}" for key, value in {"listenPort": str(port), **settings}.items()]
    return ServerProcess(
        name=folder.name,
        argv=[TWISTD, "-n", "--pidfile=", program, *([f"--conf={conf}"] if conf else []), *overrides],
        folder=folder,
        port=port,
        probe=namesrv_answers if program == "hanamesrv" else broker_answers,
        environment={"PYTHONPATH": str(REPOSITORY), "HOME": str(folder)},
    )


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as leaving:
        yield leaving


def start_set(stack: ExitStack, folder: Path, name: str) -> dict[str, ServerProcess]:
    """Every broker of a shipped set and a name server; by the names of their files."""
    namesrv_port = free_port()
    namesrv = server("hanamesrv", folder / "namesrv", namesrv_port, None, bindAddress="127.0.0.1")
    servers = {"namesrv": namesrv}
    for conf in sorted((REPOSITORY / "conf" / name).iterdir()):
        program = "haslave" if conf.stem.endswith("-s") else "hamaster"
        servers[conf.stem] = server(
            program,
            folder / conf.stem,
            free_port(BROKER_PORTS),
            conf,
            namesrvAddr=f"127.0.0.1:{namesrv_port}",
            **LOCAL,
            **SMALL,
        )
    stack.enter_context(all_stopped(*servers.values()))
    for each in servers.values():
        each.start()
    return servers


def send(broker: ServerProcess) -> int:
    """The answer's code."""
    with RemotingClient("127.0.0.1", broker.port) as client:
        return client.send("Shipped", b"hello", 0, {"KEYS": "k"}).code


def groups_known(namesrv: ServerProcess) -> dict[str, set[str]]:
    """Broker name -> ids, as the name server has them."""
    with RemotingClient("127.0.0.1", namesrv.port) as client:
        table = client.call(106).json()["brokerAddrTable"]
    assert isinstance(table, dict)
    return {name: set(group["brokerAddrs"]) for name, group in table.items()}


def test_B11_2m_2s_async(tmp_path: Path, stack: ExitStack) -> None:
    servers = start_set(stack, tmp_path, "2m-2s-async")
    for master, slave in (("broker-a", "broker-a-s"), ("broker-b", "broker-b-s")):
        assert send(servers[master]) == SUCCESS
        assert send(servers[slave]) == SERVICE_NOT_AVAILABLE
    known = {"broker-a": {"0", "1"}, "broker-b": {"0", "1"}}
    wait_until(lambda: groups_known(servers["namesrv"]) == known, LINK_SECONDS, "all four are registered")


def test_B12_2m_2s_sync(tmp_path: Path, stack: ExitStack) -> None:
    servers = start_set(stack, tmp_path, "2m-2s-sync")
    for master in ("broker-a", "broker-b"):
        broker = servers[master]
        assert send(broker) in (SUCCESS, SLAVE_NOT_AVAILABLE)
        wait_until(lambda broker=broker: send(broker) == SUCCESS, LINK_SECONDS, f"{master} has its slave")


def test_B13_2m_noslave(tmp_path: Path, stack: ExitStack) -> None:
    servers = start_set(stack, tmp_path, "2m-noslave")
    assert [send(servers[name]) for name in ("broker-a", "broker-b")] == [SUCCESS, SUCCESS]
    known = {"broker-a": {"0"}, "broker-b": {"0"}}
    wait_until(lambda: groups_known(servers["namesrv"]) == known, LINK_SECONDS, "both are registered")


def test_B07_a_sync_master_without_a_slave_stores_and_says_so(tmp_path: Path, stack: ExitStack) -> None:
    conf = REPOSITORY / "conf" / "2m-2s-sync" / "broker-a.properties"
    master = server("hamaster", tmp_path / "master", free_port(BROKER_PORTS), conf, **LOCAL, **SMALL)
    stack.enter_context(all_stopped(master))
    master.start()
    assert send(master) == SLAVE_NOT_AVAILABLE
    with RemotingClient("127.0.0.1", master.port) as client:
        assert client.pull("Shipped", 0, 0).code == SUCCESS


def test_sigterm_stops_in_order(tmp_path: Path, stack: ExitStack) -> None:
    conf = REPOSITORY / "conf" / "2m-noslave" / "broker-a.properties"
    master = server("hamaster", tmp_path / "master", free_port(BROKER_PORTS), conf, **LOCAL, **SMALL)
    stack.enter_context(all_stopped(master))
    master.start()
    assert send(master) == SUCCESS
    store = tmp_path / "master" / "store"
    assert (store / "abort").exists()

    assert master.stop() == -signal.SIGTERM  # twistd ends by the signal it was sent
    assert not (store / "abort").exists()
    assert "Unhandled" not in master.log_text() and "Traceback" not in master.log_text()

    master.start()
    with RemotingClient("127.0.0.1", master.port) as client:
        assert client.pull("Shipped", 0, 0).code == SUCCESS


def test_a_daemon_has_its_pid_and_log_where_twistd_was_told(tmp_path: Path) -> None:
    port = free_port(BROKER_PORTS)
    pidfile, logfile = tmp_path / "broker.pid", tmp_path / "broker.log"
    overrides = {"listenPort": str(port), "storePathRootDir": str(tmp_path / "store"), **LOCAL, **SMALL}
    subprocess.run(
        [
            TWISTD,
            f"--pidfile={pidfile}",
            f"--logfile={logfile}",
            "hamaster",
            *(f"--set={key}={value}" for key, value in overrides.items()),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        check=True,
        timeout=120,
    )
    pid = int(pidfile.read_text())
    try:
        broker_answers(port)
        assert str(tmp_path / "store") in logfile.read_text()
    finally:
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not pidfile.exists(), 60, "the daemon has ended")
    assert not (tmp_path / "store" / "abort").exists()


@pytest.mark.parametrize("program", ["hamaster", "haslave", "hanamesrv"])
def test_help(program: str, tmp_path: Path) -> None:
    shown = subprocess.run(
        [TWISTD, program, "--help"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "--conf" in shown.stdout and "--set" in shown.stdout

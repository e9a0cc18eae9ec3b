"""Signals of a real broker process: SIGHUP reads configuration and log file again, a second SIGTERM hastens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
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
    wait_until,
)
from testbed.remotingclient import RemotingClient

SECONDS = 120.0
SMALL = (
    "bindAddress=127.0.0.1\nbrokerIP1=127.0.0.1\nbrokerIP2=127.0.0.1\nembeddedNamesrv=false\n"
    "mappedFileSizeCommitLog=1048576\nmaxHashSlotNum=1000\nmaxIndexNum=4000\n"
)


PATIENT_TWISTD = f"""
from hatwisted.tap import startwatch
from twisted.scripts.twistd import run
startwatch.PATIENCE = {SECONDS}
run()
"""
"""The command, whose terminal waits longer for the slave's first words: its master may be slow."""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "broker.conf"
    path.write_text(f"{SMALL}storePathRootDir={tmp_path}/store\nfileReservedTime=72\n")
    return path


@pytest.fixture
def broker(tmp_path: Path, conf: Path) -> Iterator[ServerProcess]:
    port = free_port(BROKER_PORTS)
    words = ["-n", "--pidfile=", f"--logfile={tmp_path}/broker.log", "hamaster", f"--conf={conf}"]
    server = ServerProcess(
        name="broker",
        argv=[
            str(Path(sys.executable).with_name("twistd")), *words, "--log-format=json", f"--set=listenPort={port}"
        ],
        folder=tmp_path,
        port=port,
        probe=broker_answers,
        environment={"PYTHONPATH": str(REPOSITORY), "HOME": str(tmp_path)},
    )  # fmt: skip
    with all_stopped(server):
        server.start()
        yield server


def events(log: Path) -> list[str]:
    return [json.loads(line).get("event", "") for line in log.read_text().splitlines()]


def config_of(port: int) -> dict[str, str]:
    with RemotingClient("127.0.0.1", port) as client:
        lines = client.call(26).body.decode().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def test_a_hang_up_reads_the_file_again_and_reopens_the_log(
    broker: ServerProcess, conf: Path, tmp_path: Path
) -> None:
    log = tmp_path / "broker.log"
    assert "broker.ready" in events(log)
    log.rename(tmp_path / "moved.log")
    conf.write_text(conf.read_text().replace("fileReservedTime=72", "fileReservedTime=24"))
    os.kill(broker.pid, signal.SIGHUP)
    wait_until(lambda: log.exists() and "config.reread" in events(log), SECONDS, "it's read again")
    assert config_of(broker.port)["fileReservedTime"] == "24"
    conf.write_text(conf.read_text() + "brokerRole=MASTER\n")
    os.kill(broker.pid, signal.SIGHUP)
    wait_until(lambda: "config.refused" in events(log), SECONDS, "and once more, in vain")
    assert config_of(broker.port)["fileReservedTime"] == "24"
    assert broker.stop() == -signal.SIGTERM
    assert not (tmp_path / "store" / "abort").exists(), "not in order"


def test_a_second_signal_to_stop_is_no_mistake(broker: ServerProcess, tmp_path: Path) -> None:
    assert broker.process is not None
    broker.process.send_signal(signal.SIGTERM)
    broker.process.send_signal(signal.SIGTERM)
    assert broker.stop() == -signal.SIGTERM
    text = (tmp_path / "broker.log").read_text()
    assert "Traceback" not in text
    assert "ReactorNotRunning" not in text


def test_a_name_server_reads_its_file_again(tmp_path: Path) -> None:
    conf, port = tmp_path / "namesrv.conf", free_port()
    conf.write_text(f"bindAddress=127.0.0.1\nlistenPort={port}\nkvConfigPath={tmp_path}/kv.json\n")
    words = ["-n", "--pidfile=", f"--logfile={tmp_path}/names.log", "hanamesrv", f"--conf={conf}"]
    server = ServerProcess(
        name="names",
        argv=[str(Path(sys.executable).with_name("twistd")), *words, "--log-format=json"],
        folder=tmp_path,
        port=port,
        probe=namesrv_answers,
        environment={"PYTHONPATH": str(REPOSITORY), "HOME": str(tmp_path)},
    )
    with all_stopped(server):
        server.start()
        conf.write_text(conf.read_text() + "orderMessageEnable=true\n")
        os.kill(server.pid, signal.SIGHUP)
        log = tmp_path / "names.log"
        wait_until(lambda: "config.reread" in events(log), SECONDS, "it's read again")
        with RemotingClient("127.0.0.1", port) as client:
            assert "orderMessageEnable=true" in client.call(319).body.decode().splitlines()


def test_a_daemons_terminal_is_told_why_it_cannot_copy(broker: ServerProcess, tmp_path: Path) -> None:
    port, pid_file = free_port(BROKER_PORTS), tmp_path / "slave.pid"
    conf = tmp_path / "slave.conf"
    conf.write_text(
        SMALL.replace("mappedFileSizeCommitLog=1048576", "mappedFileSizeCommitLog=2097152")
        + f"storePathRootDir={tmp_path}/copy\nlistenPort={port}\nhaMasterAddress=127.0.0.1:{broker.port + 1}\n"
        "brokerRole=SLAVE\nbrokerId=1\n"
    )
    words = [f"--pidfile={pid_file}", f"--logfile={tmp_path}/slave.log", "haslave", f"--conf={conf}"]
    started = subprocess.run(
        [sys.executable, "-c", PATIENT_TWISTD, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert started.returncode == 0, started.stderr
    try:
        assert "haslave: " in started.stderr
        assert "mappedFileSizeCommitLog is 2097152 here and 1048576 at the master" in started.stderr
        assert "set mappedFileSizeCommitLog=1048576" in started.stderr
    finally:
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not Path("/proc", str(pid)).exists(), SECONDS, "it ends")

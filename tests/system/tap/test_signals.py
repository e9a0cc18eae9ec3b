"""Signals of a real broker process: SIGHUP reads configuration and log file again, a second SIGTERM hastens."""

from __future__ import annotations

import json
import os
import signal
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
    wait_until,
)
from testbed.remotingclient import RemotingClient

SECONDS = 20.0
SMALL = (
    "bindAddress=127.0.0.1\nbrokerIP1=127.0.0.1\nbrokerIP2=127.0.0.1\nembeddedNamesrv=false\n"
    "mappedFileSizeCommitLog=1048576\nmaxHashSlotNum=1000\nmaxIndexNum=4000\n"
)


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

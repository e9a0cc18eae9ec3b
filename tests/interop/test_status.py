"""`hatwisted status` at a pair of RocketMQ's own, 4.9.7 (without 907) and 5.3.3: what they say, who leaves."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from testbed import javarocketmq
from testbed.brokergroup import OURS, BrokerGroup
from testbed.processes import REPOSITORY, all_stopped, wait_until
from tests.interop.conftest import OLDER_VERSION
from tests.support.patientprogram import PATIENT


def status(address: str) -> dict[str, Any]:
    words = [*PATIENT, "status", "-n", address, "--json"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(words, env=environment, capture_output=True, timeout=120)
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if found["healthy"] else 1)
    return found


@pytest.mark.parametrize("version", OLDER_VERSION)
def test_a_java_pair(tmp_path: Path, version: str) -> None:
    if reason := javarocketmq.available(version):
        pytest.skip(f"RocketMQ {version} can't run here: {reason}")
    group = BrokerGroup(tmp_path, namesrv_kind=OURS)
    names = javarocketmq.namesrv("namesrv", tmp_path, group.namesrv_port, version=version)
    master = javarocketmq.broker("master", tmp_path, group.master_settings(), version=version)
    slave = javarocketmq.broker("slave", tmp_path, group.full_slave_settings(), version=version)
    address = f"127.0.0.1:{group.namesrv_port}"
    with all_stopped(names, master, slave):
        for server in (names, master):
            server.start()
        wait_until(lambda: status(address)["brokers"], 120, "the master is registered")
        assert "sync-master-alone" in {each["name"] for each in status(address)["findings"]}
        slave.start()
        group.wait_linked()
        group.wait_caught_up()
        wait_until(lambda: len(status(address)["brokers"]) == 2, 120, "the slave is registered")
        seen = status(address)
        one, other = seen["brokers"]
        assert (one["role"], other["role"]) == ("SYNC_MASTER", "SLAVE")
        assert one["version"] == other["version"] == f"V{version.replace('.', '_')}"
        assert one["logEnd"] == other["logEnd"] == group.master_end()
        assert other["lag"]["bytes"] == 0
        assert None not in (one["diskUsed"], one["flushLag"], one["dispatchLag"], one["clock"])
        assert (one["slaves"] is None) == (version == "4.9.7"), "who copies is 5.x's to say"
        assert seen["healthy"], seen["findings"]
        slave.kill()
        wait_until(lambda: not status(address)["healthy"], 120, "its death shows")

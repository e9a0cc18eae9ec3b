"""`hatwisted audit` below a RocketMQ master, which can't checksum its log."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from testbed.brokergroup import JAVA, OURS, BrokerGroup
from testbed.processes import REPOSITORY, dies_with_us
from tests.interop.conftest import needs


def test_B171_a_rocketmq_master_is_named_and_nothing_is_compared(tmp_path: Path) -> None:
    needs(JAVA)
    with BrokerGroup(tmp_path, JAVA, OURS, role="ASYNC_MASTER") as group:
        group.start()
        with group.master_client() as client:
            assert client.send("Audited", b"body", 0, {}).code == 0
        group.wait_caught_up()
        master, slave = f"127.0.0.1:{group.master_port}", f"127.0.0.1:{group.slave_port}"
        done = subprocess.run(
            [*dies_with_us(), sys.executable, "-m", "hatwisted", "audit", master, slave],
            capture_output=True,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            timeout=120,
            check=False,
        )
        assert done.returncode == 2
        said = done.stderr.decode()
        assert f"{master} can't checksum its log" in said
        assert "hatwisted log compare" in said

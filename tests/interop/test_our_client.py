"""Our own client against RocketMQ's brokers: send, batch, delay, share, retry, administer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.conftest import needs
from tests.support import javarocketmq
from tests.support.brokergroup import JAVA, OURS, BrokerGroup

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

PROGRAM = Path(__file__).with_name("client_program.py")


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
def test_our_client_and_a_java_broker(tmp_path: Path, version: str) -> None:
    needs(JAVA)
    if reason := javarocketmq.available(version):
        pytest.skip(reason)
    with BrokerGroup(tmp_path, namesrv_kind=OURS) as group:
        assert group.namesrv is not None
        group.namesrv.start()
        settings = group.master_settings() | {"brokerRole": "ASYNC_MASTER"}
        master = javarocketmq.broker("master", tmp_path, settings, version=version)
        master.start()
        try:
            done = subprocess.run(
                [sys.executable, str(PROGRAM), f"127.0.0.1:{group.namesrv_port}"],
                capture_output=True,
                text=True,
                timeout=120,
                env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            )
        finally:
            master.kill()
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert done.stdout.split() == ["sent", "consumed", "retried", "committed", "administered", "transacted"]

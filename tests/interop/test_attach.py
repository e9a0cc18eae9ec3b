"""`hatwisted attach` and `status` with RocketMQ: the tutorial, word by word, at a master of 4.9.7 and of 5.3.3."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from testbed import javarocketmq
from testbed.brokergroup import OURS, BrokerGroup
from testbed.processes import REPOSITORY, all_stopped, wait_until
from testbed.storefiles import check_queues, first_difference
from tests.interop.conftest import OLDER_VERSION
from tests.support.patientprogram import PATIENT
from tests.support.tutorial import blocks, run_block, stop_slave

COUNT = 3000


@pytest.mark.parametrize("version", OLDER_VERSION)
def test_the_tutorial_makes_a_whole_copy_of_a_java_master(tmp_path: Path, version: str) -> None:
    if reason := javarocketmq.available(version):
        pytest.skip(f"RocketMQ {version} can't run here: {reason}")
    group = BrokerGroup(tmp_path, namesrv_kind=OURS, role="ASYNC_MASTER")
    names = javarocketmq.namesrv("namesrv", tmp_path, group.namesrv_port, version=version)
    master = javarocketmq.broker("master", tmp_path, group.master_settings(), version=version)
    address = f"127.0.0.1:{group.namesrv_port}"
    with all_stopped(names, master):
        names.start()
        master.start()
        with group.master_client() as client:
            codes = {client.send("Orders", b"x" * 900, number % 4).code for number in range(COUNT)}
        assert codes == {0}
        # 5.3.3 registers a moment after it has begun to answer.
        wait_until(lambda: status(address).get("brokers"), 120, "the master is registered")
        try:
            before, attached, after, stopped, again = (
                run_block(code, tmp_path, address) for code in blocks()
            )
            wait_until(lambda: status(address).get("healthy"), 120, "the status says that all is well")
        finally:
            stop_slave(tmp_path)
        for each in (before, attached, after, stopped, again):
            assert each.returncode == 0, each
        end = group.master_end()
        assert "has no slave" in before.stdout
        assert "level    it has all that its master has" in attached.stdout
        assert "SLAVE" in after.stdout and "level" in after.stdout
        assert "level    it has all" in again.stdout
        ours, theirs = tmp_path / "copy" / "store", group.master_store
        master.stop()
        assert end > COUNT * 900
        assert first_difference(theirs, ours, end) is None, "not the whole log"
        assert check_queues(ours) >= COUNT


def status(address: str) -> dict[str, object]:
    """What `hatwisted status --json` says."""
    words = [*PATIENT, "status", "-n", address, "--json"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    found: dict[str, object] = json.loads(subprocess.run(words, env=environment, capture_output=True).stdout)
    return found

"""A slave of ours asks a RocketMQ master how that is configured before it copies, and says how its copy goes."""

from __future__ import annotations

from pathlib import Path

from testbed.brokergroup import JAVA, OURS, SMALL_STORE, BrokerGroup
from testbed.processes import wait_until
from tests.interop.conftest import needs
from tests.support.hastatus import client_side, ha_status

SECONDS = 120.0


def test_files_of_another_size_are_refused_before_anything_is_copied(tmp_path: Path) -> None:
    needs(JAVA)
    size = int(str(SMALL_STORE["mappedFileSizeCommitLog"]))
    wrong = {"mappedFileSizeCommitLog": 2 * size}
    with BrokerGroup(tmp_path, JAVA, OURS, OURS, role="ASYNC_MASTER", slave_settings=wrong) as group:
        assert group.namesrv is not None
        group.namesrv.start()
        group.master.start()
        with group.master_client() as client:
            assert client.send("Probe", b"probe", 0).code == 0
        group.slave.start()
        wait_until(lambda: client_side(group.slave_port)["problem"], SECONDS, "the slave refuses")
        told = client_side(group.slave_port)
        assert told["state"] == "config mismatch"
        assert f"set mappedFileSizeCommitLog={size}" in told["problem"]
        assert f"set mappedFileSizeCommitLog={size}" in group.slave.log_text()
        assert group.slave_end() == 0


def test_the_copy_of_a_rocketmq_master_is_told_until_it_is_level(tmp_path: Path) -> None:
    needs(JAVA)
    with BrokerGroup(tmp_path, JAVA, OURS, OURS, role="ASYNC_MASTER") as group:
        group.start()
        group.wait_caught_up()
        wait_until(lambda: "level with its master" in group.slave.log_text(), SECONDS, "it's level")
        log = group.slave.log_text()
        assert "copying from master 127.0.0.1:" in log
        assert "(V4_9_7)" in log
        assert "ready: hatwisted" in log
        assert ha_status(group.slave_port)["masterCommitLogMaxOffset"] == group.master_end()

"""`twistd haslave` without a configuration file: role and id follow from the command, and it copies its master."""

from __future__ import annotations

import sys
from pathlib import Path

from testbed.brokergroup import SMALL_STORE, BrokerGroup, log_end_of
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

LINKED = 120.0  # seconds


def test_it_copies_its_master_and_says_who_it_is(tmp_path: Path) -> None:
    with BrokerGroup(tmp_path, role="ASYNC_MASTER") as group:
        group.master.start()
        port = free_port(BROKER_PORTS)
        settings = {
            "brokerName": group.name,
            "haMasterAddress": f"127.0.0.1:{group.ha_port}",
            "listenPort": port,
            "brokerIP1": "127.0.0.1",
            "storePathRootDir": tmp_path / "own-store",
            "mappedFileSizeCommitLog": SMALL_STORE["mappedFileSizeCommitLog"],
            "mappedFileSizeConsumeQueue": SMALL_STORE["mappedFileSizeConsumeQueue"],
            "messageIndexEnable": "false",
        }
        overrides = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        program = str(Path(sys.executable).with_name("twistd"))
        slave = ServerProcess(
            name="fileless",
            argv=[program, "-n", "--pidfile=", "haslave", *overrides],
            folder=tmp_path,
            port=port,
            probe=broker_answers,
            environment={"PYTHONPATH": str(REPOSITORY)},
        )
        with all_stopped(slave):
            slave.start()
            with group.master_client() as client:
                assert client.send("T", b"a message", 0, {}).code == 0
            wait_until(lambda: log_end_of(port) == group.master_end(), LINKED, "the slave has the message")
            with RemotingClient("127.0.0.1", port) as client:
                refused = client.send("T", b"another", 0, {})
            assert refused.code == 14, "a slave takes no messages"
            slave.stop()

"""RocketMQ's own client, in the shape of mqadmin, against our name server, master and slave."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from testbed import javarocketmq
from testbed.brokergroup import JAVA, OURS, BrokerGroup
from testbed.storefiles import read_log
from tests.interop.conftest import needs

pytestmark = pytest.mark.timeout(240)

MQADMIN = "org.apache.rocketmq.tools.command.MQAdminStartup"


def mqadmin(group: BrokerGroup, *arguments: str) -> str:
    """What one mqadmin command prints."""
    command = javarocketmq.java_command(MQADMIN, group.folder / "mqadmin-home")
    command += [*arguments, "-n", f"127.0.0.1:{group.namesrv_port}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert "Exception" not in done.stderr, done.stderr[-2000:]
    return done.stdout


def test_B117_the_java_client_finds_our_brokers_sends_and_reads(tmp_path: Path) -> None:
    needs(JAVA)
    with BrokerGroup(tmp_path, namesrv_kind=OURS) as group:
        group.start()
        cluster = mqadmin(group, "clusterList")
        assert f"127.0.0.1:{group.master_port}" in cluster and f"127.0.0.1:{group.slave_port}" in cluster
        sent = mqadmin(group, "sendMessage", "-t", "JavaTopic", "-p", "from Java", "-k", "key1", "-c", "tagA")
        assert "SEND_OK" in sent
        assert "KEYS=key1" in mqadmin(group, "consumeMessage", "-t", "JavaTopic")
        group.wait_caught_up()
        group.stop()
    for store in (group.master_store, group.slave_store):
        assert [each.body for each in read_log(store) if each.topic == "JavaTopic"] == [b"from Java"]

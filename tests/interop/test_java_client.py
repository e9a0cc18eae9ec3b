"""RocketMQ's own client, in the shape of mqadmin, against our name server, master and slave."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import javarocketmq
from testbed.brokergroup import OURS, BrokerGroup
from testbed.storefiles import read_log
from tests.support import javaclient
from tests.support.javaclient import JavaClient


def mqadmin(program: JavaClient, group: BrokerGroup, *arguments: str) -> str:
    """What one mqadmin command prints."""
    program.forget()
    program.tell("run", *arguments, "-n", f"127.0.0.1:{group.namesrv_port}")
    return "\n".join(event[0] if event else "" for event in program.events("printed"))


def test_B117_the_java_client_finds_our_brokers_sends_and_reads(tmp_path: Path) -> None:
    version = javarocketmq.VERSION
    if reason := javaclient.unavailable(version):
        pytest.skip(f"RocketMQ's mqadmin {version} can't run here: {reason}")
    with (
        BrokerGroup(tmp_path, namesrv_kind=OURS) as group,
        JavaClient(version, "Mqadmin", tmp_path) as program,
    ):
        group.start()
        cluster = mqadmin(program, group, "clusterList")
        assert f"127.0.0.1:{group.master_port}" in cluster and f"127.0.0.1:{group.slave_port}" in cluster
        sent = mqadmin(
            program, group, "sendMessage", "-t", "JavaTopic", "-p", "from Java", "-k", "key1", "-c", "tagA"
        )
        assert "SEND_OK" in sent
        assert "KEYS=key1" in mqadmin(program, group, "consumeMessage", "-t", "JavaTopic")
        group.wait_caught_up()
        group.stop()
    for store in (group.master_store, group.slave_store):
        assert [each.body for each in read_log(store) if each.topic == "JavaTopic"] == [b"from Java"]

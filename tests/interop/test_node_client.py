"""A client that isn't Java's, npm's ali-ons, against our name server, SYNC_MASTER and slave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.brokergroup import OURS, BrokerGroup
from testbed.processes import wait_until
from testbed.storefiles import read_log
from tests.support import nodeclient
from tests.support.clusterclient import RoutedConsumer
from tests.support.nodeclient import NodeClient

SECONDS = 120.0
TOPIC, GROUP = "FromNode", "node-group"


@pytest.fixture
def group(tmp_path: Path) -> Iterator[BrokerGroup]:
    if reason := nodeclient.PACKAGE.missing():
        pytest.skip(f"ali-ons can't run here: {reason}")
    with BrokerGroup(tmp_path, namesrv_kind=OURS) as pair:
        pair.start()
        with pair.master_client() as client:
            assert client.send(TOPIC, b"first").code == 0  # it can't make topics by sending
        yield pair
        for server in (pair.master, pair.slave, pair.namesrv):
            assert server is not None and "Traceback" not in server.log_text()


def test_it_sends_reads_and_commits(group: BrokerGroup, tmp_path: Path) -> None:
    with NodeClient(tmp_path, f"127.0.0.1:{group.namesrv_port}") as client:
        client.tell("send", TOPIC, "node", 12)
        assert {event[1] for event in client.events("sent")} == {"SEND_OK"}
        sent = [f"node{number}" for number in range(12)]
        copied = [each.body.decode() for each in read_log(group.slave_store) if each.topic == TOPIC]
        assert sorted(copied) == sorted([*sent, "first"])

        client.tell("subscribe", GROUP, TOPIC, "*")
        client.wait_for("got", lambda events: len(events) >= 13, SECONDS)
        client.tell("send", TOPIC, "later", 4)  # to held pulls
        expected = Counter([*sent, "first", *(f"later{number}" for number in range(4))])
        got = client.wait_for("got", lambda events: len(events) >= expected.total(), SECONDS)
        assert Counter(event[0] for event in got) == expected
        assert client.events("error") == []

        follower = RoutedConsumer(group.namesrv_port, TOPIC, GROUP)
        with group.master_client() as reader:
            ends = [reader.max_queue_offset(TOPIC, queue) for queue in range(4)]
        wait_until(
            lambda: [follower.committed(group.master_port, queue) for queue in range(4)] == ends,
            SECONDS,
            "its progress is on the broker",
        )


def test_it_filters_by_tag(group: BrokerGroup, tmp_path: Path) -> None:
    with NodeClient(tmp_path, f"127.0.0.1:{group.namesrv_port}") as client:
        client.tell("send", TOPIC, "node", 8)
        client.tell("subscribe", GROUP, TOPIC, "odd")
        expected = {f"node{number}" for number in range(1, 8, 2)}
        got = client.wait_for("got", lambda events: len(events) >= len(expected), SECONDS)
        assert {event[0] for event in got} == expected

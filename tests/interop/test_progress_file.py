"""consumerOffset.json with the dates of resets in it, passed on to RocketMQ's brokers and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import javarocketmq
from testbed.brokergroup import OURS, BrokerGroup
from testbed.remotingclient import RemotingClient
from tests.interop.conftest import OLDER_VERSION

QUERY, COMMIT = 14, 15
# A group that every broker has: 5.x takes commits of no other.
QUEUE = {"consumerGroup": "TOOLS_CONSUMER", "topic": "Progress", "queueId": "0"}


def commit(client: RemotingClient, offset: int) -> None:
    client.call(COMMIT, {**QUEUE, "commitOffset": str(offset)}).expect(0)


def committed(client: RemotingClient) -> int:
    return int(client.call(QUERY, QUEUE).ext.get("offset", -1))


@pytest.mark.parametrize("version", OLDER_VERSION)
def test_B162_rocketmq_reads_progress_with_resets_and_goes_on_from_it(version: str, tmp_path: Path) -> None:
    reason = javarocketmq.available(version)
    if reason is not None:
        pytest.skip(f"RocketMQ {version} can't run here: {reason}")
    with BrokerGroup(tmp_path, role="ASYNC_MASTER") as group:
        group.master.start()
        with group.master_client() as client:
            assert [client.send("Progress", b"x").code for _ in range(20)] == [0] * 20
            commit(client, 15)
            commit(client, 5)
        group.master.stop()
        file = group.master_store / "config" / "consumerOffset.json"
        assert "resetTable" in file.read_text()

        group._master = javarocketmq.broker("master", tmp_path, group.master_settings(), version=version)
        group.master.start()
        with group.master_client() as client:
            assert committed(client) == 5
            commit(client, 7)
        group.master.stop()

        group.use_master(OURS)
        group.master.start()
        with group.master_client() as client:
            assert committed(client) == 7
        group.master.stop()

"""RocketMQ 5.3.3 as master of our slave and as slave of our master: the tables get across, its own fields too."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import javarocketmq
from testbed.brokergroup import OURS, QUICK_SYNC, SMALL_STORE, BrokerGroup
from testbed.processes import wait_until
from tests.interop.test_mixed_config_sync import (
    ALL_GROUPS,
    ALL_TOPICS,
    GROUP,
    LATER,
    TOPIC,
    beat,
    commit,
    create,
    offsets_at,
    table,
)
from tests.support.soak import in_soak

VERSION = "5.3.3"
SYNC_SECONDS = 240.0  # its slave asks once a minute


@pytest.mark.parametrize("javas", ["master", in_soak("slave", why="it asks once a minute")])
def test_B101_B103_B105_tables_get_across(javas: str, tmp_path: Path) -> None:
    reason = javarocketmq.available(VERSION)
    if reason is not None:
        pytest.skip(f"RocketMQ {VERSION} can't run here: {reason}")
    settings = {**SMALL_STORE, **QUICK_SYNC, "registerNameServerPeriod": 10_000}
    with BrokerGroup(tmp_path, OURS, OURS, namesrv_kind=OURS, settings=settings) as group:
        if javas == "master":
            group._master = javarocketmq.broker("master", tmp_path, group.master_settings(), version=VERSION)
        else:
            group._slave = javarocketmq.broker(
                "slave", tmp_path, group.full_slave_settings(), version=VERSION
            )
        group.start()
        with group.master_client() as client:
            assert client.send(TOPIC, b"x").code == 0
            beat(client, GROUP)
            commit(client, 0, 1)
            create(client, LATER)

        def here(code: int, name: str, key: str) -> bool:
            return key in table(group.slave_port, code, name)

        wait_until(
            lambda: offsets_at(group.slave_port) == {"0": 1}, SYNC_SECONDS, "the slave has the progress"
        )
        wait_until(lambda: here(ALL_TOPICS, "topicConfigTable", LATER), SYNC_SECONDS, "and the topic")
        wait_until(lambda: here(ALL_GROUPS, "subscriptionGroupTable", GROUP), SYNC_SECONDS, "and the group")
        for code, name, key in (
            (ALL_TOPICS, "topicConfigTable", LATER),
            (ALL_GROUPS, "subscriptionGroupTable", GROUP),
        ):
            theirs, ours = (table(port, code, name)[key] for port in (group.master_port, group.slave_port))
            assert isinstance(theirs, dict) and isinstance(ours, dict)
            # 5.x fills its own fields in where ours had none
            assert ours == theirs if javas == "master" else theirs.items() <= ours.items()
        for server in (group.master, group.slave):
            assert "Traceback" not in server.log_text()

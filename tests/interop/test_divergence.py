"""A RocketMQ master that has lost its tail and written on: our slave notices, and joins again after a cut."""

from __future__ import annotations

from pathlib import Path

from testbed.brokergroup import JAVA, OURS, BrokerGroup
from testbed.processes import wait_until
from testbed.storefiles import check_queues, first_difference, log_end
from tests.interop.conftest import needs
from tests.support.hastatus import client_side
from tests.support.logcommand import log_command
from tests.support.parting import put


def test_B140_B160_a_rocketmq_master_cut_and_written_on_is_noticed_and_joined_again(tmp_path: Path) -> None:
    needs(JAVA)
    with BrokerGroup(tmp_path, JAVA, OURS, role="ASYNC_MASTER") as group:
        group.start()
        put(group.master_port, b"common", 20)
        lost = put(group.master_port, b"lost", 5)
        group.wait_caught_up()
        group.stop()
        assert log_command(0, "cut", group.master_store, "--at", lost[0], "--yes")["records"] == len(lost)

        group.master.start()
        assert group.master_end() == lost[0], "RocketMQ opens what was cut"
        assert put(group.master_port, b"written anew", 20)[0] == lost[0]
        group.slave.start()
        told = "the two have diverged"
        wait_until(lambda: told in client_side(group.slave_port)["problem"], 60, "the slave says so")
        group.slave.stop()

        assert log_command(1, "compare", group.slave_store, group.master_store)["equalTo"] == lost[0]
        log_command(0, "cut", group.slave_store, "--at", lost[0], "--yes")
        group.slave.start()
        end = group.wait_caught_up()
        assert client_side(group.slave_port)["problem"] == ""
        group.stop()
        assert log_end(group.master_store) == log_end(group.slave_store) == end
        assert first_difference(group.master_store, group.slave_store, end) is None
        assert check_queues(group.master_store) == check_queues(group.slave_store)

"""A slave of ours below a RocketMQ master, which says nothing of its own accord, shows how far behind it is."""

from __future__ import annotations

import urllib.request
from pathlib import Path

from testbed.brokergroup import JAVA, OURS, QUICK_SYNC, SMALL_STORE, BrokerGroup
from testbed.processes import free_port, wait_until
from tests.interop.conftest import needs
from tests.support.figures import Figures
from tests.support.soak import only_in_soak


@only_in_soak("most of a minute, and the figure is looked at between two of ours")
def test_a_slaves_own_lag_behind_a_rocketmq_master(tmp_path: Path) -> None:
    needs(JAVA, OURS)
    port = free_port()
    group = BrokerGroup(
        tmp_path,
        JAVA,
        OURS,
        JAVA,
        settings={**SMALL_STORE},
        slave_settings={**QUICK_SYNC, "metricsPort": port},
    )

    def figures() -> Figures:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            return Figures(answer.read().decode())

    with group:
        group.start()
        with group.master_client() as client:
            for _ in range(20):
                client.send("T", bytes(1000))
        end = group.wait_caught_up()

        def level() -> bool:
            shown = figures()
            known = shown.labels("hatwisted_ha_slave_master_end_offset")
            return bool(known) and shown("hatwisted_ha_slave_master_end_offset") == end

        wait_until(level, 60, f"the slave knows that its master's log ends at {end}")
        assert figures()("hatwisted_ha_slave_lag_bytes") == 0
        assert figures()("hatwisted_ha_slave_lag_seconds") == 0
        group.slave.suspend()
        with group.master_client() as client:
            for _ in range(5):
                client.send("T", bytes(1000), 0)
        further = group.master_end()
        group.slave.resume()
        wait_until(
            lambda: figures()("hatwisted_log_end_offset") == further, 60, "the slave has what came meanwhile"
        )
        group.master.kill()
        wait_until(
            lambda: not figures().labels("hatwisted_ha_slave_lag_bytes"),
            60,
            "nothing is known of a dead master",
        )

"""docs/runbooks/java.md, as it stands there: a group goes over from Java and back while somebody sends."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import javarocketmq
from testbed.brokergroup import OURS, QUICK_SYNC, SMALL_STORE, BrokerGroup
from testbed.processes import BROKER_PORTS, all_stopped, free_port, read_conf, wait_until
from testbed.storefiles import check_queues, first_difference, log_end
from tests.support.runbooks import TOPIC, Runbook, Traffic, missing_from
from tests.support.soak import only_in_soak

pytestmark = [
    only_in_soak("40 s each"),
]

SECONDS = 120.0
SOME = 200


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
def test_from_Java_and_back_without_losing_a_message(tmp_path: Path, version: str) -> None:
    if reason := javarocketmq.available(version):
        pytest.skip(f"RocketMQ {version} can't run here: {reason}")
    # 4.9.7 reads a slave's tables every 10 s; ours doesn't have to.
    settings = {**SMALL_STORE, "maxMessageSize": 65536}
    group = BrokerGroup(tmp_path, namesrv_kind=OURS, role="ASYNC_MASTER", settings=settings)
    assert group.namesrv is not None
    java = javarocketmq.broker("master", tmp_path, group.master_settings(), version=version)
    new = tmp_path / "new"
    quick = "\n".join(f"{key}={value}" for key, value in QUICK_SYNC.items())
    page = Runbook(
        "java",
        tmp_path,
        group.namesrv_port,
        {"--dir new": f"--dir new --port {free_port(BROKER_PORTS)}", "sleep 12": "sleep 3"},
    )

    def stored(traffic: Traffic) -> None:
        goal = len(traffic.stored) + SOME
        wait_until(lambda: len(traffic.stored) >= goal, SECONDS, "more messages are stored")

    with all_stopped(group.namesrv, java):
        group.namesrv.start()
        java.start()
        try:
            with Traffic(group.namesrv_port) as traffic:
                stored(traffic)
                page.run("hatwisted attach 127.0.0.1:9876 broker-a --dir new --no-start")
                with open(new / "broker.conf", "a") as conf:
                    conf.write(f"{quick}\n")
                page.run(f"hatwisted consume {TOPIC} --group billing --from first --count 50")
                before, after = page.split("Stop the Java master, then the slave")
                for code in before:
                    page.run(code)
                java.stop()
                (stop, start, *_, back) = after
                page.run(stop)
                page.run(start)
                over = len(traffic.stored)
                stored(traffic)
                assert "billing" in page.run("hatwisted group lag")
                page.run(back)
                again = javarocketmq.broker("again", tmp_path, read_conf(new / "java.conf"), version=version)
                with all_stopped(again):
                    again.start()
                    stored(traffic)
                    again.stop()
        finally:
            page.end()
    assert 0 < over < len(traffic.stored)
    assert missing_from(new / "store", traffic.stored) == []
    assert check_queues(new / "store") >= len(traffic.stored)
    end = log_end(group.master_store)
    assert first_difference(group.master_store, new / "store", end) is None, "not the same log"

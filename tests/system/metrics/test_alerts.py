"""Alert rules that are shipped fire for what they are named after: a link, a name server, a disk that really fail.

tests/system/metrics/test_prometheus.py has those that a killed slave fires.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.brokergroup import OURS, QUICK_SYNC, SMALL_STORE, BrokerGroup
from testbed.processes import free_port, wait_until
from tests.support import recordeddisks
from tests.support.certificate import Issued
from tests.support.clusterclient import UPDATE_CONSUMER_OFFSET
from tests.support.fulldiskseries import fill_disk
from tests.support.linkproxy import BACK, LinkProxy
from tests.support.prometheus import SECONDS, firing, needs_prometheus, prometheus
from tests.support.recordeddisks import RecordedDisks
from tests.support.soak import only_in_soak

pytestmark = [needs_prometheus]

QUICKER = 30
"""A lag of two seconds is one: what is looked at every second has to come to it."""


def fires(port: int, expected: set[str], meanwhile: Callable[[], object] = lambda: None) -> None:
    """Wait until all these alerts do.

    - port: of Prometheus
    - expected: their names
    - meanwhile: done again and again
    """

    def told() -> bool:
        meanwhile()
        return expected <= firing(port)

    wait_until(told, SECONDS, f"{expected} fire")


def ends(port: int, expected: set[str]) -> None:
    """Wait until none of these alerts fires."""
    wait_until(lambda: not expected & firing(port), SECONDS, f"none of {expected} fires")


def put(group: BrokerGroup, topic: str = "T") -> int:
    """Send a message; the answer's code."""
    with group.master_client() as client:
        return client.send(topic, b"a message").code


def commit_nothing(group: BrokerGroup) -> None:
    """A group that consumes, and is at its topic's begin."""
    progress = {"consumerGroup": "billing", "topic": "T", "queueId": "0", "commitOffset": "0"}
    with group.master_client() as client:
        client.call(UPDATE_CONSUMER_OFFSET, progress).expect(0)


def test_a_link_a_master_a_name_server_a_consumer_and_a_certificate(tmp_path: Path) -> None:
    ports = [free_port(), free_port(), free_port()]
    Issued(("localhost",), days=5).write(tmp_path, "old")
    names = {"metricsPort": ports[2]}
    group = BrokerGroup(tmp_path, namesrv_kind=OURS, role="ASYNC_MASTER", namesrv_settings=names)
    with group, LinkProxy(group.ha_port) as link:
        group.link_port = link.port
        group.settings = {
            **SMALL_STORE,
            **QUICK_SYNC,
            "namesrvAddr": f"127.0.0.1:{group.namesrv_port};127.0.0.1:{free_port()}",
            "metricsPort": ports[0],
            "haHousekeepingInterval": 120_000,  # a link that stalls stays
            "tls.server.certPath": tmp_path / "old.pem",
            "tls.server.keyPath": tmp_path / "old.key",
        }
        group.slave_settings = {"metricsPort": ports[1]}
        group.start()
        with prometheus(tmp_path / "prometheus", ports, QUICKER) as port:
            fires(port, {"HatwistedCertificateExpires", "HatwistedUnregistered"})
            behind = {"HatwistedSlaveBehind", "HatwistedBehindItsMaster"}
            gone = {"HatwistedLinkDown", "HatwistedNotReady", "HatwistedTablesOld", "HatwistedNoMaster"}
            ends(port, behind | gone | {"HatwistedLogsDiffer"})
            put(group)
            commit_nothing(group)
            link.stall(BACK)
            fires(port, behind | {"HatwistedConsumersBehind"}, lambda: put(group))
            group.master.kill()
            link.flow()
            fires(port, gone)
            # A master that has lost its disk and begins anew under its name.
            shutil.rmtree(group.master_store)
            group.master.start()
            fires(port, {"HatwistedLogsDiffer"})


@only_in_soak("most of a minute, and the other rules fire")
def test_a_disk(tmp_path: Path) -> None:
    reason = recordeddisks.missing(tmp_path / "try")
    if reason is not None:
        pytest.skip(f"disks that fail can't be made here: {reason}")
    metrics = free_port()
    settings = {**SMALL_STORE, "metricsPort": metrics}
    group = BrokerGroup(tmp_path, role="ASYNC_MASTER", settings=settings)
    (disk,) = (disks := RecordedDisks(tmp_path / "disks", 1)).paths
    group.master_store = disk / "store"
    with disks, group:
        group.master.start()
        with prometheus(tmp_path / "prometheus", [metrics]) as port:
            topics = group.master_store / "consumequeue"
            ends(port, {"HatwistedDispatchStalled", "HatwistedSlowSync", "HatwistedDiskFull"})
            # What isn't a folder stands where a topic's folder belongs.
            put(group)
            wait_until(lambda: (topics / "T").exists(), SECONDS, "queues are made")
            (topics / "Blocked").touch()
            put(group, "Blocked")
            fires(port, {"HatwistedDispatchStalled"})
            (topics / "Blocked").unlink()
            ends(port, {"HatwistedDispatchStalled"})
            with disks.slow(0):
                fires(port, {"HatwistedSlowSync"}, lambda: put(group))
            ballast = disk / "ballast"
            fill_disk(ballast)
            fires(port, {"HatwistedDiskFilling", "HatwistedDiskFull"})
            ballast.unlink()
            ends(port, {"HatwistedDiskFull"})
            disks.break_one(0)
            fires(port, {"HatwistedLogStopped"}, lambda: put(group))

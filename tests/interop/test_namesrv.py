"""Name servers of either kind with brokers of the other: RocketMQ's 4.9.7 and 5.3.3.

Ours under RocketMQ's: both are in the routes, a new topic is routed at once, a dead master leaves at once and
its slave stays, progress that the slave took comes back, an orderly stop unregisters. RocketMQ's broker under
ours: full, partial and compressed registrations, and the question for the data version.
"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from testbed import javarocketmq
from testbed.brokergroup import JAVA, OURS, SMALL_STORE, BrokerGroup
from testbed.processes import Setting, wait_until
from testbed.remotingclient import RemotingClient
from tests.interop.conftest import OLDER_VERSION
from tests.support.clusterclient import route_of
from tests.support.javaclient import JavaClient
from tests.support.soak import in_soak

VERSIONS = ("4.9.7", "5.3.3")
QUERY_OFFSET, COMMIT, CLUSTER_INFO = 14, 15, 106
SOON = 90.0  # what a name server is told, or sees, at once; without that it takes 120
REGISTERED = 120.0  # a slave's next registration, with registerNameServerPeriod at its least
GROUP = {"consumerGroup": "g", "topic": "Routed", "queueId": "0"}

SETTINGS: dict[str, Setting] = {**SMALL_STORE, "registerNameServerPeriod": 10_000}


def needs_version(version: str) -> None:
    reason = javarocketmq.available(version)
    if reason is not None:
        pytest.skip(f"RocketMQ {version} can't run here: {reason}")


def ids(group: BrokerGroup, topic: str = "TBW102") -> dict[int, int]:
    """Broker id -> port, as clients are told."""
    route = route_of(group.namesrv_port, topic)
    return route.ports.get(group.name, {}) if route is not None else {}


def in_cluster(group: BrokerGroup) -> bool:
    with RemotingClient("127.0.0.1", group.namesrv_port) as client:
        return f'"{group.name}"'.encode() in client.call(CLUSTER_INFO).body


@pytest.mark.parametrize("version", OLDER_VERSION)
@pytest.mark.parametrize(
    "asking_first",
    [in_soak(False, why="who asks first registers, too"), True],
    ids=["registering", "asking-first"],
)
def test_B109_B112_B113_our_pair_under_rocketmqs_name_server(
    version: str, asking_first: bool, tmp_path: Path
) -> None:
    needs_version(version)
    settings = {**SETTINGS, "forceRegister": str(not asking_first).lower(), "compressedRegister": "false"}
    with BrokerGroup(tmp_path, namesrv_kind=JAVA, settings=settings) as group:
        group.namesrv = javarocketmq.namesrv("namesrv", tmp_path, group.namesrv_port, version=version)
        group.start()  # the slave has found the master's HA address there
        both = {0: group.master_port, 1: group.slave_port}
        wait_until(lambda: ids(group) == both, REGISTERED, "master and slave are in the route")
        with group.master_client() as client:
            sent = [client.send("Routed", b"%d" % number).code for number in range(20)]
            assert sent == [0] * 20
            client.call(COMMIT, {**GROUP, "commitOffset": "5"}).expect(0)
        wait_until(lambda: 0 in ids(group, "Routed"), SOON, "the new topic is routed")
        wait_until(functools.partial(slave_knows, group, 5), REGISTERED, "the slave has the progress")

        group.master.kill()
        wait_until(lambda: ids(group, "Routed") == {1: group.slave_port}, SOON, "the dead master is out")
        with group.slave_client() as client:
            client.call(COMMIT, {**GROUP, "commitOffset": "15"}).expect(0)
        group.master.start()
        wait_until(lambda: ids(group, "Routed") == both, REGISTERED, "the master is back")
        wait_until(lambda: offset_at(group.master_port) == 15, REGISTERED, "with the slave's progress (B162)")
        assert offset_at(group.slave_port) == 15

        group.slave.stop()
        # RocketMQ's 5.x answers first and takes it out then.
        wait_until(lambda: ids(group) == {0: group.master_port}, SOON, "an orderly stop unregisters")
        group.master.stop()
        wait_until(lambda: not in_cluster(group), SOON, "nobody is registered")
        for server in (group.master, group.slave):
            assert "Traceback" not in server.log_text()


def offset_at(port: int) -> int:
    with RemotingClient("127.0.0.1", port) as client:
        return int(client.call(QUERY_OFFSET, GROUP).ext.get("offset", -1))


def slave_knows(group: BrokerGroup, offset: int) -> bool:
    return offset_at(group.slave_port) == offset


@pytest.mark.parametrize("version", OLDER_VERSION)
@pytest.mark.parametrize(
    "sparing",
    [in_soak(False, why="RocketMQ's brokers register so in other tests"), True],
    ids=["plain", "compressed-asking-first"],
)
def test_B109_B113_rocketmqs_broker_under_our_name_server(
    version: str, sparing: bool, tmp_path: Path
) -> None:
    needs_version(version)
    settings = {
        **SETTINGS,
        "forceRegister": str(not sparing).lower(),
        "compressedRegister": str(sparing).lower(),
    }
    with BrokerGroup(tmp_path, namesrv_kind=OURS, role="ASYNC_MASTER", settings=settings) as group:
        assert group.namesrv is not None
        master = javarocketmq.broker("master", tmp_path, group.master_settings(), version=version)
        group._master = master  # the group starts and ends it
        group.namesrv.start()
        master.start()
        wait_until(lambda: ids(group) == {0: group.master_port}, REGISTERED, "it is registered")
        with group.master_client() as client:
            assert client.send("Routed", b"x").code == 0
        wait_until(
            lambda: ids(group, "Routed") == {0: group.master_port}, SOON, "a new topic is routed at once"
        )
        assert ids(group), "and the others stay: a registration of one topic is merged"
        route = route_of(group.namesrv_port, "Routed")
        assert route is not None and route.queues == {group.name: 4}

        master.kill()
        wait_until(lambda: not ids(group), SOON, "killed, it is out at once")
        master.start()
        wait_until(lambda: ids(group, "Routed") == {0: group.master_port}, REGISTERED, "back with its topics")
        master.stop()
        assert not in_cluster(group), "stopped in order, it has unregistered"
        assert "Traceback" not in group.namesrv.log_text()


@pytest.mark.parametrize("version", VERSIONS)
def test_mqadmins_name_server_commands(version: str, tmp_path: Path) -> None:
    needs_version(version)
    with BrokerGroup(tmp_path, namesrv_kind=OURS, role="ASYNC_MASTER", settings=SETTINGS) as group:
        assert group.namesrv is not None
        group.namesrv.start()
        group.master.start()
        group.wait_registered(group.master_port)
        address = f"127.0.0.1:{group.namesrv_port}"

        with JavaClient(version, "Mqadmin", tmp_path) as program:

            def mqadmin(*words: object) -> str:
                program.forget()
                program.tell("run", *words, "-n", address)
                printed = "\n".join(event[0] if event else "" for event in program.events("printed"))
                assert "Exception" not in printed, printed
                return printed

            assert "orderMessageEnable" in mqadmin("getNamesrvConfig")
            mqadmin("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true")
            assert "orderMessageEnable=true" in (tmp_path / "namesrv.conf").read_text()
            # First, for it holds until the broker's topics change, as an ordered topic makes them.
            assert "broker-a" in mqadmin("wipeWritePerm", "-b", group.name)
            with RemotingClient("127.0.0.1", group.namesrv_port) as client:
                (queues,) = client.route("SELF_TEST_TOPIC").json()["queueDatas"]
            assert queues["perm"] == 4
            mqadmin("updateKvConfig", "-s", "ORDER_TOPIC_CONFIG", "-k", "TBW102", "-v", "broker-a:4")
            with RemotingClient("127.0.0.1", group.namesrv_port) as client:
                assert client.route("TBW102").json()["orderTopicConf"] == "broker-a:4"
            mqadmin("deleteKvConfig", "-s", "ORDER_TOPIC_CONFIG", "-k", "TBW102")
            with RemotingClient("127.0.0.1", group.namesrv_port) as client:
                assert "orderTopicConf" not in client.route("TBW102").json()
            assert "Traceback" not in group.namesrv.log_text()

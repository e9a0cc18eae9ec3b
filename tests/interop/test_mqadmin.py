"""mqadmin of RocketMQ 4.9.7 and 5.3.3 against our name server, SYNC_MASTER and slave: topics, groups, messages,
configuration.

One JVM per version carries all commands out. What a command did is looked at by another command, or in our
files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.brokergroup import OURS, BrokerGroup
from testbed.processes import wait_until
from tests.support import javaclient
from tests.support.javaclient import JavaClient

CLUSTER = "DefaultCluster"
SYNCED = 120.0  # seconds: a slave takes over its master's tables every 10
Run = Callable[..., str]


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    with BrokerGroup(tmp_path_factory.mktemp("mqadmin"), namesrv_kind=OURS) as pair:
        pair.start()
        yield pair
        for server in (pair.master, pair.slave, pair.namesrv):
            assert server is not None and "Traceback" not in server.log_text()


@pytest.fixture(scope="module", params=javaclient.VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    if reason := javaclient.unavailable(request.param):
        pytest.skip(f"RocketMQ's mqadmin {request.param} can't run here: {reason}")
    return str(request.param)


@pytest.fixture(scope="module")
def run(version: str, group: BrokerGroup, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """run(words of a command line) -> what it prints."""
    with JavaClient(version, "Mqadmin", tmp_path_factory.mktemp("client")) as program:

        def command(*words: object) -> str:
            program.forget()
            program.tell("run", *words, "-n", f"127.0.0.1:{group.namesrv_port}")
            return "\n".join(event[0] if event else "" for event in program.events("printed"))

        yield command


@pytest.fixture
def topic(run: Run, version: str, request: pytest.FixtureRequest) -> str:
    """A topic of its own for each test and version, made by mqadmin: 6 queues to read, 4 to write."""
    name = f"{request.function.__name__[5:40]}-{version.replace('.', '_')}"
    assert "success" in run("updateTopic", "-c", CLUSTER, "-t", name, "-r", 6, "-w", 4)
    return name


def master(group: BrokerGroup) -> str:
    return f"127.0.0.1:{group.master_port}"


def slave(group: BrokerGroup) -> str:
    return f"127.0.0.1:{group.slave_port}"


def send(group: BrokerGroup, topic: str, body: str) -> None:
    """One message into queue 1. (mqadmin's own sendMessage works once in a process.)"""
    with group.master_client() as client:
        assert client.send(topic, body.encode(), 1, {"KEYS": "k", "TAGS": "tagA"}).code == 0


def test_a_topic_is_routed_when_mqadmin_has_made_it(run: Run, topic: str) -> None:
    route = run("topicRoute", "-t", topic)
    assert '"readQueueNums":6' in route and '"writeQueueNums":4' in route
    assert topic in run("topicList")
    assert re.search(rf"{CLUSTER} +{topic}", run("topicList", "-c"))
    assert run("topicClusterList", "-t", topic).strip() == CLUSTER


def test_topic_status_shows_every_write_queue(run: Run, group: BrokerGroup, topic: str) -> None:
    send(group, topic, "body")
    rows = re.findall(r"^broker-a +(\d) +(\d) +(\d)", run("topicStatus", "-t", topic), re.MULTILINE)
    assert rows == [("0", "0", "0"), ("1", "0", "1"), ("2", "0", "0"), ("3", "0", "0")]


def test_permission_changed(run: Run, group: BrokerGroup, topic: str) -> None:
    assert "from 6 to 4" in run("updateTopicPerm", "-t", topic, "-b", master(group), "-p", 4)
    assert '"perm":4' in run("topicRoute", "-t", topic)


def test_slaves_and_system_topics_are_refused(run: Run, group: BrokerGroup) -> None:
    assert "from slave broker" in run("updateTopic", "-b", slave(group), "-t", "Any")
    assert "conflict with system topic" in run("updateTopic", "-b", master(group), "-t", "TBW102")


def test_topic_deleted_and_recreated(run: Run, group: BrokerGroup, topic: str) -> None:
    send(group, topic, "old")
    group.wait_caught_up()
    assert "Exception" not in run("deleteTopic", "-c", CLUSTER, "-t", topic)
    assert "No topic route info" in run("topicRoute", "-t", topic)
    assert not (group.master_store / "consumequeue" / topic / "1").exists()
    run("updateTopic", "-c", CLUSTER, "-t", topic)
    send(group, topic, "new")
    group.wait_caught_up()
    assert re.search(r"^broker-a +1 +0 +1 ", run("topicStatus", "-t", topic), re.MULTILINE)
    for broker in (master(group), slave(group)):
        entries = run("queryCq", "-t", topic, "-q", 1, "-i", 0, "-c", 5, "-b", broker)
        assert "max: 1, min: 0" in entries, "the slave's queue starts over as well"
    read = run("printMsg", "-t", topic)
    assert "BODY: new" in read and "BODY: old" not in read


def test_messages_found_by_key_id_and_offset(run: Run, group: BrokerGroup, topic: str, version: str) -> None:
    words = ("sendMessage", "-t", topic, "-p", "hello", "-k", "key1", "-c", "tagA", "-b", "broker-a", "-i", 1)
    unique = re.findall(r"SEND_OK +([0-9A-F]{32,56})", run(*words))[0]
    group.wait_caught_up()
    assert re.search(rf"^{unique} +1 +0", run("queryMsgByKey", "-t", topic, "-k", "key1"), re.MULTILINE)
    assert "no message" in run("queryMsgByKey", "-t", topic, "-k", "key2")
    assert "[key1]" in run("queryMsgByUniqueKey", "-t", topic, "-i", unique)
    by_offset = run("queryMsgByOffset", "-t", topic, "-b", "broker-a", "-i", 1, "-o", 0)
    offset_id = re.findall(r"OffsetID: +(\w+)", by_offset)[0]
    where = () if version == "4.9.7" else ("-t", topic)  # an unknown option ends the process
    assert "[tagA]" in run("queryMsgById", *where, "-i", offset_id)


def test_messages_read_queue_by_queue(run: Run, group: BrokerGroup, topic: str) -> None:
    send(group, topic, "hello")
    assert "BODY: hello" in run("printMsg", "-t", topic)
    assert topic in run("printMsgByQueue", "-t", topic, "-a", "broker-a", "-i", 1, "-p", "true")
    assert "Consume ok" in run("consumeMessage", "-t", topic)


def test_queue_entries_of_master_and_slave(run: Run, group: BrokerGroup, topic: str) -> None:
    send(group, topic, "hello")
    group.wait_caught_up()
    where = ("queryCq", "-t", topic, "-q", 1, "-i", 0, "-c", 5)
    entries = run(*where, "-b", master(group))
    assert "max: 1, min: 0" in entries and "tagsCode=3552231" in entries
    assert "none@" in run(*where, "-b", slave(group), "-g", "none")


def test_consumer_group_made_shown_and_deleted(run: Run, group: BrokerGroup, version: str) -> None:
    name = f"admin-{version.replace('.', '_')}"
    assert "success" in run("updateSubGroup", "-c", CLUSTER, "-g", name, "-r", 3)
    assert re.search(r"retryMaxTimes += +3", run("getConsumerConfig", "-g", name))
    kept = group.slave_store / "config" / "subscriptionGroup.json"
    wait_until(lambda: kept.exists() and f'"{name}"' in kept.read_text(), SYNCED, "the slave has the group")
    deleted = run("deleteSubGroup", "-c", CLUSTER, "-g", name, "-r", "true")
    assert "success" in deleted and "Exception" not in deleted
    assert name not in run("getConsumerConfig", "-g", name)


def test_configuration_shown_and_changed_and_kept(run: Run, group: BrokerGroup, version: str) -> None:
    hours = "49" if version == "4.9.7" else "50"
    set_hours = ("updateBrokerConfig", "-b", master(group), "-k", "fileReservedTime", "-v")
    assert "success" in run(*set_hours, hours)
    assert re.search(rf"fileReservedTime += +{hours}", run("getBrokerConfig", "-b", master(group)))
    conf = Path(group.folder / "master.conf")
    wait_until(lambda: f"fileReservedTime={hours}\n" in conf.read_text(), 60, "the file has it")
    assert "fileReservedTime=" in conf.with_name("master.conf.bak").read_text()
    assert "fileReservedTime: can't be 'soon'" in run(*set_hours, "soon")
    fixed = run("updateBrokerConfig", "-b", master(group), "-k", "listenPort", "-v", 1)
    assert "listenPort can't be changed while the broker is running" in fixed


def test_write_permission_of_the_broker_reaches_the_name_server(run: Run, group: BrokerGroup) -> None:
    change = ("updateBrokerConfig", "-b", master(group), "-k", "brokerPermission", "-v")
    run(*change, 4)
    wait_until(lambda: '"perm":4' in run("topicRoute", "-t", "Probe"), 60, "no topic may be written")
    run(*change, 6)
    wait_until(lambda: '"perm":6' in run("topicRoute", "-t", "Probe"), 60, "all may again")


def test_cleaning_up(run: Run, group: BrokerGroup, topic: str) -> None:
    send(group, topic, "kept")
    for command in ("cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"):
        assert run(command, "-c", CLUSTER).strip() == "success"
    assert "BODY: kept" in run("printMsg", "-t", topic)


def test_figures(run: Run, group: BrokerGroup, version: str) -> None:
    for arguments in ((), ("-m",)):
        assert run("clusterList", *arguments).count("broker-a") == 2
    assert "V4_9_7" in run("brokerStatus", "-b", master(group))
    assert "Exception" not in run("statsAll", "-t", "Probe")
    if version != "4.9.7":
        assert re.search(r"#InSyncSlaveNum 1", run("haStatus", "-b", master(group)))
        slave = f"127.0.0.1:{group.slave_port}"
        figures = ha_figures(run, slave)
        assert all(figures[f"Last{what}Time"].startswith("20") for what in ("Read", "Write")), figures
        wait_until(
            lambda: int(ha_figures(run, slave)["MasterFlushOffset"]) > 0,
            SYNCED,
            "the slave has heard how far its master's log is on disk",
        )


def ha_figures(run: Run, broker: str) -> dict[str, str]:
    """A slave's haStatus by name."""
    return dict(re.findall(r"#(\w+)\s+(.+)", run("haStatus", "-b", broker)))

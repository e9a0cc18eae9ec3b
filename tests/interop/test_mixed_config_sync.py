"""Mixed clusters: a RocketMQ master with our slave, our master with a RocketMQ slave, and their tables.

Whatever a slave has copied is asked of it by the requests that a slave itself would send (21, 43, 45, 201),
and read from the files it has written, so that both sides are judged alike. Between two different brokers
RocketMQ's rules hold: progress flows from the master to the slave and never back (B106).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.brokergroup import JAVA, OURS, QUICK_SYNC, SMALL_STORE, BrokerGroup
from testbed.processes import wait_until
from testbed.remotingclient import RemotingClient
from tests.interop.conftest import needs

UPDATE_TOPIC, ALL_TOPICS, HEART_BEAT, ALL_OFFSETS, ALL_DELAYS, ALL_GROUPS = 17, 21, 34, 43, 45, 201
COMMIT = 15
SYNC_SECONDS = 120.0  # a slave asks every 10 s, from when it knows its master
TOPIC, LATER, GROUP = "Mixed", "MixedLater", "mixed-group"
SLAVES_GROUP = "mixed-slaves-group"  # whose progress only the slave is told
MIXED = [(JAVA, OURS), (OURS, JAVA)]
_BARE_KEY = re.compile(r"([{,])\s*(-?\d+)\s*:")


@pytest.fixture(
    scope="module",
    params=MIXED,
    ids=[f"{master.value}-master-{slave.value}-slave" for master, slave in MIXED],
)
def group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    """Linked, with tables on the master that the slave has copied once, and changes that it is yet to copy: so
    that all tests wait for the same round."""
    master, slave = request.param
    needs(master, slave)
    with BrokerGroup(
        tmp_path_factory.mktemp("mixed"),
        master,
        slave,
        namesrv_kind=OURS,
        settings={**SMALL_STORE, **QUICK_SYNC, "registerNameServerPeriod": 10_000},
    ) as pair:
        pair.start()
        with pair.master_client() as client:
            for queue in range(4):
                assert client.send(TOPIC, b"x", queue).code == 0
            beat(client, GROUP)
            commit(client, 0, 1)
        wait_until(
            lambda: offsets_at(pair.slave_port) == {"0": 1}, SYNC_SECONDS, "the slave has the progress"
        )
        with pair.slave_client() as client:
            commit(client, 3, 1)
            commit(client, 0, 1, SLAVES_GROUP)
        with pair.master_client() as client:
            create(client, LATER)
            commit(client, 1, 1)
            client.send(
                TOPIC, b"soon", 0, {"DELAY": "1"}
            )  # the test of delay offsets sees whether it was taken
        yield pair
        for server, kind in ((pair.master, master), (pair.slave, slave)):
            assert kind is JAVA or "Traceback" not in server.log_text()


def beat(client: RemotingClient, group: str) -> None:
    """A consumer's heartbeat, which creates its group's settings and its retry topic."""
    subscription = {"topic": TOPIC, "subString": "*", "subVersion": 1, "tagsSet": [], "codeSet": []}
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [{**subscription, "classFilterMode": False, "expressionType": "TAG"}],
        "unitMode": False,
    }
    body = {"clientID": "127.0.0.1@mixed", "producerDataSet": [], "consumerDataSet": [consumer]}
    client.call(HEART_BEAT, {}, json.dumps(body).encode()).expect(0)


def create(client: RemotingClient, topic: str) -> None:
    """As mqadmin's updateTopic does."""
    settings = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "3", "writeQueueNums": "3"}
    settings |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    client.call(UPDATE_TOPIC, settings).expect(0)


def commit(client: RemotingClient, queue: int, offset: int, group: str = GROUP) -> None:
    fields = {"consumerGroup": group, "topic": TOPIC, "queueId": str(queue), "commitOffset": str(offset)}
    client.call(COMMIT, fields).expect(0)


def table(port: int, code: int, name: str) -> dict[str, object]:
    """One of the tables that slaves ask for; empty if the broker has none."""
    with RemotingClient("127.0.0.1", port) as client:
        answer = client.call(code)
    found = answer.json()[name] if answer.code == 0 else {}
    assert isinstance(found, dict)
    return found


def file_table(store: Path, file: str, name: str) -> dict[str, object]:
    """The same from the file that the slave keeps."""
    try:
        text = (store / "config" / file).read_text() or "{}"
    except FileNotFoundError:  # as it is for a moment while RocketMQ puts a new one in its place
        text = "{}"
    found = json.loads(_BARE_KEY.sub(r'\1"\2":', text)).get(name, {})
    assert isinstance(found, dict)
    return found


def offsets_at(port: int, group: str = GROUP) -> dict[str, object]:
    found = table(port, ALL_OFFSETS, "offsetTable").get(f"{TOPIC}@{group}", {})
    assert isinstance(found, dict)
    return found


def test_B101_topics_and_their_settings_are_copied(group: BrokerGroup) -> None:
    def topics(port: int) -> dict[str, object]:
        return table(port, ALL_TOPICS, "topicConfigTable")

    wait_until(lambda: LATER in topics(group.slave_port), SYNC_SECONDS, "a later topic follows")
    for topic in (TOPIC, LATER):
        assert topics(group.slave_port)[topic] == topics(group.master_port)[topic]
    with group.slave_client() as client:
        assert client.pull(TOPIC, 0, 0).code == 0
    wait_until(
        lambda: LATER in file_table(group.slave_store, "topics.json", "topicConfigTable"), 60, "it is on disk"
    )


def test_B103_B106_progress_is_copied_from_the_master_and_never_to_it(group: BrokerGroup) -> None:
    wait_until(lambda: offsets_at(group.slave_port).get("1") == 1, SYNC_SECONDS, "later progress follows")
    assert offsets_at(group.slave_port) == {"0": 1, "1": 1}, "the master's entry replaces the slave's"
    assert offsets_at(group.slave_port, SLAVES_GROUP) == {"0": 1}, "an entry that the master lacks stays"
    assert offsets_at(group.master_port) == {"0": 1, "1": 1}
    assert offsets_at(group.master_port, SLAVES_GROUP) == {}, "a master of the other kind takes none back"
    wait_until(
        lambda: f"{TOPIC}@{GROUP}" in file_table(group.slave_store, "consumerOffset.json", "offsetTable"),
        60,
        "it is on disk",
    )


def test_B104_delay_offsets_are_copied_to_the_file(group: BrokerGroup) -> None:
    wait_until(
        lambda: table(group.master_port, ALL_DELAYS, "offsetTable").get("1") == 1,
        60,
        "the master delivers it",
    )
    wait_until(
        lambda: file_table(group.slave_store, "delayOffset.json", "offsetTable").get("1") == 1,
        SYNC_SECONDS,
        "the slave's file says so",
    )


def test_B105_groups_are_copied(group: BrokerGroup) -> None:
    def groups(port: int) -> dict[str, object]:
        return table(port, ALL_GROUPS, "subscriptionGroupTable")

    wait_until(lambda: GROUP in groups(group.slave_port), SYNC_SECONDS, "the slave has the group")
    assert groups(group.slave_port)[GROUP] == groups(group.master_port)[GROUP]
    retry = f"%RETRY%{GROUP}"
    wait_until(
        lambda: retry in table(group.slave_port, ALL_TOPICS, "topicConfigTable"),
        SYNC_SECONDS,
        "the slave has the retry topic",
    )


def test_B170_below_a_java_master_topics_are_copied_when_the_name_server_hears_of_them(
    tmp_path: Path,
) -> None:
    needs(JAVA, OURS)
    rounds_apart = {"slaveSyncInterval": 600_000}

    def topics() -> dict[str, object]:
        return table(pair.slave_port, ALL_TOPICS, "topicConfigTable")

    with BrokerGroup(
        tmp_path, JAVA, OURS, namesrv_kind=OURS, settings={**SMALL_STORE, **rounds_apart}
    ) as pair:
        pair.start()
        with pair.master_client() as client:
            assert client.send(TOPIC, b"x", 0).code == 0
            wait_until(lambda: TOPIC in topics(), SYNC_SECONDS, "the slave has had its first round")
            for number in range(3):
                create(client, f"{LATER}{number}")
                wait_until(lambda n=number: f"{LATER}{n}" in topics(), 60, "no round was due")  # type: ignore[misc]
            beat(client, GROUP)
        wait_until(
            lambda: GROUP in table(pair.slave_port, ALL_GROUPS, "subscriptionGroupTable"),
            60,
            "its retry topic has brought the group along",
        )

"""RocketMQ's Java producers, 4.9.7 and 5.3.3, against our name server, SYNC_MASTER and slave.

One client process per version (and one that speaks binary headers) serves all tests of its kind. Results are
judged by what was stored: by the records that our two brokers serve, and by what the slave's log holds.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.brokergroup import OURS, SMALL_STORE, BrokerGroup
from testbed.processes import wait_until
from testbed.remotingclient import RemotingClient
from testbed.storefiles import StoredMessage, read_log, read_records
from tests.interop.conftest import NEWER_VERSION, SERVERS, needs
from tests.support import javaclient
from tests.support.clientprogram import ClientFailed
from tests.support.clusterclient import route_of
from tests.support.javaclient import BINARY, JavaClient
from tests.support.soak import in_soak

MAX_MESSAGE = 500_000  # bytes of a body; the default is longer than a log file here
# Checks of undecided transactions in seconds, not minutes; though not before a busy machine has let the producer
# say its second word, and the second question not before it has answered the first: it would count twice.
SETTINGS = {
    **SMALL_STORE,
    "maxMessageSize": MAX_MESSAGE,
    "transactionTimeOut": 6000,
    "transactionCheckInterval": 10_000,
}
CLIENTS = [
    in_soak(("4.9.7", ()), why="its version is tried with the other headers, and these by the other version"),
    ("5.3.3", ()),
    ("4.9.7", (BINARY,)),
]
QUEUES = 4
UPDATE_TOPIC = 17


@pytest.fixture(scope="module", params=SERVERS, ids=lambda kind: kind.value)
def group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    kind = request.param
    needs(kind)
    folder = tmp_path_factory.mktemp("java")
    with BrokerGroup(folder, kind, kind, namesrv_kind=kind, settings=SETTINGS) as pair:
        pair.start()
        yield pair
        for server in (pair.master, pair.slave, pair.namesrv):
            assert server is not None and "Traceback" not in server.log_text()


@pytest.fixture(scope="module", params=CLIENTS, ids=["4.9.7", "5.3.3", "4.9.7-binary"])
def client(
    request: pytest.FixtureRequest, group: BrokerGroup, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaClient]:
    version, options = request.param
    if reason := javaclient.unavailable(version):
        pytest.skip(f"RocketMQ's client {version} can't run here: {reason}")
    folder = tmp_path_factory.mktemp("client")
    with JavaClient(
        version, "Producer", folder, f"127.0.0.1:{group.namesrv_port}", options=options
    ) as program:
        yield program


@pytest.fixture
def topic(request: pytest.FixtureRequest, client: JavaClient) -> str:
    """One of its own for each test and client."""
    client.forget()
    name = request.node.name.translate(str.maketrans("[].", "---"))
    return name[:100]


def create(group: BrokerGroup, topic: str) -> None:
    """As mqadmin's updateTopic does, until it is routed."""
    settings = {"topic": topic, "defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG"}
    settings |= {"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES)}
    with group.master_client() as client:
        client.call(UPDATE_TOPIC, {**settings, "topicSysFlag": "0", "order": "false"}).expect(0)
    wait_until(lambda: route_of(group.namesrv_port, topic), 60, "the topic has a route")


def records(port: int, topic: str) -> list[StoredMessage]:
    """All that a consumer can read of a topic."""
    found: list[StoredMessage] = []
    with RemotingClient("127.0.0.1", port) as client:
        for queue in range(QUEUES):
            at = 0
            while (answer := client.pull(topic, queue, at)).code == 0:
                found += read_records(answer.body)
                at = int(answer.ext["nextBeginOffset"])
    return found


def bodies(group: BrokerGroup, topic: str) -> list[str]:
    return [each.body.decode() for each in records(group.master_port, topic)]


def numbered(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def assert_sent(client: JavaClient, expected: list[str]) -> None:
    """Each was answered SEND_OK, and nothing was refused."""
    sent = client.events("sent")
    assert sorted(event[0] for event in sent) == sorted(expected)
    assert {event[1] for event in sent} == {"SEND_OK"}
    assert client.events("refused") == []


@pytest.mark.parametrize("how", ["sync", "async"])
def test_B115_B117_sync_and_async_sends_are_ok_and_on_the_slave(
    group: BrokerGroup, client: JavaClient, topic: str, how: str
) -> None:
    # Made before, or the producer starts its round over as soon as it hears of the topic's own queues.
    create(group, topic)
    client.tell(how, topic, "body", 40)
    expected = numbered("body", 40)
    assert_sent(client, expected)
    found = records(group.master_port, topic)
    assert sorted(each.body.decode() for each in found) == sorted(expected)
    if how == "sync":
        per_queue = Counter(each.queue_id for each in found)
        # Exactly, unless the producer has started its round over because a route has changed meanwhile.
        assert all(abs(per_queue[queue] - 40 // QUEUES) <= 1 for queue in range(QUEUES)), per_queue
    copied = [each.body.decode() for each in read_log(group.slave_store) if each.topic == topic]
    assert sorted(copied) == sorted(expected), "SEND_OK without a copy on the slave"
    ids = {event[6] for event in client.events("sent")}
    assert {f"{each.offset:016X}" for each in found} == {each[-16:] for each in ids}
    unique = {each.property("UNIQ_KEY") for each in found}
    assert unique == {event[5] for event in client.events("sent")}


def test_oneway_sends_arrive(group: BrokerGroup, client: JavaClient, topic: str) -> None:
    client.tell("sync", topic, "first", 1)  # makes the topic
    client.tell("oneway", topic, "body", 20)
    expected = sorted([*numbered("body", 20), "first0"])
    wait_until(lambda: sorted(bodies(group, topic)) == expected, 60, "all have arrived")


def test_a_batch_is_consecutive_in_one_queue(group: BrokerGroup, client: JavaClient, topic: str) -> None:
    client.tell("batch", topic, "body", 10)
    found = records(group.master_port, topic)
    assert [each.body.decode() for each in found] == numbered("body", 10)
    assert len({each.queue_id for each in found}) == 1
    assert [each.queue_offset for each in found] == list(range(10))
    assert [each.property("KEYS") for each in found] == [f"body-key{number}" for number in range(10)]
    (sent,) = client.events("sent")
    assert sent[1] == "SEND_OK" and len(sent[6].split(",")) == 10


def test_ordered_sends_keep_their_order_per_queue(group: BrokerGroup, client: JavaClient, topic: str) -> None:
    client.tell("ordered", topic, "", 30)
    queues: dict[int, list[int]] = defaultdict(list)
    for each in records(group.master_port, topic):
        queues[each.queue_id].append(int(each.body))
    assert sorted(map(tuple, queues.values())) == [tuple(range(key, 30, 3)) for key in range(3)]


def test_a_delayed_message_comes_when_it_is_due(group: BrokerGroup, client: JavaClient, topic: str) -> None:
    begun = time.monotonic()
    client.tell("delay", topic, "later", 1)  # level 1: a second
    assert_sent(client, ["later0"])
    early = bodies(group, topic)
    assert not early or time.monotonic() - begun > 1, "not delayed"
    wait_until(lambda: bodies(group, topic) == ["later0"], 60, "the message is delivered")
    assert time.monotonic() - begun > 0.8
    (found,) = records(group.master_port, topic)
    assert found.property("TAGS") == "even" and found.property("DELAY") in (None, "1")


def test_transactions_are_seen_when_committed_and_asked_about_when_undecided(
    group: BrokerGroup, client: JavaClient, topic: str
) -> None:
    client.tell("sync", topic, "first", 1)
    client.tell("transaction", topic, "kept", "COMMIT_MESSAGE")
    client.tell("transaction", topic, "dropped", "ROLLBACK_MESSAGE")
    wait_until(lambda: "kept" in bodies(group, topic), 60, "a committed transaction is seen")
    client.tell("transaction", topic, "undecided", "UNKNOW")
    assert "undecided" not in bodies(group, topic)
    asked = client.wait_for("checked", bool, 60)
    assert asked[0] == ("undecided", topic)
    wait_until(lambda: "undecided" in bodies(group, topic), 60, "what the check committed is seen")
    assert sorted(bodies(group, topic)) == ["first0", "kept", "undecided"]


def test_a_message_above_the_limit_is_refused_with_13(
    group: BrokerGroup, client: JavaClient, topic: str
) -> None:
    client.tell("large", topic, "", MAX_MESSAGE)
    with pytest.raises(ClientFailed, match=r"CODE: 13 .*"):
        client.tell("large", topic, "", MAX_MESSAGE + 1)
    assert [len(each.body) for each in records(group.master_port, topic)] == [MAX_MESSAGE]


@pytest.mark.parametrize("version", NEWER_VERSION)
def test_B115_B116_a_producer_over_two_masters_loses_no_send_when_one_dies(
    version: str, tmp_path: Path
) -> None:
    if reason := javaclient.unavailable(version):
        pytest.skip(f"RocketMQ's client {version} can't run here: {reason}")
    with BrokerGroup(tmp_path / "a", namesrv_kind=OURS, role="ASYNC_MASTER") as a:
        told = {**SMALL_STORE, "namesrvAddr": f"127.0.0.1:{a.namesrv_port}"}
        with BrokerGroup(tmp_path / "b", role="ASYNC_MASTER", settings=told, name="broker-b") as b:
            assert a.namesrv is not None
            for server in (a.namesrv, a.master, b.master):
                server.start()
            for each in (a, b):
                with each.master_client() as raw:
                    assert raw.send("Spread", b"first").code == 0
            wait_until(lambda: on_both(a.namesrv_port, "Spread"), 60, "the topic's route has both")
            with JavaClient(version, "Producer", tmp_path, f"127.0.0.1:{a.namesrv_port}") as client:
                client.tell("sync", "Spread", "both", 40)
                takers = Counter(event[2] for event in client.events("sent"))
                # 20 each, unless it has started its round over because a route has changed meanwhile.
                assert all(abs(takers[name] - 20) <= QUEUES for name in ("broker-a", "broker-b")), takers
                b.master.kill()
                client.forget()
                client.tell("sync", "Spread", "one", 40)
                assert {(event[1], event[2]) for event in client.events("sent")} == {("SEND_OK", "broker-a")}
                b.master.start()
                wait_until(lambda: on_both(a.namesrv_port, "Spread"), 60, "the dead master is back")

                def returned() -> bool:
                    client.tell("sync", "Spread", "again", 8)
                    return "broker-b" in {event[2] for event in client.events("sent")}

                wait_until(returned, 60, "the producer uses both again")


def on_both(namesrv_port: int, topic: str) -> bool:
    route = route_of(namesrv_port, topic)
    return route is not None and len(route.writable()) == 2 * QUEUES


def test_what_the_java_producers_did_is_alike_on_both_sides(group: BrokerGroup, tmp_path: Path) -> None:
    end = group.wait_caught_up()
    assert end == group.slave_end()

"""RocketMQ's Java consumers, 4.9.7 and 5.3.3, against our name server, SYNC_MASTER and slave.

Messages are put by a plain socket, so that only the reading side is RocketMQ's. Clients renew their routes and
write their progress every second here (30 and 5 s by default), so that a failover fits into a test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from testbed.brokergroup import JAVA, OURS, QUICK_SYNC, SMALL_STORE, BrokerGroup, Kind
from testbed.processes import wait_until
from testbed.storefiles import BadStore, read_log
from tests.interop.conftest import NEWER_VERSION, SERVERS, needs
from tests.support import javaclient
from tests.support.clientprogram import Event
from tests.support.clusterclient import RoutedConsumer, route_of
from tests.support.javaclient import BINARY, JavaClient
from tests.support.soak import in_soak

# A failed message comes again after level 3 and then 4 of these: seconds instead of 10 s and 30 s.
SETTINGS = {**SMALL_STORE, **QUICK_SYNC, "enablePropertyFilter": True, "messageDelayLevel": "1s 1s 1s 1s 1s"}
# A member that can't lock a queue, or has just come, looks again, and one that gives it up unlocks it, after 20 s
# by default.
IMPATIENT = ("-Drocketmq.client.rebalance.waitInterval=1000", "-Drocketmq.client.unlockDelayTimeMills=1000")
QUEUES = 4
SECONDS = 120.0  # for what a client does within one or two
SYNC_SECONDS = 120.0  # a slave copies its master's tables every 10 s
ALL_TOPICS = 21
NAME, BODY, QUEUE, OFFSET, AGAIN, TOPIC = range(6)  # words of a push consumer's "got"


@pytest.fixture(scope="module", params=SERVERS, ids=lambda kind: kind.value)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    kind = request.param
    needs(kind)
    folder = tmp_path_factory.mktemp("java")
    with BrokerGroup(folder, kind, kind, namesrv_kind=kind, settings=SETTINGS) as pair:
        pair.start()
        yield pair
        for server in (pair.master, pair.slave, pair.namesrv):
            assert server is not None and "Traceback" not in server.log_text()


@pytest.fixture
def group(shared: BrokerGroup) -> BrokerGroup:
    """Both brokers up, whatever the test before has killed."""
    for server in (shared.master, shared.slave):
        if not server.running:
            server.start()
    shared.wait_linked()
    return shared


@pytest.fixture(scope="module", params=NEWER_VERSION)
def version(request: pytest.FixtureRequest) -> str:
    """Of the client."""
    if reason := javaclient.unavailable(request.param):
        pytest.skip(f"RocketMQ's client {request.param} can't run here: {reason}")
    chosen: str = request.param
    return chosen


@pytest.fixture
def topic(request: pytest.FixtureRequest, group: BrokerGroup) -> str:
    """One of its own for each test and client, with a route."""
    name: str = request.node.name.translate(str.maketrans("[].", "---"))[-60:]
    put(group, name, "first", 1)
    wait_until(lambda: route_of(group.namesrv_port, name), 60, "the topic has a route")
    return name


def put(group: BrokerGroup, topic: str, prefix: str, count: int) -> list[str]:
    """Numbered messages, one queue after the other, tagged even and odd; their bodies."""
    found = [f"{prefix}{number}" for number in range(count)]
    with group.master_client() as client:
        for number, body in enumerate(found):
            properties = {"TAGS": ("even", "odd")[number % 2], "number": str(number), "KEYS": body}
            assert client.send(topic, body.encode(), number % QUEUES, properties).code == 0
    return found


def program(group: BrokerGroup, version: str, main: str, folder: Path, *options: str) -> JavaClient:
    return JavaClient(version, main, folder, f"127.0.0.1:{group.namesrv_port}", options=options)


def bodies(events: list[Event]) -> list[str]:
    return [event[BODY] for event in events]


def has(*expected: list[str]) -> Callable[[list[Event]], bool]:
    """A condition for JavaClient.wait_for: all of these have come, once or more."""
    wanted = {body for each in expected for body in each}
    return lambda events: wanted <= set(bodies(events))


HEADERS = [(), in_soak((BINARY,), why="producers send with such headers, too")]


@pytest.mark.parametrize("headers", HEADERS, ids=["json", "binary"])
def test_clustering_shares_the_queues_and_commits(
    group: BrokerGroup, version: str, topic: str, tmp_path: Path, headers: tuple[str, ...]
) -> None:
    first = put(group, topic, "early", 12)
    with program(group, version, "PushConsumer", tmp_path, *headers) as client:
        client.tell("start", "one", f"g-{topic}", topic, "*", "CLUSTERING")
        client.tell("start", "two", f"g-{topic}", topic, "*", "CLUSTERING")
        client.wait_for("got", has(first, ["first0"]), SECONDS)
        # Twice: of a queue that both still have the second copy may come after a round is over.
        wait_until(
            lambda: shares(group, client, topic) and shares(group, client, topic),
            SECONDS,
            "both have some of the queues",
        )
        client.forget()
        second = put(group, topic, "late", 12)
        # What came while the queues changed hands may come again.
        got = [each for each in client.wait_for("got", has(second), SECONDS) if each[BODY] in second]
        assert Counter(bodies(got)) == Counter(second), "lost or repeated"
        queues = {name: {event[QUEUE] for event in got if event[NAME] == name} for name in ("one", "two")}
        assert {len(each) for each in queues.values()} == {2} and not queues["one"] & queues["two"]
        follower = RoutedConsumer(group.namesrv_port, topic, f"g-{topic}")
        with group.master_client() as reader:
            expected = [reader.max_queue_offset(topic, queue) for queue in range(QUEUES)]
        # Not stopped before: a listener that is just about to return has made no progress yet.
        wait_until(
            lambda: [follower.committed(group.master_port, queue) for queue in range(QUEUES)] == expected,
            SECONDS,
            "the group's progress is on the broker",
        )


def shares(group: BrokerGroup, client: JavaClient, topic: str) -> bool:
    """Does either member get the messages of two queues? They must learn of each other first (40)."""
    client.forget()
    got = client.wait_for("got", has(put(group, topic, "probe", QUEUES)), SECONDS)
    return Counter(event[NAME] for event in got) == {"one": 2, "two": 2}


def test_broadcasting_gives_everything_to_everyone(
    group: BrokerGroup, version: str, topic: str, tmp_path: Path
) -> None:
    with program(group, version, "PushConsumer", tmp_path) as client:
        for name in ("one", "two"):
            client.tell("start", name, f"g-{topic}", topic, "*", "BROADCASTING")
        sent = put(group, topic, "all", 8)
        got = client.wait_for(
            "got",
            lambda events: all(
                set(sent) <= {event[BODY] for event in events if event[NAME] == name}
                for name in ("one", "two")
            ),
            SECONDS,
        )
        assert set(Counter(event[BODY] for event in got if event[BODY] != "first0").values()) == {2}


@pytest.mark.parametrize("expression", ["odd", "SQL number > 3 AND TAGS = 'odd'"], ids=["tag", "sql92"])
def test_filters_give_what_they_say(
    group: BrokerGroup, version: str, topic: str, tmp_path: Path, expression: str
) -> None:
    sent = put(group, topic, "m", 12)
    wanted = [body for number, body in enumerate(sent) if number % 2 and (number > 3 or expression == "odd")]
    with program(group, version, "PushConsumer", tmp_path) as client:
        client.tell("start", "one", f"g-{topic}", topic, expression, "CLUSTERING")
        client.wait_for("got", has(wanted), SECONDS)
        more = put(group, topic, "more", 8)  # to a held pull
        wanted += [more[5], more[7]] if expression != "odd" else more[1::2]
        got = client.wait_for("got", has(wanted), SECONDS)
        assert Counter(bodies(got)) == Counter(wanted)


def test_a_failing_message_comes_again_and_ends_in_the_dead_letter_queue(
    group: BrokerGroup, version: str, topic: str, tmp_path: Path
) -> None:
    """setMaxReconsumeTimes(2): the first try, two more, then %DLQ%."""
    with program(group, version, "PushConsumer", tmp_path) as client:
        client.tell("start", "one", f"g-{topic}", topic, "*", "CLUSTERING")
        put(group, topic, "bad", 1)
        good = put(group, topic, "good", 3)
        got = client.wait_for(
            "got",
            lambda events: has(good)(events) and sum(event[BODY] == "bad0" for event in events) >= 3,
            SECONDS,
        )
        tries = [event[AGAIN] for event in got if event[BODY] == "bad0"]
        assert tries == ["0", "1", "2"]

        def dead() -> bool:
            with suppress(BadStore):  # a record that is being written
                found = [each for each in read_log(group.master_store) if each.topic == f"%DLQ%g-{topic}"]
                return [each.body for each in found] == [b"bad0"]
            return False

        wait_until(dead, SECONDS, "the message is in the dead letter queue")
        assert Counter(bodies(client.events("got")))["bad0"] == 3


def test_an_orderly_consumer_keeps_order_and_locks_its_queues(
    group: BrokerGroup, version: str, topic: str, tmp_path: Path
) -> None:
    with program(group, version, "PushConsumer", tmp_path, *IMPATIENT) as client:
        for name in ("one", "two"):
            client.tell("start", name, f"g-{topic}", topic, "*", "ORDERLY")
        early = put(group, topic, "early", 8)
        rounds = iter(range(1000))

        def shared() -> bool:
            sent = put(group, topic, f"round{next(rounds)}-", QUEUES)
            got = client.wait_for("got", has(sent), SECONDS)
            return Counter(each[NAME] for each in got if each[BODY] in sent) == {"one": 2, "two": 2}

        # How often a message was tried is counted by whoever tries it: its queue must have changed hands before.
        wait_until(shared, SECONDS, "both have two queues")
        put(group, topic, "bad", 1)
        late = put(group, topic, "late", 8)
        got = client.wait_for(
            "got",
            lambda events: has(early, late)(events) and Counter(bodies(events))["bad0"] >= 2,
            SECONDS,
        )
        for queue in range(QUEUES):
            offsets = [int(event[OFFSET]) for event in got if event[QUEUE] == str(queue)]
            assert offsets == sorted(offsets), "out of order"
        assert [event[AGAIN] for event in got if event[BODY] == "bad0"] == ["0", "1"]


def test_lite_pull_by_subscription_and_by_assignment(
    group: BrokerGroup, version: str, topic: str, tmp_path: Path
) -> None:
    if group.master_kind is JAVA and version.startswith("5."):
        pytest.skip("RocketMQ 4.9.7 doesn't serve the lite pull of 5.x clients (361)")
    sent = put(group, topic, "m", 12)
    with program(group, version, "LitePull", tmp_path, *IMPATIENT) as client:
        client.tell("subscribe", f"g-{topic}", topic, "*", len(sent) + 1)
        assert Counter(event[0] for event in client.events("got")) == Counter([*sent, "first0"])
        client.forget()
        client.tell("assign", f"a-{topic}", topic, 1, len(sent) + 1 - QUEUES)
        got = client.events("got")
        assert {int(event[2]) for event in got} == {1, 2, 3} and len(got) == len(sent) + 1 - QUEUES
        assert dict(client.events("committed")) == {"0": "4", "1": "3", "2": "3", "3": "3"}


def test_request_and_reply_find_each_other(
    group: BrokerGroup, version: str, topic: str, tmp_path: Path
) -> None:
    with program(group, version, "RequestReply", tmp_path) as client:
        client.tell("serve", topic)
        for number in range(3):
            client.tell("ask", topic, f"question {number}")
        assert client.events("refused") == []
        replies = client.wait_for("reply", lambda events: len(events) == 3, SECONDS)
        assert replies == [(f"reply to question {number}",) for number in range(3)]


def test_B08_B118_B138_B139_a_push_consumer_reads_on_from_the_slave_and_loses_nothing(
    group: BrokerGroup, version: str, topic: str, tmp_path: Path
) -> None:
    read_through_a_failover(group, version, topic, tmp_path)


@pytest.mark.parametrize(
    ("master", "slave"),
    [(JAVA, OURS), in_soak(OURS, JAVA, why="half a minute, and the other way round is tried")],
    ids=["java-master-ours-slave", "ours-master-java-slave"],
)
def test_B118_B138_the_same_in_a_mixed_cluster(master: Kind, slave: Kind, tmp_path: Path) -> None:
    needs(JAVA)
    version = javaclient.VERSIONS[0]
    if reason := javaclient.unavailable(version):
        pytest.skip(f"RocketMQ's client {version} can't run here: {reason}")
    with BrokerGroup(tmp_path, master, slave, namesrv_kind=OURS, settings=SETTINGS) as group:
        group.start()
        topic = f"failover-{master.value}-{slave.value}"
        put(group, topic, "first", 1)
        wait_until(lambda: route_of(group.namesrv_port, topic), 60, "the topic has a route")
        read_through_a_failover(group, version, topic, tmp_path)


def test_B118_B119_B142_a_backlog_comes_from_the_slave_and_what_that_lacks_from_the_master(
    version: str, tmp_path: Path
) -> None:
    """The master sends its readers to a slave that has its last file only: each learns that at once."""
    settings = {**SETTINGS, "slaveReadEnable": True, "accessMessageInMemoryMaxRatio": 0}
    with BrokerGroup(tmp_path, namesrv_kind=OURS, role="ASYNC_MASTER", settings=settings) as group:
        assert group.namesrv is not None
        group.namesrv.start()
        group.master.start()
        backlog = [f"old{number}" for number in range(800)]
        with group.master_client() as master:
            for number, body in enumerate(backlog):
                filling = {"filling": "x" * 4000}  # bytes; some 250 messages to a log file
                assert master.send("Backlog", body.encode(), number % QUEUES, filling).code == 0
        group.slave.start()
        group.wait_linked()
        fresh = put(group, "Fresh", "fresh", 400)
        group.wait_caught_up()
        with group.slave_client() as slave, program(group, version, "PushConsumer", tmp_path) as client:
            wait_until(lambda: b'"Fresh"' in slave.call(ALL_TOPICS).body, 60, "the slave knows the topic")
            for topic in ("Backlog", "Fresh"):
                client.tell("start", topic, f"g-{topic}", topic, "*", "CLUSTERING")
            got = client.wait_for("got", has(backlog, fresh), SECONDS)
            wait_until(
                # Of the last 10 s, of a minute, of ten: one of them has what was before a stall.
                lambda: any(float(rate) > 0 for rate in slave.runtime_info()["getTransferedTps"].split()),
                60,
                "the slave has given something",
            )
        assert len(got) == 1200, "repeated"


def read_through_a_failover(group: BrokerGroup, version: str, topic: str, folder: Path) -> None:
    """The master is killed under a consumer with a backlog, and comes back."""
    follower = RoutedConsumer(group.namesrv_port, topic, f"g-{topic}")

    def progress(port: int) -> list[int | None]:
        return [follower.committed(port, queue) for queue in range(QUEUES)]

    with program(group, version, "PushConsumer", folder) as client:
        client.tell("start", "one", f"g-{topic}", topic, "*", "CLUSTERING")
        before = put(group, topic, "before", 40)
        client.wait_for("got", has(before), SECONDS)
        known = [11, 10, 10, 10]
        wait_until(lambda: progress(group.master_port) == known, SECONDS, "the master knows the progress")
        if group.slave_kind is OURS:
            group.slave.restart()  # it asks for the tables as soon as it has linked
            group.wait_linked()
        wait_until(lambda: progress(group.slave_port) == known, SYNC_SECONDS, "the slave knows it too")

        client.tell("pause", "one")
        backlog = put(group, topic, "backlog", 200)
        group.wait_caught_up()
        group.master.kill()
        client.tell("resume", "one")
        client.wait_for("got", has(before, backlog), SECONDS)
        wait_until(
            lambda: progress(group.slave_port) == [61, 60, 60, 60], SECONDS, "the slave takes the progress"
        )

        group.master.start()
        group.wait_linked()
        after = put(group, topic, "after", 40)
        got = client.wait_for("got", has(before, backlog, after), SECONDS)
        wait_until(
            lambda: progress(group.master_port) == [71, 70, 70, 70], SECONDS, "commits go to the master again"
        )
    repeated = [body for body, times in Counter(bodies(got)).items() if times > 1]
    assert repeated == [], "a living consumer goes on where it is"

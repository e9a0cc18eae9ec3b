"""Our own client against our own name server and brokers, which are processes: what it promises when things fail.

The words and counts are those of the tests of RocketMQ's Java clients in tests/interop.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_twisted

from testbed.brokergroup import OURS, QUICK_SYNC, SMALL_STORE, BrokerGroup
from testbed.storefiles import BadStore, read_log
from tests.conftest import LoggedErrors
from tests.support.clientprogram import Event
from tests.support.clusterclient import RoutedConsumer, route_of
from tests.support.twistedclient import TwistedClient, aside, twisted_client, until

SETTINGS = {
    **SMALL_STORE,
    "messageDelayLevel": "1s 2s 1s 1s 1s",
    "transactionCheckInterval": 10_000,  # a second question before the first is answered would count twice
    "transactionTimeOut": 6000,  # longer than a busy machine keeps a producer from its second word
}
QUEUES = 4
SECONDS = 120.0
SEND_SECONDS = 10.0  # that a producer waits for a mute broker here, at the least
ALL_TOPICS = 21
NAME, BODY, QUEUE, OFFSET, AGAIN, BROKER = range(6)  # words of "got"


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    with BrokerGroup(tmp_path_factory.mktemp("ours"), namesrv_kind=OURS, settings=SETTINGS) as pair:
        pair.start()
        yield pair
        for server in (pair.master, pair.slave, pair.namesrv):
            assert server is not None and "Traceback" not in server.log_text()


@pytest_twisted.async_yield_fixture
async def client(group: BrokerGroup) -> AsyncIterator[TwistedClient]:
    """With producer and consumers."""
    async with twisted_client(f"127.0.0.1:{group.namesrv_port}") as client:
        yield client


@pytest_twisted.async_fixture
async def topic(request: pytest.FixtureRequest, group: BrokerGroup, client: TwistedClient) -> str:
    """One of its own for each test, with one message in it and a route."""
    name: str = request.node.name[-60:]
    await client.tell("send", name, "first", 1)
    await until(lambda: route_of(group.namesrv_port, name), 60, "the topic has a route")
    return name


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def bodies(events: list[Event]) -> list[str]:
    return [event[BODY] for event in events]


def has(*expected: list[str]) -> Callable[[list[Event]], bool]:
    wanted = {body for each in expected for body in each}
    return lambda events: wanted <= set(bodies(events))


@pytest_twisted.ensureDeferred
async def test_a_failing_message_comes_again_and_ends_among_the_dead_letters(
    group: BrokerGroup, client: TwistedClient, topic: str, logged_errors: LoggedErrors
) -> None:
    """max_reconsume=2: the first try, two more, then %DLQ%."""
    await client.tell("start", "one", f"g-{topic}", topic, "CLUSTERING")
    await client.tell("send", topic, "bad", 1)
    await client.tell("send", topic, "good", 8)
    got = await client.wait_for(
        "got",
        lambda events: has(names("good", 8))(events) and Counter(bodies(events))["bad0"] >= 3,
        SECONDS,
    )
    assert [event[AGAIN] for event in got if event[BODY] == "bad0"] == ["0", "1", "2"]

    def dead() -> bool:
        with suppress(BadStore):  # a record that is being written
            found = [each for each in read_log(group.master_store) if each.topic == f"%DLQ%g-{topic}"]
            return [each.body for each in found] == [b"bad0"]
        return False

    await until(dead, SECONDS, "the message is a dead letter")
    assert Counter(bodies(client.events("got")))["bad0"] == 3
    assert len(logged_errors.flush(ValueError)) == 3
    assert Counter(bodies(client.events("got")))["good0"] == 1


@pytest_twisted.ensureDeferred
async def test_a_failing_batch_is_halved_until_the_bad_message_stands_alone(
    client: TwistedClient, topic: str, logged_errors: LoggedErrors
) -> None:
    await client.tell("start", "one", f"g-{topic}", topic, "CLUSTERING", 16)
    await client.wait_for("got", has(["first0"]), SECONDS)
    await client.tell("pause", "one")
    await client.tell("burst", topic, "wake", 1)
    await client.tell("burst", topic, "good", 7)
    await client.tell("burst", topic, "bad", 1)
    await client.tell("burst", topic, "fine", 7)
    client.forget()
    await client.tell("resume", "one")
    wanted = {*names("good", 7), *names("fine", 7)}
    calls = await client.wait_for(
        "call",
        lambda events: (
            wanted <= {body for event in events if event[1] == "ok" for body in event[2:]}
            and sum(event[2:] == ("bad0",) for event in events) == 3
        ),
        SECONDS,
    )
    settled = Counter(body for event in calls if event[1] == "ok" for body in event[2:])
    assert {settled[body] for body in wanted} == {1}, "a good one was settled twice, or not at all"
    first_round = [event for event in calls if "bad0" in event[2:]]
    assert len(first_round) <= 5 + 2, "16, 8, 4, 2, 1, and two more tries"
    assert len(logged_errors.flush(ValueError)) == 3, "halves aren't errors yet"


@pytest_twisted.ensureDeferred
async def test_transactions_are_seen_when_committed_and_asked_about_when_undecided(
    client: TwistedClient, topic: str
) -> None:
    await client.tell("start", "one", f"g-{topic}", topic, "CLUSTERING")
    await client.tell("transact", topic, "yes", "COMMIT")
    await client.tell("transact", topic, "no", "ROLLBACK")
    await client.tell("transact", topic, "later", "UNKNOWN")
    await client.wait_for("asked", bool, SECONDS)
    got = await client.wait_for("got", has(["yes", "later"]), SECONDS)
    assert set(client.events("asked")) == {("later",)}
    assert Counter(bodies(got)) == Counter(["first0", "yes", "later"])


@pytest_twisted.ensureDeferred
async def test_a_delayed_message_comes_when_it_is_due(client: TwistedClient, topic: str) -> None:
    await client.tell("start", "one", f"g-{topic}", topic, "CLUSTERING")
    await client.wait_for("got", has(["first0"]), SECONDS)
    sent = time.monotonic()
    await client.tell("send", topic, "slow", 1, 2)
    await client.wait_for("got", has(["slow0"]), SECONDS)
    assert time.monotonic() - sent >= 1.9


@pytest_twisted.ensureDeferred
async def test_two_members_in_order_never_overtake(
    client: TwistedClient, topic: str, logged_errors: LoggedErrors
) -> None:
    await client.tell("start", "one", f"g-{topic}", topic, "ORDERLY")
    await client.tell("send", topic, "early", 16)
    await client.tell("start", "two", f"g-{topic}", topic, "ORDERLY")
    rounds = iter(range(1000))

    async def shared() -> bool:
        prefix = f"round{next(rounds)}-"
        await client.tell("send", topic, prefix, QUEUES)
        got = await client.wait_for("got", has(names(prefix, QUEUES)), SECONDS)
        members = Counter(event[NAME] for event in got if event[BODY].startswith(prefix))
        return members == {"one": QUEUES // 2, "two": QUEUES // 2}

    await until(shared, SECONDS, "either has half of the queues")
    await client.tell("send", topic, "bad", 1)
    await client.tell("send", topic, "late", 32)
    got = await client.wait_for(
        "got",
        lambda events: (
            has(names("early", 16), names("late", 32))(events) and Counter(bodies(events))["bad0"] == 2
        ),
        SECONDS,
    )
    for queue in range(QUEUES):
        offsets = [int(event[OFFSET]) for event in got if event[QUEUE] == str(queue)]
        assert offsets == sorted(offsets), "out of order"
    assert [event[AGAIN] for event in got if event[BODY] == "bad0"] == ["0", "1"]
    assert len(logged_errors.flush(ValueError)) == 1
    assert Counter(bodies(got)) - Counter(["bad0"]) == Counter(dict.fromkeys(bodies(got), 1))


@pytest_twisted.ensureDeferred
async def test_B08_B118_B138_B139_reads_go_on_from_the_slave_and_nothing_is_lost_or_repeated(
    group: BrokerGroup, client: TwistedClient, topic: str
) -> None:
    follower = RoutedConsumer(group.namesrv_port, topic, f"g-{topic}")

    def progress(port: int) -> int:
        return sum(follower.committed(port, queue) or 0 for queue in range(QUEUES))

    await client.tell("start", "one", f"g-{topic}", topic, "CLUSTERING")
    await client.tell("send", topic, "before", 40)
    await client.wait_for("got", has(names("before", 40)), SECONDS)
    await until(lambda: progress(group.master_port) == 41, SECONDS, "the master knows the progress")
    await aside(group.slave.restart)  # it asks for the tables as soon as it has linked
    await aside(group.wait_linked)
    await until(lambda: progress(group.slave_port) == 41, SECONDS, "the slave knows it too")

    await client.tell("pause", "one")
    await client.tell("send", topic, "backlog", 200)
    await aside(group.wait_caught_up)
    await aside(group.master.kill)
    await client.tell("resume", "one")
    await client.wait_for("got", has(names("backlog", 200)), SECONDS)
    await until(lambda: progress(group.slave_port) == 241, SECONDS, "the slave takes the progress")

    await aside(group.master.start)
    await aside(group.wait_linked)
    await until(lambda: has_master(group.namesrv_port, topic), SECONDS, "the name server has it again")
    await client.tell("send", topic, "after", 40)
    got = await client.wait_for("got", has(names("after", 40)), SECONDS)
    await until(lambda: progress(group.master_port) == 281, SECONDS, "commits go to the master again")
    tries = Counter(bodies(got))
    assert [event for event in got if tries[event[BODY]] > 1] == []
    assert len(tries) == 281
    # Whoever comes next begins where it ended.
    await client.tell("stop", "one")
    client.forget()
    await client.tell("start", "next", f"g-{topic}", topic, "CLUSTERING")
    await client.tell("send", topic, "fresh", 4)
    got = await client.wait_for("got", has(names("fresh", 4)), SECONDS)
    assert set(bodies(got)) == set(names("fresh", 4))


@pytest_twisted.ensureDeferred
async def test_in_order_waits_for_the_master_and_repeats_nothing(
    group: BrokerGroup, client: TwistedClient, topic: str
) -> None:
    await client.tell("start", "one", f"g-{topic}", topic, "ORDERLY")
    await client.wait_for("got", has(["first0"]), SECONDS)
    await client.tell("pause", "one")
    await client.tell("send", topic, "held", 40)
    await aside(group.wait_caught_up)
    await aside(group.master.kill)
    said = [line for line in client.log if topic in line]
    await client.tell("resume", "one")
    await until(
        lambda: len([line for line in client.log if topic in line]) > len(said), SECONDS, "a pull fails"
    )
    await aside(group.master.start)
    await aside(group.wait_linked)
    await until(lambda: has_master(group.namesrv_port, topic), SECONDS, "the name server has it again")
    await client.tell("send", topic, "after", 8)
    got = await client.wait_for("got", has(names("held", 40), names("after", 8)), SECONDS)
    assert len(got) == 49, "lost or repeated"
    for queue in range(QUEUES):
        offsets = [int(event[OFFSET]) for event in got if event[QUEUE] == str(queue)]
        assert offsets == sorted(offsets)


@pytest_twisted.ensureDeferred
async def test_B142_a_slave_that_has_the_last_file_only_makes_nobody_skip(tmp_path: Path) -> None:
    """A slave that began later than its master's log: what it lacks is waited for, by those who read and by a
    group that is new."""
    with BrokerGroup(tmp_path, namesrv_kind=OURS, role="ASYNC_MASTER") as group:
        assert group.namesrv is not None
        await aside(group.namesrv.start)
        await aside(group.master.start)
        await aside(group.wait_registered, group.master_port)
        async with twisted_client(f"127.0.0.1:{group.namesrv_port}") as client:
            await client.tell("send", "Young", "old", 40, 0, 100_000)  # bytes; ten to a log file
            await client.tell("start", "reading", "old-group", "Young", "CLUSTERING", 1, 1, "paused")
            await aside(group.slave.start)
            await aside(group.wait_linked)
            await aside(group.wait_caught_up)
            await aside(group.master.kill)
            await client.tell("resume", "reading")
            await client.tell("start", "new", "new-group", "Young", "CLUSTERING")
            told = "no master now to say where to begin"
            await until(lambda: "\n".join(client.log).count(told) > 1, 60, "the new group waits")
            await client.wait_for(
                "got", lambda events: {"0", "1"} <= {event[OFFSET] for event in events}, SECONDS
            )
            assert {event[OFFSET] for event in client.events("got")} == {"0", "1"}, (
                "the slave has none of these"
            )
            await aside(group.master.start)
            got = await client.wait_for("got", lambda events: len(events) >= 80, SECONDS)
        for who in ("reading", "new"):
            mine = [event for event in got if event[NAME] == who]
            assert len(mine) == 40, "lost or repeated"
            for queue in range(QUEUES):
                offsets = [int(event[OFFSET]) for event in mine if event[QUEUE] == str(queue)]
                assert offsets == sorted(offsets)


@pytest_twisted.ensureDeferred
async def test_B118_B119_B142_a_backlog_is_read_from_the_slave_and_what_it_lacks_from_the_master(
    tmp_path: Path,
) -> None:
    """The master sends its readers away, to a slave that has its last file only."""
    settings = {**SMALL_STORE, **QUICK_SYNC, "slaveReadEnable": True, "accessMessageInMemoryMaxRatio": 0}
    with BrokerGroup(tmp_path, namesrv_kind=OURS, role="ASYNC_MASTER", settings=settings) as group:
        assert group.namesrv is not None
        await aside(group.namesrv.start)
        await aside(group.master.start)
        await aside(group.wait_registered, group.master_port)
        async with twisted_client(f"127.0.0.1:{group.namesrv_port}") as client:
            await client.tell("send", "Backlog", "old", 80, 0, 50_000)  # bytes; twenty to a log file
            await aside(group.slave.start)
            await aside(group.wait_linked)
            await client.tell("send", "Fresh", "fresh", 400, 0, 500)
            await aside(group.wait_caught_up)
            with group.slave_client() as slave:
                await until(
                    lambda: b'"Fresh"' in slave.call(ALL_TOPICS).body, 60, "the slave knows the topic"
                )
            for topic in ("Backlog", "Fresh"):
                await client.tell("start", topic, f"{topic}-group", topic, "CLUSTERING")
            got = await client.wait_for("got", has(names("old", 80), names("fresh", 400)), SECONDS)
        assert len(got) == 480, "repeated"
        with group.slave_client() as slave:
            await until(
                # Of the last 10 s, of a minute, of ten: one of them has what was before a stall.
                lambda: any(float(rate) > 0 for rate in slave.runtime_info()["getTransferedTps"].split()),
                60,
                "the slave has given something",
            )


@pytest_twisted.ensureDeferred
async def test_B115_B116_of_two_masters_a_dead_or_mute_one_is_avoided_and_no_send_fails(
    tmp_path: Path,
) -> None:
    with BrokerGroup(tmp_path / "a", namesrv_kind=OURS, role="ASYNC_MASTER") as a:
        told = {**SMALL_STORE, "namesrvAddr": f"127.0.0.1:{a.namesrv_port}"}
        with BrokerGroup(tmp_path / "b", role="ASYNC_MASTER", settings=told, name="broker-b") as b:
            assert a.namesrv is not None
            for server in (a.namesrv, a.master, b.master):
                server.start()
            for each in (a, b):
                with each.master_client() as raw:
                    assert raw.send("Spread", b"first").code == 0
            await until(lambda: on_both(a.namesrv_port), 60, "the topic's route has both")
            async with twisted_client(f"127.0.0.1:{a.namesrv_port}") as client:

                def used(prefix: str) -> Callable[[], Awaitable[object]]:
                    async def both() -> bool:
                        return "broker-b" in await brokers(client, prefix, 8)

                    return both

                assert await brokers(client, "both", 40) == {"broker-a": 20, "broker-b": 20}

                b.master.suspend()  # connected, and mute: the first send finds out, the others don't ask
                assert await brokers(client, "mute", 20) == {"broker-a": 20}
                slow = [event for event in client.events("sent") if float(event[3]) > SEND_SECONDS]
                assert len(slow) == 1, "it was asked again and again"
                b.master.resume()
                await until(used("back"), 90, "both are used again")

                await aside(b.master.kill)
                assert await brokers(client, "dead", 40) == {"broker-a": 40}
                await aside(b.master.start)
                await until(lambda: on_both(a.namesrv_port), 60, "the dead master is back")
                await until(used("again"), 90, "both are used again")


async def brokers(client: TwistedClient, prefix: str, count: int) -> Counter[str]:
    """Who took so many messages, all with SEND_OK."""
    client.forget()
    await client.tell("send", "Spread", prefix, count)
    sent = client.events("sent")
    assert len(sent) == count and {event[1] for event in sent} == {"OK"}
    return Counter(event[2] for event in sent)


def has_master(namesrv_port: int, topic: str) -> bool:
    route = route_of(namesrv_port, topic)
    return route is not None and bool(route.writable())


def on_both(namesrv_port: int) -> bool:
    route = route_of(namesrv_port, "Spread")
    return route is not None and len(route.writable()) == 2 * QUEUES

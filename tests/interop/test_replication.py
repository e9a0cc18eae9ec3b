"""Pairs under load, with the link cut, stalled and split and with either side killed.

After each story the two logs are byte-identical, the queues of both sides follow from their logs, and
everything that SYNC_MASTER answered with PUT_OK lies on the slave.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.brokergroup import JAVA, OURS, BrokerGroup, Kind
from testbed.processes import wait_until
from testbed.storefiles import check_queues, difference_told, first_difference
from tests.interop.conftest import PAIRS, needs, pair_name
from tests.support.linkproxy import LinkProxy
from tests.support.producer import Producer, broken_promises
from tests.support.soak import in_soak

SOME = 1000  # acknowledged messages between two events: about half a second of load
MISSED_SECONDS = 60.0  # longer than slaveTimeout
SELDOM = "links between two of ours are cut in tests/system"
OURS_SELDOM = [in_soak(pair, why=SELDOM) if pair == (OURS, OURS) else pair for pair in PAIRS]


def beside_java(left: tuple[Kind, Kind] | None = None) -> pytest.MarkDecorator:
    """Each pair with a side of Java's: two of ours are killed, and their link stalled, in tests/system.

    - left: takes long, and `make soak` alone tries it
    """
    why = "half a minute or more, and the other way round is tried"
    pairs = [pair for pair in PAIRS if JAVA in pair]
    tried = [in_soak(pair, why=why) if pair == left else pair for pair in pairs]
    return pytest.mark.parametrize("kinds", tried, indirect=True, ids=pair_name)


def assert_faithful(group: BrokerGroup, producer: Producer) -> None:
    """The end of every story: producer done, slave caught up, both stopped in order, files compared."""
    end = group.wait_caught_up()
    group.stop()
    stores = group.master_store, group.slave_store
    at = first_difference(*stores, end)
    assert at is None, difference_told(*stores, at)
    for store in (group.master_store, group.slave_store):
        assert broken_promises(producer, store) == [], f"{store.name}: {producer.story()}"
        assert check_queues(store) >= len(producer.acked)


@pytest.mark.parametrize("kinds", OURS_SELDOM, indirect=True, ids=pair_name)
def test_B29_B52_logs_are_identical_after_load_with_reconnects(group: BrokerGroup, link: LinkProxy) -> None:
    with Producer(group.master_port) as producer:
        producer.wait_acked(SOME)
        link.cut()
        producer.wait_acked(SOME)
        link.cut(reset=True)
        producer.wait_acked(SOME)
        group.slave.restart()
        producer.wait_acked(SOME)
    assert link.connections >= 4
    assert_faithful(group, producer)


@beside_java(left=(OURS, JAVA))
def test_B128_kill_9_of_the_slave_loses_nothing_acknowledged(group: BrokerGroup) -> None:
    with Producer(group.master_port) as producer:
        producer.wait_acked(SOME)
        group.slave.kill()
        wait_until(
            lambda: producer.codes[11] + producer.codes[12], MISSED_SECONDS, "a put has missed the slave"
        )
        group.slave.start()
        producer.wait_acked(SOME)
    assert_faithful(group, producer)


@beside_java(left=(JAVA, OURS))
def test_B127_kill_9_of_the_master_loses_nothing_acknowledged(group: BrokerGroup) -> None:
    with Producer(group.master_port) as producer:
        producer.wait_acked(SOME)
        group.master.restart(kill=True)
        producer.wait_acked(SOME)
    assert producer.reconnects > 0
    assert_faithful(group, producer)


@beside_java(left=(OURS, JAVA))
def test_B133_a_stalled_link_times_puts_out_and_loses_nothing(group: BrokerGroup, link: LinkProxy) -> None:
    with Producer(group.master_port) as producer:
        producer.wait_acked(SOME)
        link.stall()
        wait_until(lambda: producer.codes[12], MISSED_SECONDS, "a put is answered FLUSH_SLAVE_TIMEOUT")
        link.flow()
        producer.wait_acked(SOME)
    assert_faithful(group, producer)


@beside_java(left=(OURS, JAVA))
def test_B151_a_link_split_at_every_byte_carries_the_same_log(group: BrokerGroup, link: LinkProxy) -> None:
    link.split(1)
    with group.master_client() as client:
        results = [client.send("Split", b"x" * size, size % 4, {"KEYS": f"k{size}"}) for size in range(100)]
    assert {result.code for result in results} == {0}
    end = group.wait_caught_up()
    assert link.passed[1] > 100 * 91, "the log didn't come through the proxy"
    group.stop()
    assert first_difference(group.master_store, group.slave_store, end) is None
    assert check_queues(group.slave_store) >= 100


@beside_java(left=(JAVA, OURS))
def test_B88_B128_megabytes_that_a_slave_has_missed_arrive_at_once(group: BrokerGroup) -> None:
    """Far more than a socket holds: a master of ours sends them straight from its files."""
    group.slave.stop()
    with group.master_client() as client:
        results = [client.send("Missed", bytes([number]) * 60_000, number % 4) for number in range(250)]
    assert {result.code for result in results} == {11}, "no slave was there"
    group.slave.start()
    end = group.wait_caught_up()
    assert end > 250 * 60_000
    group.stop()
    assert first_difference(group.master_store, group.slave_store, end) is None
    assert check_queues(group.slave_store) >= 250


NAMED = [
    in_soak(OURS, JAVA, JAVA, why="half a minute, and the slave asks so in others"),
    (JAVA, OURS, OURS),
    in_soak(JAVA, JAVA, OURS, why="a master of RocketMQ's registers so in others"),
]


@pytest.mark.parametrize(("namesrv", "master", "slave"), NAMED, ids=lambda kind: kind.value)
def test_B110_the_slave_learns_the_ha_address_from_the_name_server(
    namesrv: Kind, master: Kind, slave: Kind, tmp_path: Path
) -> None:
    needs(namesrv, master, slave)
    with BrokerGroup(tmp_path, master, slave, namesrv_kind=namesrv) as group:
        group.start()
        with Producer(group.master_port) as producer:
            producer.wait_acked(SOME)
        assert_faithful(group, producer)

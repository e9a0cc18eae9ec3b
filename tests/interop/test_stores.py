"""Stores that change hands: what one broker wrote, stopped or killed, the other opens and continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.brokergroup import JAVA, OURS, BrokerGroup, Kind
from testbed.remotingclient import RemotingClient
from testbed.storefiles import check_queues, expected_queues, first_difference, log_end
from tests.interop.conftest import needs
from tests.support.producer import Producer, broken_promises
from tests.support.soak import in_soak

SOME = 1000
ORDERS = [(JAVA, OURS, JAVA), (OURS, JAVA, OURS)]
BOTH_WAYS = "either order has the step from Java to ours and the one back"


def pull_all(client: RemotingClient, topic: str, queue_id: int) -> int:
    """Pull a queue from its start to its end; bytes of all records."""
    offset, size = 0, 0
    while True:
        answer = client.pull(topic, queue_id, offset)
        if answer.code != 0:
            assert answer.code == 19, f"{topic}/{queue_id} at {offset}: {answer.code} {answer.remark}"
            return size
        size += len(answer.body)
        offset = int(answer.ext["nextBeginOffset"])


def everything_can_be_pulled(client: RemotingClient, store: Path) -> None:
    for (topic, queue_id), entries in expected_queues(store).items():
        assert client.max_queue_offset(topic, queue_id) == len(entries)
        assert pull_all(client, topic, queue_id) == sum(size for _, size, _ in entries.values())


@pytest.mark.parametrize(
    ("order", "killed"),
    [
        in_soak(ORDERS[0], False, why="stopped and swapped without a kill is tried below, too"),
        (ORDERS[1], True),
        in_soak(ORDERS[0], True, why=BOTH_WAYS),
        in_soak(ORDERS[1], False, why=BOTH_WAYS),
    ],
    ids=lambda value: (
        "-".join(kind.value for kind in value) if isinstance(value, tuple) else f"killed={value}"
    ),
)
def test_a_store_goes_from_hand_to_hand(order: tuple[Kind, ...], killed: bool, tmp_path: Path) -> None:
    needs(*order)
    end, producers = 0, []
    with BrokerGroup(tmp_path, role="ASYNC_MASTER") as group:
        for turn, kind in enumerate(order):
            group.use_master(kind)
            group.master.start()
            assert group.master_end() == end, f"{kind.value} continues elsewhere than its predecessor ended"
            with Producer(group.master_port, seed=turn) as producer:
                producer.wait_acked(SOME)
            producers.append(producer)
            group.master.kill() if killed else group.master.stop()
            end = log_end(group.master_store)
            for each in producers:
                assert broken_promises(each, group.master_store) == []
        group.master.start()
        with group.master_client() as client:
            everything_can_be_pulled(client, group.master_store)
        group.master.stop()
    assert check_queues(group.master_store) == sum(len(each.acked) for each in producers)


def test_either_side_is_swapped_in_place_and_nobody_notices(tmp_path: Path) -> None:
    needs(JAVA)
    with BrokerGroup(tmp_path, JAVA, JAVA) as group:
        group.start()
        with Producer(group.master_port) as producer:
            producer.wait_acked(SOME)
            group.swap_slave(OURS)
            producer.wait_acked(SOME)
            group.swap_master(OURS)
            producer.wait_acked(SOME)
            group.swap_slave(JAVA)
            producer.wait_acked(SOME)
        end = group.wait_caught_up()
        group.stop()
    assert first_difference(group.master_store, group.slave_store, end) is None
    for store in (group.master_store, group.slave_store):
        assert broken_promises(producer, store) == []
        assert check_queues(store) >= len(producer.acked)

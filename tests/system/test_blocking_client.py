"""hatwisted.blocking, the client of scripts, against our own name server, master and slave."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hatwisted.blocking import Cluster
from hatwisted.clientcore.errors import BadMessage, BrokerGone, Closed, SendFailed
from hatwisted.clientcore.message import Message
from hatwisted.clientcore.sending import SendStatus
from testbed.brokergroup import OURS, SMALL_STORE, BrokerGroup
from testbed.processes import free_port, wait_until

PATIENCE = 30.0
"""Seconds that a broker on a busy machine gets for its answer."""


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    with BrokerGroup(tmp_path_factory.mktemp("blocking"), namesrv_kind=OURS, settings=SMALL_STORE) as pair:
        pair.start()
        yield pair
        for server in (pair.master, pair.slave, pair.namesrv):
            assert server is not None and "Traceback" not in server.log_text()


@pytest.fixture
def cluster(group: BrokerGroup) -> Iterator[Cluster]:
    with Cluster(f"127.0.0.1:{group.namesrv_port}") as cluster:
        yield cluster


def test_send_one_a_batch_and_many_at_once(cluster: Cluster) -> None:
    producer = cluster.producer(timeout=PATIENCE)  # a send that is repeated would be stored twice
    assert producer.send(Message(topic="Script", body=b"one")).status is SendStatus.OK
    together = producer.send_batch([Message(topic="Script", body=b"%d" % n) for n in range(10)])
    assert [each.queue_offset - together[0].queue_offset for each in together] == list(range(10))
    messages = (Message(topic="Script", body=b"%d" % n) for n in range(1000))
    results = list(producer.send_all(messages))
    assert len({(each.queue, each.queue_offset) for each in results}) == 1000
    producer.send_oneway(Message(topic="Script", body=b"hope"))
    # Queues follow the log a moment later; nobody promises that the last one was stored.
    wait_until(lambda: _stored(cluster, "Script") >= 1011, 60, "the queues have what was sent")
    assert _stored(cluster, "Script") in (1011, 1012)


def _stored(cluster: Cluster, topic: str) -> int:
    return sum(end for _, end in cluster.admin().topic_offsets(topic).values())


def test_waiting_messages_share_requests(cluster: Cluster) -> None:
    producer = cluster.producer(coalesce=True, timeout=PATIENCE)
    results = list(producer.send_all(Message(topic="Shared", body=b"%d" % n) for n in range(500)))
    assert [each.status for each in results] == [SendStatus.OK] * 500
    assert len({(each.queue, each.queue_offset) for each in results}) == 500


def test_administration(cluster: Cluster) -> None:
    admin = cluster.admin()
    admin.create_topic("Made", queues=2)
    assert len(admin.topic_offsets("Made")) == 2
    admin.create_group("readers", retryMaxTimes=3)
    assert admin.groups()["readers"]["retryMaxTimes"] == 3
    admin.delete_topic("Made")
    assert "Made" not in admin.topics()


def test_errors(cluster: Cluster) -> None:
    producer = cluster.producer()
    with pytest.raises(BadMessage, match="a body must be bytes"):
        producer.send(Message(topic="T", body="text"))  # type: ignore[arg-type]
    producer.stop()
    with pytest.raises(Closed):
        producer.send(Message(topic="T", body=b""))
    with Cluster(f"127.0.0.1:{free_port()}") as nobody, pytest.raises(BrokerGone, match="no name server"):
        nobody.producer().send(Message(topic="T", body=b""))


def test_a_master_that_dies_fails_a_send_and_one_that_is_back_takes_the_next(
    group: BrokerGroup, cluster: Cluster
) -> None:
    producer = cluster.producer(timeout=2.0)
    producer.send(Message(topic="Dies", body=b"before"))
    group.master.kill()
    with pytest.raises((SendFailed, BrokerGone)):
        producer.send(Message(topic="Dies", body=b"nobody"))
    group.master.start()
    group.wait_linked()
    group.wait_registered(group.master_port)
    assert producer.send(Message(topic="Dies", body=b"after")).status is SendStatus.OK

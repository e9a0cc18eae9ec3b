"""Messages put into a running cluster, and the same messages read from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hatwisted.blocking.settings import ClusterSettings
from hatwisted.pipeline.remote.clusterreader import ClusterReader
from hatwisted.pipeline.remote.queuepull import QueueRange
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.registration import TopicRoute, decode_body
from testbed.brokergroup import BrokerGroup, wait_dispatched
from testbed.processes import wait_until
from testbed.remotingclient import SEND_BATCH_MESSAGE, RemotingClient, encode_inner, send_fields

IN_FLIGHT = 64
BATCH = 50
CYCLE = 251
"""Bytes after which what fills a body comes again; a prime, so that neighbours differ everywhere."""
STORED = (0, 11, 12)
"""Codes of answers to messages that the master has stored; the last two say that the slave was away or late, as
it may be at any time on a busy machine. Who needs the slave waits for it."""
PATIENCE = 120.0
"""Seconds until a cluster has done what it does within ten."""


@dataclass(frozen=True)
class Sent:
    """What a queue got, in order."""

    topic: str
    queue_id: int
    bodies: Sequence[bytes]


def settings_of(group: BrokerGroup, **settings: object) -> ClusterSettings:
    return ClusterSettings(name_servers=(f"127.0.0.1:{group.namesrv_port}",), **settings)  # type: ignore[arg-type]


def bodies_of(first: int, count: int, size: int = 100) -> list[bytes]:
    """Messages that can be told apart; none compresses to nothing."""
    cycle = bytes(range(CYCLE)) * (size // CYCLE + 2)
    starts = ((number, number * 7 % CYCLE) for number in range(first, first + count))
    return [b"%08d" % number + cycle[start : start + size] for number, start in starts]


def send_batches(client: RemotingClient, topic: str, queue_id: int, bodies: Iterable[bytes]) -> None:
    """All of `bodies` into one queue of the master, in order, BATCH of them at a time; returns when the queue has
    them: it follows the log a moment later."""
    held = list(bodies)
    for at in range(0, len(held), BATCH):
        body = b"".join(
            encode_inner(each, b"KEYS\x01k%d" % number) for number, each in enumerate(held[at : at + BATCH])
        )
        client.call(SEND_BATCH_MESSAGE, send_fields(topic, queue_id, {}, batch=True), body).expect(*STORED)
    wait_dispatched(client, PATIENCE)


def fill(group: BrokerGroup, topic: str, count: int, queues: int = 4, size: int = 100) -> list[Sent]:
    """`count` messages into each queue of a new topic; returns when the name server knows it."""
    sent = [Sent(topic, queue, bodies_of(queue * 1_000_000, count, size)) for queue in range(queues)]
    with group.master_client() as client:
        for each in sent:
            send_batches(client, topic, each.queue_id, each.bodies)
    wait_for_route(group, topic)
    return sent


def wait_for_route(group: BrokerGroup, topic: str, brokers: int = 2) -> None:
    def known() -> bool:
        with RemotingClient("127.0.0.1", group.namesrv_port) as client:
            answer = client.route(topic)
        if answer.code:
            return False
        route = decode_body(answer.body, TopicRoute)
        return len(route.broker_datas) == 1 and len(route.broker_datas[0].broker_addrs) >= brokers

    wait_until(known, PATIENCE, f"the name server knows {brokers} brokers of {topic}")


def wait_for_no_route(group: BrokerGroup, topic: str) -> None:
    """Until the name server has missed the brokers that were killed."""

    def unknown() -> bool:
        with RemotingClient("127.0.0.1", group.namesrv_port) as client:
            return client.route(topic).code == ResponseCode.TOPIC_NOT_EXIST

    wait_until(unknown, PATIENCE, f"the name server knows no broker of {topic}")


def wait_for_slave(group: BrokerGroup, topic: str, seconds: float = PATIENCE) -> None:
    """Until the slave has the topic's first queue, and has learned of the topic: it asks every 10 s, or as
    QUICK_SYNC says."""
    group.wait_caught_up(seconds)

    def known() -> bool:
        with group.master_client() as master, group.slave_client() as slave:
            code = slave.pull(topic, 0, 0).code
            ends = [client.max_queue_offset(topic, 0) for client in (master, slave)]
        return code != ResponseCode.TOPIC_NOT_EXIST and ends[0] == ends[1]

    wait_until(known, seconds, f"the slave knows topic {topic}")


def ranges_of(cluster: ClusterReader, *topics: str) -> list[QueueRange]:
    """Everything there is of these topics now."""
    queues = cluster.queues(topics)
    bounds = cluster.bounds(queues)
    return [QueueRange(queue, bounds[queue].low, bounds[queue].high, queues[queue]) for queue in queues]


def read_all(
    settings: ClusterSettings,
    *topics: str,
    columns: Sequence[str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> pa.Table:
    """Everything, in order of topic, broker and queue."""
    with ClusterReader(settings, sleep=sleep) as cluster:
        batches = [batch for wanted in ranges_of(cluster, *topics) for batch in cluster.read(wanted, columns)]
    return pa.Table.from_batches(batches)

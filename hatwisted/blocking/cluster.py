"""A program's link to a RocketMQ cluster, whose methods return when it's done.

with Cluster("127.0.0.1:9876") as cluster:
    producer = cluster.producer("orders")
    results = producer.send_all(Message(topic="Orders", body=line) for line in lines)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from hatwisted.blocking.closing import Closing
from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import Links
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore import admin, producer
from hatwisted.clientcore.address import split_addresses
from hatwisted.clientcore.clusterlink import PRODUCER_GROUP, ClusterLink
from hatwisted.clientcore.message import Message
from hatwisted.clientcore.options import ProducerKeywords, ProducerOptions
from hatwisted.clientcore.sending import SendResult
from hatwisted.clientcore.tasks import Task, Work

P = ParamSpec("P")
T = TypeVar("T")


def blocking(
    method: Callable[Concatenate[Any, P], Work[T]],
) -> Callable[Concatenate[Any, P], T]:
    """`method` of the object's `_core`; returns once it's done."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        driver: BlockingDriver = self._driver
        return driver.run(method(self._core, *args, **kwargs))

    return update_wrapper(call, method)


class Producer:
    """Made by `Cluster.producer`.

    - driver: runs the logic until it has its answer
    - core: the logic
    - window: requests of `send_all` that may be waiting for answers
    """

    def __init__(self, driver: BlockingDriver, core: producer.Producer, window: int) -> None:
        self._driver = driver
        self._core = core
        self._window = window

    send = blocking(producer.Producer.send)
    send_batch = blocking(producer.Producer.send_batch)
    send_oneway = blocking(producer.Producer.send_oneway)
    queues = blocking(producer.Producer.queues)
    stop = blocking(producer.Producer.stop)

    def send_all(self, messages: Iterable[Message]) -> Iterator[SendResult]:
        """The results in order, with many sends under way at once; the first failure is raised."""
        under_way: deque[Task[SendResult]] = deque()
        for message in messages:
            if len(under_way) == self._window:
                yield self._driver.run(_result(under_way.popleft()))
            under_way.append(Task(self._core.send(message)))
        while under_way:
            yield self._driver.run(_result(under_way.popleft()))


class Admin:
    """Made by `Cluster.admin`. Methods raise Refused, CallFailed, NoNameServer or NoRoute."""

    def __init__(self, driver: BlockingDriver, core: admin.Admin) -> None:
        self._driver = driver
        self._core = core

    topics = blocking(admin.Admin.topics)
    route = blocking(admin.Admin.route)
    create_topic = blocking(admin.Admin.create_topic)
    delete_topic = blocking(admin.Admin.delete_topic)
    topic_offsets = blocking(admin.Admin.topic_offsets)
    cluster_info = blocking(admin.Admin.cluster_info)
    broker_info = blocking(admin.Admin.broker_info)
    ha_status = blocking(admin.Admin.ha_status)
    message_by_id = blocking(admin.Admin.message_by_id)
    messages_by_key = blocking(admin.Admin.messages_by_key)
    messages_at = blocking(admin.Admin.messages_at)
    broker_config = blocking(admin.Admin.broker_config)
    set_broker_config = blocking(admin.Admin.set_broker_config)
    set_writable = blocking(admin.Admin.set_writable)
    groups = blocking(admin.Admin.groups)
    create_group = blocking(admin.Admin.create_group)
    delete_group = blocking(admin.Admin.delete_group)
    members = blocking(admin.Admin.members)
    progress = blocking(admin.Admin.progress)
    clone_plan = blocking(admin.Admin.clone_plan)
    clone = blocking(admin.Admin.clone)
    offset_at = blocking(admin.Admin.offset_at)
    reset_plan = blocking(admin.Admin.reset_plan)
    reset = blocking(admin.Admin.reset)


class Cluster(Closing):
    """One client to the brokers, for one thread.

    name_servers: "host:port", several separated by ";"; or whole ClusterSettings, with credentials and TLS
    client_id: unique among all clients ("host@pid#random" by default)
    """

    def __init__(
        self, name_servers: str | Sequence[str] | ClusterSettings, *, client_id: str | None = None
    ) -> None:
        settings = name_servers
        if not isinstance(settings, ClusterSettings):
            settings = ClusterSettings(name_servers=split_addresses(settings))
        self._driver = BlockingDriver(Links(settings))
        self._link = ClusterLink(self._driver, settings.name_servers, client_id)

    def producer(self, group: str = PRODUCER_GROUP, **options: Unpack[ProducerKeywords]) -> Producer:
        """A new Producer of `group`; options as ProducerOptions. No more than MAX_IN_FLIGHT requests of it are
        under way."""
        made = ProducerOptions(**options)
        return Producer(self._driver, self._link.producer(group, made), min(made.max_in_flight, WINDOW))

    def admin(self) -> Admin:
        """Topics, groups and offsets of this cluster."""
        return Admin(self._driver, self._link.admin())

    def close(self) -> None:
        """Stop all producers cleanly; then close the connections."""
        self._driver.run(self._link.close())


WINDOW = 32
"""Sends under way at once: half of what one connection takes, as some may be heartbeats."""


async def _result(task: Task[T]) -> T:
    return await task

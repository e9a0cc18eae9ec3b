"""Producers, consumers and administration for asyncio programs: the logic of `clientcore`, with coroutines."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from hatwisted.aio.driver import on_asyncio, run
from hatwisted.clientcore import admin, consumer, producer, transactions
from hatwisted.clientcore.consumerstate import ConsumerState
from hatwisted.clientcore.message import ReceivedMessage


class Producer:
    """Made by `Cluster.producer`; stopped at the end of its `async with`, or with its cluster."""

    def __init__(self, core: producer.Producer) -> None:
        self._core = core

    @property
    def group(self) -> str:
        """Its producer group."""
        return self._core.group

    send = on_asyncio(producer.Producer.send)
    send_batch = on_asyncio(producer.Producer.send_batch)
    deliver = on_asyncio(producer.Producer.deliver)
    send_oneway = on_asyncio(producer.Producer.send_oneway)
    ready = on_asyncio(producer.Producer.ready)
    settled = on_asyncio(producer.Producer.settled)
    queues = on_asyncio(producer.Producer.queues)
    stop = on_asyncio(producer.Producer.stop)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class TransactionProducer(Producer):
    """Made by `Cluster.transaction_producer`."""

    _core: transactions.TransactionProducer

    def __init__(self, core: transactions.TransactionProducer) -> None:
        super().__init__(core)

    send_in_transaction = on_asyncio(transactions.TransactionProducer.send_in_transaction)


class Consumer(ConsumerState):
    """Made by `Cluster.consumer`; an `async with` starts and stops it.

    async with cluster.consumer("billing", {"Orders": "paid || refunded"}) as consumer:
        async for message in consumer:  # settled when the next one is asked for
            ...
    """

    start = on_asyncio(consumer.Consumer.start)
    stop = on_asyncio(consumer.Consumer.stop)
    commit = on_asyncio(consumer.Consumer.commit)
    seek = on_asyncio(consumer.Consumer.seek)

    def __init__(self, core: consumer.Consumer) -> None:
        super().__init__(core)
        self._missed: deque[ReceivedMessage] = deque()
        """Came in the turn in which whoever waited was cancelled, by a timeout for example: given to the next one,
        since the cluster gives them to nobody else."""

    async def next_message(self) -> ReceivedMessage | None:
        """The next message, which the program itself settles or rejects; None when the consumer has stopped."""
        if self._missed:
            return self._missed.popleft()
        return await run(self._core.next_message(), self._miss)

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Messages, until the consumer stops; each is settled when the next is asked for."""
        while self._missed:
            message = self._missed.popleft()
            yield message
            self.settle(message)
        messages = self._core.messages()
        while (given := await run(messages.next(), self._miss)) is not None:
            yield given

    def _miss(self, message: ReceivedMessage | None) -> None:
        if message is not None:
            self._missed.append(message)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class Admin:
    """Made by `Cluster.admin`. Methods raise Refused, CallFailed, NoNameServer or NoRoute."""

    def __init__(self, core: admin.Admin) -> None:
        self._core = core

    topics = on_asyncio(admin.Admin.topics)
    route = on_asyncio(admin.Admin.route)
    create_topic = on_asyncio(admin.Admin.create_topic)
    delete_topic = on_asyncio(admin.Admin.delete_topic)
    topic_offsets = on_asyncio(admin.Admin.topic_offsets)
    cluster_info = on_asyncio(admin.Admin.cluster_info)
    broker_info = on_asyncio(admin.Admin.broker_info)
    ha_status = on_asyncio(admin.Admin.ha_status)
    message_by_id = on_asyncio(admin.Admin.message_by_id)
    messages_by_key = on_asyncio(admin.Admin.messages_by_key)
    messages_at = on_asyncio(admin.Admin.messages_at)
    broker_config = on_asyncio(admin.Admin.broker_config)
    set_broker_config = on_asyncio(admin.Admin.set_broker_config)
    set_writable = on_asyncio(admin.Admin.set_writable)
    groups = on_asyncio(admin.Admin.groups)
    create_group = on_asyncio(admin.Admin.create_group)
    delete_group = on_asyncio(admin.Admin.delete_group)
    members = on_asyncio(admin.Admin.members)
    progress = on_asyncio(admin.Admin.progress)
    clone_plan = on_asyncio(admin.Admin.clone_plan)
    clone = on_asyncio(admin.Admin.clone)
    offset_at = on_asyncio(admin.Admin.offset_at)
    reset_plan = on_asyncio(admin.Admin.reset_plan)
    reset = on_asyncio(admin.Admin.reset)

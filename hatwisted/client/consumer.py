"""Consumers for Twisted programs: the logic of `clientcore.consumer`, with Deferreds.

    consumer = cluster.consumer("billing", {"Orders": "paid || refunded"})
    await consumer.start()
    async for message in consumer:      # settled when the next one is asked for
        ...

or, by callback, `cluster.consumer("billing", {"Orders": "*"}, on_messages=handle, batch=32)`: `handle` gets a
list of one queue's messages, in order, and returns None, a Deferred or a coroutine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from hatwisted.client.driver import deferred
from hatwisted.client.faces import returning_deferred
from hatwisted.clientcore import consumer
from hatwisted.clientcore.message import ReceivedMessage
from hatwisted.clientcore.messagestream import Messages
from hatwisted.wire.messagequeue import MessageQueue


class Consumer:
    """Made by `Cluster.consumer`. Methods that wait return Deferreds, which `await` takes as well."""

    def __init__(self, core: consumer.Consumer) -> None:
        self._core = core

    start = returning_deferred(consumer.Consumer.start)
    stop = returning_deferred(consumer.Consumer.stop)
    commit = returning_deferred(consumer.Consumer.commit)
    seek = returning_deferred(consumer.Consumer.seek)
    next_message = returning_deferred(consumer.Consumer.next_message)

    @property
    def group(self) -> str:
        """Its consumer group."""
        return self._core.group

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues being read."""
        return self._core.queues

    @property
    def progress(self) -> dict[MessageQueue, int]:
        """By queue the offset to go on from."""
        return self._core.progress

    @property
    def uncommitted(self) -> int:
        """Queues whose progress isn't noted yet; after a stop, those that will be repeated in part."""
        return self._core.uncommitted

    def settle(self, message: ReceivedMessage) -> None:
        """`message`, got by `async for` or `next_message`, is done with."""
        self._core.settle(message)

    def reject(self, message: ReceivedMessage) -> None:
        """`message`, got by `async for` or `next_message`, is to be tried again later."""
        self._core.reject(message)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Give the program no more of these queues until `resume`; what it has, it keeps."""
        self._core.pause(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """End a pause."""
        self._core.resume(queues)

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Messages, until the consumer stops; each is settled when the next is asked for."""
        return _Loop(self._core.messages())


class _Loop:
    """One `async for`."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        return self

    async def __anext__(self) -> ReceivedMessage:
        message = await deferred(self._messages.next())
        if message is None:
            raise StopAsyncIteration
        return message

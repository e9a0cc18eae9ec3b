"""Consumers for Twisted programs: the logic of `clientcore.consumer`, with Deferreds.

    consumer = cluster.consumer("billing", {"Orders": "paid || refunded"})
    await consumer.start()
    async for message in consumer:      # settled when the next one is asked for
        ...

or, by callback, `cluster.consumer("billing", {"Orders": "*"}, on_messages=handle, batch=32)`: `handle` gets a
list of one queue's messages, in order, and returns None, a Deferred or a coroutine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from hatwisted.client.driver import deferred
from hatwisted.client.faces import returning_deferred
from hatwisted.clientcore import consumer
from hatwisted.clientcore.consumerstate import ConsumerState
from hatwisted.clientcore.message import ReceivedMessage
from hatwisted.clientcore.messagestream import Messages


class Consumer(ConsumerState):
    """Made by `Cluster.consumer`. Methods that wait return Deferreds, which `await` takes as well."""

    start = returning_deferred(consumer.Consumer.start)
    stop = returning_deferred(consumer.Consumer.stop)
    commit = returning_deferred(consumer.Consumer.commit)
    seek = returning_deferred(consumer.Consumer.seek)
    next_message = returning_deferred(consumer.Consumer.next_message)

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

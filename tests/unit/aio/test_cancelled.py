"""Who waits for a message on asyncio, and is cancelled in the very turn in which it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import cast

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.aio.members import Consumer
from hatwisted.clientcore import consumer
from hatwisted.clientcore.message import ReceivedMessage
from hatwisted.clientcore.messagestream import Messages, MessageStream
from hatwisted.wire.messagequeue import MessageQueue

FIRST = ReceivedMessage(
    topic="T",
    queue=MessageQueue(topic="T", broker_name="b", queue_id=0),
    queue_offset=0,
    body=b"",
    properties={},
    message_id="1",
    offset_id="1",
    commit_log_offset=0,
    store_host="h:1",
    born_timestamp=0,
    store_timestamp=0,
    reconsume_times=0,
    flag=0,
    sys_flag=0,
    size=1,
)
SECOND = replace(FIRST, queue_offset=1)


class Core:
    """A consumer's logic without a cluster: messages come when the test says so."""

    next_message = consumer.Consumer.next_message

    def __init__(self) -> None:
        self._stream = MessageStream()
        self.settle = self._stream.settle

    def messages(self) -> Messages:
        return Messages(self._stream)


class CancelledTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.core = Core()
        self.consumer = Consumer(cast(consumer.Consumer, self.core))

    def run_test(self, story: Callable[[], Awaitable[None]]) -> None:
        async def whole() -> None:
            await story()

        asyncio.run(whole())

    async def cancelled_at_the_first(self, waiting: Awaitable[object], *, later: bool = False) -> None:
        """Somebody waits; the message comes, and a timeout or a shutdown cancels him before he is woken. later: it
        comes when he is cancelled, and hasn't heard of it yet."""
        task = asyncio.ensure_future(waiting)
        await asyncio.sleep(0)
        if later:
            task.cancel()
        self.done = self.core._stream.offer([FIRST])
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        self.assertIsInstance(ended, asyncio.CancelledError)

    def test_the_message_is_the_next_ones(self) -> None:
        async def story(later: bool) -> None:
            await self.cancelled_at_the_first(self.consumer.next_message(), later=later)
            self.core._stream.offer([SECOND])
            for message in (FIRST, SECOND):
                self.assertIs(await self.consumer.next_message(), message)
            self.consumer.settle(FIRST)
            self.assertTrue(self.done.done)

        for later in (False, True):
            self.run_test(partial(story, later))

    def test_it_is_the_next_loops_and_settled_by_it(self) -> None:
        async def story() -> None:
            await self.cancelled_at_the_first(anext(aiter(self.consumer)))
            self.core._stream.offer([SECOND])
            seen = []
            async for message in self.consumer:
                self.assertEqual(self.done.done, bool(seen))
                seen.append(message)
                if message is SECOND:
                    break
            self.assertEqual(seen, [FIRST, SECOND])

        self.run_test(story)

    def test_who_is_cancelled_before_takes_nothing(self) -> None:
        async def story() -> None:
            task = asyncio.ensure_future(self.consumer.next_message())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.core._stream.offer([FIRST])
            self.assertIs(await self.consumer.next_message(), FIRST)

        self.run_test(story)

"""Messages to the program, and what happens when it fails.

A failing batch is halved, and its halves delivered one after the other, until the bad message stands alone:
only that one goes back to the broker (36) for a later try, and to the dead letters after the sixteenth. The
good ones beside it are delivered again, at most once for each halving.

If the broker that has the message can't take it back, a copy goes to any other that has the retry topic, as
RocketMQ's clients do; if nobody takes it, it's tried again until somebody does: a message is never dropped
because it failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from hatwisted.client.errors import ClientError, NoRoute
from hatwisted.client.message import (
    DLQ_PREFIX,
    PROPERTY_ORIGIN_ID,
    PROPERTY_RETRY_TOPIC,
    RETRY_PREFIX,
    Message,
    ReceivedMessage,
)
from hatwisted.remoting.client import CallFailed
from hatwisted.wire import layout
from hatwisted.wire.codes import RequestCode

if TYPE_CHECKING:
    from hatwisted.client.cluster import Cluster

MAX_RECONSUME: Final = 16
"""Failures after which a message is a dead letter (4.9.7: 16)."""
FIRST_DELAY_LEVEL: Final = 3
"""Of the first retry; each further one waits a level longer."""
GIVE_BACK_PAUSE: Final = 5.0
"""Seconds until a message that nobody took back is offered again."""

Listener = Callable[[Sequence[ReceivedMessage]], Any]
"""Takes a batch; whatever it raises, or its Deferred or coroutine fails with, means "not consumed"."""


class Rejected(ClientError):
    """The program doesn't want this message now."""


async def deliver(
    batch: Sequence[ReceivedMessage], listener: Listener, failed: Callable[[ReceivedMessage, Exception], Any]
) -> None:
    """Give `batch` to `listener`, halved as long as it fails; `failed` gets what failed alone."""
    try:
        outcome = listener(batch)
        if hasattr(outcome, "__await__"):
            await (outcome if isinstance(outcome, Deferred) else ensureDeferred(outcome))
    except Exception as error:
        if len(batch) == 1:
            given = failed(batch[0], error)
            if hasattr(given, "__await__"):
                await given
            return
        middle = len(batch) // 2
        await deliver(batch[:middle], listener, failed)
        await deliver(batch[middle:], listener, failed)


class GiveBack:
    """Failed messages back to the brokers. max_reconsume: failures until a dead letter."""

    _log = Logger(namespace="hatwisted.client")

    def __init__(self, cluster: Cluster, group: str, max_reconsume: int = MAX_RECONSUME) -> None:
        self._cluster = cluster
        self._group = group
        self._max = max_reconsume
        self.stopped = False

    async def give_back(self, message: ReceivedMessage, error: Exception) -> None:
        """Returns when a broker has taken it. ClientError if the consumer stops before one does."""
        self._log.info(
            "message {id} of {topic} failed ({error!r}) and is given back",
            id=message.message_id,
            topic=message.topic,
            error=error,
        )
        while not self.stopped:
            try:
                await self._send_back(message)
                return
            except (CallFailed, ClientError) as first:
                try:
                    await self._send_copy(message)
                    return
                except (CallFailed, ClientError) as second:
                    self._log.warn(
                        "{id} can't be given back: {a}; {b}", id=message.message_id, a=first, b=second
                    )
            await deferLater(self._cluster.clock, GIVE_BACK_PAUSE)
        raise ClientError(f"message {message.message_id} wasn't given back before the stop")

    async def _send_back(self, message: ReceivedMessage) -> None:
        address = self._cluster.routes.master(message.queue.topic, message.queue.broker_name)
        if address is None:
            raise NoRoute(message.queue.topic, f"{message.queue.broker_name} has no master now")
        fields: dict[str, object] = {
            "offset": message.commit_log_offset,
            "group": self._group,
            "delayLevel": 0,
            "originMsgId": message.message_id,
            "originTopic": message.topic,
            "unitMode": False,
            "maxReconsumeTimes": self._max,
        }
        await self._cluster.ask(address, RequestCode.CONSUMER_SEND_MSG_BACK, fields)

    async def _send_copy(self, message: ReceivedMessage) -> None:
        dead = message.reconsume_times >= self._max
        own = dict(message.properties)
        for name in (layout.PROPERTY_DELAY, layout.PROPERTY_WAIT, layout.PROPERTY_UNIQ_KEY):
            own.pop(name, None)
        own.setdefault(PROPERTY_RETRY_TOPIC, message.topic)
        own.setdefault(PROPERTY_ORIGIN_ID, message.offset_id)
        copy = Message(
            topic=(DLQ_PREFIX if dead else RETRY_PREFIX) + self._group,
            body=message.body,
            flag=message.flag,
            delay_level=0 if dead else FIRST_DELAY_LEVEL + message.reconsume_times,
            properties=own,
        )
        await self._cluster.inner_producer().send_retry(
            copy, message.message_id, message.reconsume_times + 1, self._max
        )

"""CONSUMER_SEND_MSG_BACK: messages that failed, back to the brokers: for a later try, or among the dead letters.

The broker that has the message takes it back by its offset (36). If it can't, a copy goes to any other that has
the group's retry topic, as RocketMQ's clients do; if no broker accepts it, it's retried until one does: a
message is never dropped because it failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hatwisted.clientcore.driver import Log
from hatwisted.clientcore.errors import ClientError, NoRoute, Rejected, UnreadableBody
from hatwisted.clientcore.message import Message, ReceivedMessage
from hatwisted.clientcore.producer import Producer
from hatwisted.clientcore.session import Session
from hatwisted.clientcore.tasks import Timer, Waiter
from hatwisted.wire import layout
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.layout import PROPERTY_ORIGIN_ID, PROPERTY_RETRY_TOPIC
from hatwisted.wire.topics import RETRY_PREFIX

MAX_RECONSUME: Final = 16
"""Failures after which a message is a dead letter (4.9.7: 16)."""
FIRST_DELAY_LEVEL: Final = 3
"""Of the first retry; each further one waits a level longer."""
LAST_DELAY_LEVEL: Final = 18
SEND_BACK_PAUSE: Final = 5.0
"""Seconds until a message that no broker took back is offered again."""


class SendBack:
    """Gives a group's failed messages back.

    - session: asks the brokers
    - group: whose
    - copies: gives the producer for copies, where a broker is gone
    - max_reconsume: failures until a dead letter
    """

    def __init__(
        self, session: Session, group: str, copies: Callable[[], Producer], max_reconsume: int = MAX_RECONSUME
    ) -> None:
        self._session = session
        self._group = group
        self._copies = copies
        self._max = max_reconsume
        self._log = session.log
        self._stopped = False
        self._pauses: dict[Waiter[None], Timer] = {}

    async def send_back(self, message: ReceivedMessage, error: Exception) -> None:
        """Returns when a broker has taken it. ClientError if the consumer stops before one does."""
        log_failed(self._log, message, error, "is sent back")
        while not self._stopped:
            try:
                await self._send_back(message)
                return
            except ClientError as first:
                try:
                    await self.send_copy(message)
                    return
                except ClientError as second:
                    self._log.warn(
                        "{id} can't be sent back: {a}; {b}", id=message.message_id, a=first, b=second
                    )
            await self._pause()
        raise ClientError(f"message {message.message_id} wasn't sent back before the consumer stopped")

    def stop(self) -> None:
        """The consumer stops: what isn't taken back now is left to its queue's next reader."""
        self._stopped = True
        for over, timer in list(self._pauses.items()):
            timer.cancel()
            over.fire(None)

    async def _pause(self) -> None:
        """SEND_BACK_PAUSE, or until the stop."""
        if self._stopped:
            return
        over: Waiter[None] = Waiter(lambda: timer.cancel())
        timer = self._session.driver.call_later(SEND_BACK_PAUSE, lambda: over.fire(None))
        self._pauses[over] = timer
        try:
            await over
        finally:
            del self._pauses[over]

    async def _send_back(self, message: ReceivedMessage) -> None:
        address = self._session.routes.master(message.queue.topic, message.queue.broker_name)
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
        await self._session.ask(address, RequestCode.CONSUMER_SEND_MSG_BACK, fields)

    async def send_copy(self, message: ReceivedMessage) -> None:
        """A copy for a later try; with as many failures as are allowed, the broker makes it a dead letter.
        UnreadableBody for one that can't be read: nor could its copy."""
        if message.unreadable is not None:
            raise UnreadableBody(message.unreadable)
        own = dict(message.properties)
        for name in (layout.PROPERTY_DELAY, layout.PROPERTY_WAIT, layout.PROPERTY_UNIQ_KEY):
            own.pop(name, None)
        own.setdefault(PROPERTY_RETRY_TOPIC, message.topic)
        own.setdefault(PROPERTY_ORIGIN_ID, message.offset_id)
        copy = Message(
            topic=RETRY_PREFIX + self._group,
            body=message.body,
            flag=message.flag,
            delay_level=min(FIRST_DELAY_LEVEL + message.reconsume_times, LAST_DELAY_LEVEL),
            properties=own,
        )
        times = message.reconsume_times + 1
        await self._copies().send_retry(copy, message.message_id, times, self._max)


def log_failed(log: Log, message: ReceivedMessage, error: Exception, what: str) -> None:
    """The program failed on a message: its traceback at error. A rejected one is the program's decision.

    - log: the client's
    - message: which
    - error: what the program raised
    - what: becomes of the message, in words
    """
    if isinstance(error, Rejected):
        log.info("message {id} of {queue} {what}", id=message.message_id, queue=message.queue, what=what)
        return
    fields: dict[str, object] = {
        "id": message.message_id,
        "queue": message.queue,
        "at": message.queue_offset,
        "what": what,
    }
    if isinstance(error, UnreadableBody):  # no program has had it
        log.error("message {id} of {queue}, offset {at}: {error}; it {what}", error=error, **fields)
        return
    text = "message {id} of {queue}, offset {at}: the program failed on it; it {what}"
    log.exception(text, error, **fields)

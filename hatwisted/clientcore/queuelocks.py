"""LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42: this member's locks at the brokers, for consumption in order.

A broker gives a queue of a group to one client; the lock lapses there 60 s after it was last renewed. Here it
counts for half of that, from the moment it was asked for, so no member works on a lock that a broker has
passed on. Locks live at masters: while one is gone, its queues wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hatwisted.clientcore.answers import LockedQueues, decoded
from hatwisted.clientcore.errors import ClientError, NoRoute
from hatwisted.clientcore.session import Session
from hatwisted.clientcore.tasks import gather
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.messagequeue import MessageQueue

LOCK_LIFE: Final = 30.0
"""Seconds that a lock counts without being renewed (4.9.7: 30 s; brokers keep it for 60 s)."""
RENEWAL_INTERVAL: Final = 20.0
"""Seconds (4.9.7: 20 s)."""


class QueueLocks:
    """The locks of one group's member."""

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group
        self._locked: dict[MessageQueue, float] = {}

    def held(self, queue: MessageQueue) -> bool:
        """May its messages be consumed now?"""
        locked = self._locked.get(queue)
        return locked is not None and self._session.driver.seconds() - locked < LOCK_LIFE

    def locked_at(self, queue: MessageQueue) -> float | None:
        """When it was last renewed (the clock's seconds)."""
        return self._locked.get(queue)

    async def lock(self, queues: Iterable[MessageQueue]) -> tuple[list[MessageQueue], list[MessageQueue]]:
        """Lock or renew: (ours, another member's), each in order. What is in neither, its broker couldn't be asked
        about."""
        answers = await gather(self._lock(name, part) for name, part in _by_broker(queues).items())
        ours = [queue for granted, _ in answers for queue in granted]
        return ours, [queue for _, refused in answers for queue in refused]

    async def _lock(
        self, broker_name: str, queues: list[MessageQueue]
    ) -> tuple[list[MessageQueue], list[MessageQueue]]:
        now = self._session.driver.seconds()
        try:
            address = self._master(broker_name, queues)
            answer = await self._session.ask(address, RequestCode.LOCK_BATCH_MQ, body=self._body(queues))
            granted = set(decoded(address, answer, LockedQueues).queues or [])
        except ClientError as error:
            self._session.log.info(
                "queues of {broker} can't be locked: {error}", broker=broker_name, error=error
            )
            return [], []
        ours = [queue for queue in queues if queue in granted]
        others = [queue for queue in queues if queue not in granted]
        for queue in others:
            self._locked.pop(queue, None)
        self._locked |= dict.fromkeys(ours, now)
        return ours, others

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Release locks; at a broker that can't be reached they lapse."""
        mine = [queue for queue in queues if self._locked.pop(queue, None) is not None]
        await gather(self._unlock(name, part) for name, part in _by_broker(mine).items())

    async def _unlock(self, broker_name: str, queues: list[MessageQueue]) -> None:
        try:
            address = self._master(broker_name, queues)
            await self._session.ask(address, RequestCode.UNLOCK_BATCH_MQ, body=self._body(queues))
        except ClientError as error:
            self._session.log.info(
                "queues of {broker} couldn't be unlocked: {error}", broker=broker_name, error=error
            )

    def _master(self, broker_name: str, queues: Iterable[MessageQueue]) -> str:
        topics = sorted({queue.topic for queue in queues})
        for topic in topics:
            address = self._session.routes.master(topic, broker_name)
            if address is not None:
                return address
        raise NoRoute(", ".join(topics), f"{broker_name} has no master now")

    def _body(self, queues: list[MessageQueue]) -> bytes:
        return fastjson.dumps_compact(
            {"clientId": self._session.client_id, "consumerGroup": self._group, "mqSet": queues}
        )


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = {}
    for queue in sorted(queues):
        found.setdefault(queue.broker_name, []).append(queue)
    return found

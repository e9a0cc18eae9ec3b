"""LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42: who may consume a queue in order.

A consumer of ordered messages locks its queues at the broker and renews the locks every 20 s; a lock that isn't
renewed lapses after LOCK_LIFE, so that the queues of a dead client go on. Within its group a queue belongs to
one client id. Locks live in memory, per broker: after a restart the next renewals take them again, and
RocketMQ does no more (`onlyThisBroker`, with which 5.x brokers ask each other, is how we always work).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.broker.namesizes import name_bytes
from hatwisted.broker.requests import BadClientData, answer_bad_requests
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.messagequeue import MessageQueue, parse_queue
from hatwisted.wire.remoting import RemotingCommand

LOCK_LIFE = 60.0
"""Seconds after its last renewal that a lock lapses (rocketmq.broker.rebalance.lockMaxLiveTime)."""

SWEEP_INTERVAL = 60.0
"""Seconds between looks for lapsed locks: they free nothing but memory."""

MAX_QUEUES_PER_REQUEST = 20_000
"""Queues one request may name: all that a client may subscribe to, and more than one broker has."""

MAX_LOCKS = 1_000_000
"""Locks held at a time, some 200 bytes each. Beyond, no new ones are given: the client asks again in 20 s."""

MAX_LOCK_BYTES = 32 << 20
"""What locks take in memory, about: 100,000 of names as they are usual, each a queue that is consumed in order."""

_LOCK = 250
"""Bytes of a lock besides its names."""

MAX_NAME = 1024
"""Characters of a group's, client's, topic's or broker's name in a lock: real ones have up to 255."""

_Key = tuple[str, MessageQueue]
"""Group and queue."""


class QueueLocks:
    """All locks. Values are the holder's client id and when it last said so (the clock's seconds)."""

    _log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._locks: dict[_Key, tuple[str, float]] = {}
        self._bytes = 0
        """As they count against MAX_LOCK_BYTES."""
        self._sweeper = PeriodicCall(clock, "forgetting lapsed locks", self.sweep)

    def __len__(self) -> int:
        return len(self._locks)

    def start(self) -> None:
        """Start forgetting lapsed locks."""
        self._sweeper.start(SWEEP_INTERVAL)

    def stop(self) -> None:
        """Stop that."""
        self._sweeper.stop()

    def lock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        """Lock or renew; returns the queues that are the client's now.

        - group: that consumes in order
        - queues: to be locked
        - client_id: of the member that asks
        """
        return [queue for queue in dict.fromkeys(queues) if self._lock((group, queue), client_id)]

    def _lock(self, key: _Key, client_id: str) -> bool:
        now = self._clock.seconds()
        held = self._locks.get(key)
        if held is None:
            size = _size(key, client_id)
            if len(self._locks) >= MAX_LOCKS or self._bytes + size > MAX_LOCK_BYTES:
                return False
            self._bytes += size
        elif held[0] != client_id:
            if now - held[1] <= LOCK_LIFE:
                return False
            self._log.warn(
                "the lock of {old} on {key} has lapsed, {new} takes it", old=held[0], key=key, new=client_id
            )
            self._bytes += _size(key, client_id) - _size(key, held[0])
        self._locks[key] = (client_id, now)
        return True

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Give back; queues that another member holds, or none, are left as they are.

        - group: that consumes in order
        - queues: to be given back
        - client_id: of the member that asks
        """
        for queue in queues:
            held = self._locks.get((group, queue))
            if held is not None and held[0] == client_id:
                self._forget((group, queue))

    def sweep(self) -> None:
        """Forget locks that have lapsed."""
        limit = self._clock.seconds() - LOCK_LIFE
        for key in [key for key, (_, renewed) in self._locks.items() if renewed < limit]:
            self._forget(key)

    def _forget(self, key: _Key) -> None:
        client_id, _ = self._locks.pop(key)
        self._bytes -= _size(key, client_id)


class QueueLockProcessors:
    """Answers 41 and 42."""

    def __init__(self, locks: QueueLocks) -> None:
        self._locks = locks

    def register_on(self, table: ProcessorTable) -> None:
        table.register(RequestCode.LOCK_BATCH_MQ, answer_bad_requests(self.lock))
        table.register(RequestCode.UNLOCK_BATCH_MQ, answer_bad_requests(self.unlock))

    def lock(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        locked = self._locks.lock(*_parse(request.body))
        return response(request, body=fastjson.dumps_compact({"lockOKMQSet": locked}))

    def unlock(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        self._locks.unlock(*_parse(request.body))
        return response(request)


def _parse(body: bytes) -> tuple[str, list[MessageQueue], str]:
    """Group, queues and client id of either request. Raises BadClientData or FastjsonError."""
    content = fastjson.loads_request(body)
    if not isinstance(content, Mapping):
        raise BadClientData("the body of a lock request is not an object")
    group, client_id, queues = (content.get(name) for name in ("consumerGroup", "clientId", "mqSet"))
    if not isinstance(group, str) or not isinstance(client_id, str):
        raise BadClientData("a lock request needs consumerGroup and clientId")
    if queues is not None and not isinstance(queues, list):
        raise BadClientData("mqSet is not a list")
    queues = queues or []
    if len(queues) > MAX_QUEUES_PER_REQUEST:
        raise BadClientData(f"{len(queues)} queues in one lock request, {MAX_QUEUES_PER_REQUEST} are allowed")
    try:
        parsed = [parse_queue(queue) for queue in queues]
    except ValueError as error:
        raise BadClientData(str(error)) from None
    names = (group, client_id, *(name for queue in parsed for name in (queue.topic, queue.broker_name)))
    if any(len(name) > MAX_NAME for name in names):
        raise BadClientData(f"a name of more than {MAX_NAME} characters in a lock request")
    return group, parsed, client_id


def _size(key: _Key, client_id: str) -> int:
    group, queue = key
    names = group, queue.topic, queue.broker_name, client_id
    return _LOCK + sum(map(name_bytes, names))

"""Messages that the broker itself puts: delayed ones that are due, what consumers send back, the records of
transactions.

They go the way of every put: through the store's one append and PutAcks, and each waits for disk and slave as the
broker's mode says, because the original is forgotten once the copy is settled. What can't be encoded or isn't
taken at present comes back as a put refused, so that a caller has one place to look: the status.

Rejected: a Deferred that fails for a refusal. Of a hundred messages put together some may be stored and
others not, and what becomes of a refused one (tried again later, answered to a client) is decided by its status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from twisted.internet.defer import Deferred

from hatwisted.broker.put.putack import PutAcks
from hatwisted.store.log.put import Put, PutStatus
from hatwisted.store.messagestore import MessageStore
from hatwisted.wire import layout
from hatwisted.wire.properties import encode_properties

STOPPING = "the broker is shutting down"
"""Remark on puts that come after an orderly stop has begun."""

_IPV6_SIZE = 20
"""Bytes of a host field that holds an IPv6 address and a port."""


class InnerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message to put.

    properties: by name, or as raw bytes of another record; born_timestamp: ms; born_host: 8 or 20 bytes,
    None for the broker's own.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: Mapping[str, str] | bytes
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int
    born_host: bytes | None = None
    reconsume_times: int = 0
    prepared_offset: int = 0


_InnerPut = Put["Deferred[Put] | None"]
"""Carries the Deferred that waits for it."""


class InnerPuts:
    """Puts of a master's own.

    - store: where they go
    - acks: settles them as clients' puts
    - store_host: 8 or 20 bytes, born host of what was born here
    """

    def __init__(self, store: MessageStore, acks: PutAcks, store_host: bytes) -> None:
        self._store = store
        self._acks = acks
        self._store_host = store_host

    def lacks_slave(self) -> bool:
        """Would a put be settled as SLAVE_NOT_AVAILABLE now?"""
        return self._acks.lacks_slave(self._store.log.max_offset)

    def put(self, message: InnerMessage) -> Deferred[Put]:
        """Append one message; fires with the settled put, never fails."""
        return self.many([message])[0]

    def many(self, messages: Sequence[InnerMessage]) -> list[Deferred[Put]]:
        """Append all of `messages` in one go, in order; each Deferred fires with its own settled put, never
        fails. A put that is refused doesn't keep the others from being stored."""
        puts = [self._put(message) for message in messages]
        settling = [put.token for put in puts if put.token is not None]
        self._refuse(puts)
        able = [put for put in puts if put.status is None]
        if able:
            self._store.append(able)
        self._acks.settle(puts, self._settled)
        return settling

    def _put(self, message: InnerMessage) -> _InnerPut:
        born_host = self._store_host if message.born_host is None else message.born_host
        sys_flag = message.sys_flag & ~layout.SYS_BORN_HOST_V6
        if len(born_host) == _IPV6_SIZE:
            sys_flag |= layout.SYS_BORN_HOST_V6
        put: _InnerPut = Put(
            message.topic,
            message.queue_id,
            (),
            born_host,
            message.born_timestamp,
            sys_flag,
            message.reconsume_times,
            message.prepared_offset,
            token=Deferred(),
        )
        properties = message.properties
        if not isinstance(properties, bytes):
            try:
                properties = encode_properties(properties)
            except ValueError as error:
                put.refuse(PutStatus.MESSAGE_ILLEGAL, str(error))
                return put
        put.entries = ((message.flag, message.body, properties),)
        return put

    def _refuse(self, puts: Sequence[Put]) -> None:
        """Settle what isn't taken now: by a store that takes nothing, or while no put can wait."""
        reason = self._store.refusal()
        if reason is None and (no_waiting := self._acks.refusal()) is not None:
            reason = no_waiting.remark
        if reason is not None:
            for put in puts:
                if put.status is None:
                    put.refuse(PutStatus.SERVICE_NOT_AVAILABLE, reason)

    def _settled(self, puts: Sequence[_InnerPut]) -> None:
        self._store.stats.count_puts(puts)
        for put in puts:
            put.entries = ()
            # A put must not refer to itself through its token: the Deferred keeps its result.
            settling, put.token = put.token, None
            assert settling is not None
            settling.callback(put)

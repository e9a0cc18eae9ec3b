"""Messages that count only once the program's own work is done.

A half message is stored where no consumer sees it; then the program does its work and says commit or rollback
(37, oneway). If that word is lost, or the program said UNKNOWN, the broker asks any producer of the group (39),
which is why a producer of transactions is given a `check` at birth.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred

from hatwisted.client.command import command
from hatwisted.client.message import Message, ReceivedMessage, decode_records, received
from hatwisted.client.producer import Producer
from hatwisted.client.sending import SendResult, SendStatus
from hatwisted.client.session import Session
from hatwisted.remoting.client import CallFailed
from hatwisted.wire import layout
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.messageid import decode_message_id
from hatwisted.wire.remoting import RemotingCommand


class TransactionState(Enum):
    """What became of the program's own work. UNKNOWN: ask again later."""

    COMMIT = layout.SYS_TRANSACTION_COMMIT
    ROLLBACK = layout.SYS_TRANSACTION_ROLLBACK
    UNKNOWN = layout.SYS_TRANSACTION_NONE


LocalWork = Callable[[Message], Any]
"""Does the program's part; gives a TransactionState, a Deferred or a coroutine of one."""
Check = Callable[[ReceivedMessage], Any]
"""Looks up what became of an earlier message; gives the same."""


class TransactionProducer(Producer):
    """Made by `Cluster.transaction_producer`. check: answers the brokers' questions about undecided messages."""

    def __init__(self, session: Session, group: str, check: Check, **options: Any) -> None:
        super().__init__(session, group, **options)
        self._check = check

    def send_in_transaction(
        self, message: Message, work: LocalWork
    ) -> Deferred[tuple[SendResult, TransactionState]]:
        """Store `message` unseen, do `work`, then commit or roll back by its result.

        Work that raises leaves the message undecided (the broker will ask `check`) and its error comes
        through. A half message stored with less than was wished for is rolled back without doing the work.
        """
        return Deferred.fromCoroutine(self._transact(message, work))

    async def _transact(self, message: Message, work: LocalWork) -> tuple[SendResult, TransactionState]:
        extra = {layout.PROPERTY_TRANSACTION: "true", layout.PROPERTY_PRODUCER_GROUP: self.group}
        (result,) = await self.deliver(self.outgoing(message, extra).in_transaction())
        state = TransactionState.ROLLBACK
        if result.status is SendStatus.OK:
            state = await _settled(work, message)
        if state is not TransactionState.UNKNOWN:
            _, offset = decode_message_id(result.offset_id)
            self._end(
                result.address,
                {
                    "tranStateTableOffset": result.queue_offset,
                    "commitLogOffset": offset,
                    "msgId": result.message_id,
                    "transactionId": result.message_id,
                    "topic": message.topic,
                },
                state,
            )
        return result, state

    def _end(self, address: str, fields: dict[str, object], state: TransactionState) -> None:
        ext = {"producerGroup": self.group, "commitOrRollback": state.value, **fields}
        try:
            self._session.remoting.oneway(address, command(RequestCode.END_TRANSACTION, ext))
        except CallFailed as error:
            # The work is done either way; the broker will ask.
            self._log.warn("{state} not told: {error}", state=state.name, error=error)

    def asked(self, address: str, request: RemotingCommand) -> RemotingCommand | None:
        """39: is it about a message of this group?"""
        try:
            (record,) = decode_records(request.body)
        except ValueError as error:
            self._log.warn("{address} asks about no message: {error}", address=address, error=error)
            return None
        if record.properties.get(layout.PROPERTY_PRODUCER_GROUP) == self.group:
            message = received(record, "")
            self._session.in_background(self._answer(address, request, message), "check of a transaction")
        return None

    async def _answer(self, address: str, request: RemotingCommand, message: ReceivedMessage) -> None:
        state = await _settled(self._check, message)
        asked = request.ext
        fields: dict[str, object] = {
            "tranStateTableOffset": asked.get("tranStateTableOffset"),
            "commitLogOffset": asked.get("commitLogOffset"),
            "fromTransactionCheck": True,
            "msgId": message.message_id,
            "transactionId": asked.get("transactionId"),
            "topic": message.topic,
        }
        self._end(address, fields, state)


async def _settled(work: Callable[[Any], Any], argument: Any) -> TransactionState:
    """The state that a function, a Deferred or a coroutine gives. TypeError for anything else."""
    state = work(argument)
    if hasattr(state, "__await__"):
        state = await (state if isinstance(state, Deferred) else ensureDeferred(state))
    if not isinstance(state, TransactionState):
        raise TypeError(f"a TransactionState was due, not {state!r}")
    return state

"""Messages that count only once the program's own work is done.

A half message is stored where no consumer sees it; then the program does its work and says commit or rollback
(37, oneway). If that word is lost, or the program said UNKNOWN, the broker asks any producer of the group (39),
which is why a producer of transactions is given a `check` when it is made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TypeVar

from hatwisted.clientcore.command import command
from hatwisted.clientcore.errors import BadAnswer, BadTransactionState, CallFailed, ClientError
from hatwisted.clientcore.message import Message, ReceivedMessage, decode_records, received
from hatwisted.clientcore.options import ProducerOptions
from hatwisted.clientcore.producer import Producer
from hatwisted.clientcore.sending import SendResult, SendStatus
from hatwisted.clientcore.session import Session
from hatwisted.wire import layout
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.messageid import BadMessageId, decode_message_id
from hatwisted.wire.remoting import RemotingCommand

T = TypeVar("T")


class TransactionState(Enum):
    """What became of the program's own work. UNKNOWN: ask again later."""

    COMMIT = layout.SYS_TRANSACTION_COMMIT
    ROLLBACK = layout.SYS_TRANSACTION_ROLLBACK
    UNKNOWN = layout.SYS_TRANSACTION_NONE


LocalWork = Callable[[Message], TransactionState | Awaitable[TransactionState]]
"""Does the program's part; gives a TransactionState, or what its loop can wait for of one."""
Check = Callable[[ReceivedMessage], TransactionState | Awaitable[TransactionState]]
"""Looks up what became of an earlier message; gives the same."""


class TransactionProducer(Producer):
    """A group's producer of transactions.

    - session: its identity among the brokers
    - group: which
    - check: answers the brokers' questions about undecided messages
    - options: how it sends
    """

    def __init__(self, session: Session, group: str, check: Check, options: ProducerOptions) -> None:
        super().__init__(session, group, options)
        self._check = check

    async def send_in_transaction(
        self, message: Message, work: LocalWork
    ) -> tuple[SendResult, TransactionState]:
        """Store `message` unseen, do `work`, then commit or roll back by its result.

        Work that raises leaves the message undecided (the broker will ask `check`) and its error comes
        through. A half message stored with less than was asked for is rolled back without doing the work.
        BadAnswer, before the work, if the broker doesn't say where it has stored the message.
        """
        extra = {layout.PROPERTY_TRANSACTION: "true", layout.PROPERTY_PRODUCER_GROUP: self.group}
        (result,) = await self.deliver(self.outgoing(message, extra).in_transaction())
        offset = _commit_log_offset(result)
        state = TransactionState.ROLLBACK
        if result.status is SendStatus.OK:
            state = await self._state(work, message)
        if state is not TransactionState.UNKNOWN:
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
            self._driver.oneway(address, command(RequestCode.END_TRANSACTION, ext))
        except CallFailed as error:
            # The work is done either way; the broker will ask.
            self._session.log.warn("{state} couldn't be reported: {error}", state=state.name, error=error)

    def on_request(self, address: str, request: RemotingCommand) -> RemotingCommand | None:
        """39: is it about a message of this group?"""
        try:
            (record,) = decode_records(request.body)
            message = received(record, "")
        except (ClientError, ValueError) as error:
            self._session.log.warn(
                "{address}: unreadable transaction check: {error}", address=address, error=error
            )
            return None
        if record.properties.get(layout.PROPERTY_PRODUCER_GROUP) == self.group:
            self._session.in_background(self._answer(address, request, message), "checking a transaction")
        return None

    async def _answer(self, address: str, request: RemotingCommand, message: ReceivedMessage) -> None:
        state = await self._state(self._check, message)
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

    async def _state(
        self, work: Callable[[T], TransactionState | Awaitable[TransactionState]], argument: T
    ) -> TransactionState:
        """What the program's own code says, now or later."""
        state = work(argument)
        if not isinstance(state, TransactionState) and hasattr(state, "__await__"):
            state = await self._driver.adopt(state)
        if not isinstance(state, TransactionState):
            raise BadTransactionState(f"expected a TransactionState, not {state!r}")
        return state


def _commit_log_offset(result: SendResult) -> int:
    try:
        _, offset = decode_message_id(result.offset_id)
    except BadMessageId as error:
        raise BadAnswer(f"{result.address}: its answer to a send: {error}") from None
    return offset

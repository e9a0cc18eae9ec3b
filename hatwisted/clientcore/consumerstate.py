"""What a program gets from its consumer, and reports to it, without waiting: the same on every loop."""

from __future__ import annotations

from collections.abc import Iterable

from hatwisted.clientcore import consumer
from hatwisted.clientcore.errors import Refused
from hatwisted.clientcore.message import ReceivedMessage
from hatwisted.wire.messagequeue import MessageQueue


class ConsumerState:
    """The part of a loop's Consumer that needs no loop."""

    def __init__(self, core: consumer.Consumer) -> None:
        self._core = core

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
    def refusal(self) -> Refused | None:
        """Why nothing comes: no broker lets the group in, for good. None if one does, or none has answered yet."""
        return self._core.refusal

    @property
    def uncommitted(self) -> int:
        """Queues whose progress isn't committed yet; after a stop, some of their messages are delivered again."""
        return self._core.uncommitted

    def settle(self, message: ReceivedMessage) -> None:
        """Settle `message`, which `async for` or `next_message` gave: it is consumed."""
        self._core.settle(message)

    def reject(self, message: ReceivedMessage) -> None:
        """Reject `message`, which `async for` or `next_message` gave: it is delivered again later."""
        self._core.reject(message)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Deliver nothing more of these queues until `resume`; what was delivered stays with the program."""
        self._core.pause(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """End a pause."""
        self._core.resume(queues)

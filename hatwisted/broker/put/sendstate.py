"""May clients have something stored at present?"""

from __future__ import annotations

from collections.abc import Callable

from hatwisted.broker.requests import Refusal
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.registration import PERM_WRITE


class SendState:
    """Consulted before messages are accepted from clients.

    permission: the broker's brokerPermission at present; host: its IP address, for the refusal.
    """

    def __init__(self, permission: Callable[[], int], host: str) -> None:
        self._permission = permission
        self._host = host
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """Has an orderly stop begun? Then nothing of a client is stored any more."""
        return self._stopping

    def stop(self) -> None:
        """An orderly stop begins."""
        self._stopping = True

    def forbidden(self) -> Refusal | None:
        """Does the broker as a whole forbid sending?"""
        if self._permission() & PERM_WRITE:
            return None
        remark = f"the broker[{self._host}] sending message is forbidden"
        return Refusal(ResponseCode.NO_PERMISSION, remark)

"""What a connection needs of the port that it came through; `serverfactory` has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hatwisted.remoting.partialframes import PartialFrames
from hatwisted.remoting.requestturns import RequestTurns
from hatwisted.remoting.sendwindows import SendWindows
from hatwisted.remoting.unreadanswers import UnreadAnswers

if TYPE_CHECKING:
    from hatwisted.remoting.processortable import ProcessorTable
    from hatwisted.remoting.server import RemotingConnection


class ConnectionsOfPort(Protocol):
    """The factory. rejected_total: connections closed for what they sent, or for lack of room; busy_total:
    requests answered SYSTEM_BUSY."""

    table: ProcessorTable
    partial: PartialFrames
    unread: UnreadAnswers
    turns: RequestTurns
    windows: SendWindows
    rejected_total: int
    busy_total: int

    def admit(self, connection: RemotingConnection) -> bool:
        """Count a new connection; False if there are too many."""

    def forget(self, connection: RemotingConnection) -> None:
        """The connection is gone."""

"""Descriptors of this process: a budget for connections, and who gets the last ones.

A flood of connections must not take what the store needs to open a file. So clients' connections on all ports have
together what is left beside the files and links that there may be (`connections_within`), which is told at start.
That budget isn't all: look-ups and our own calls take descriptors too. A new descriptor gets the lowest free
number, so one look at that number shows whether there is room: a newcomer that finds less than KEPT_FREE left is
closed at once, and is the only one to whom running out is an error.

Rejected: waiting for EMFILE, as Twisted does (by then there's none left for anybody).
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IAddress, IProtocol, IProtocolFactory, IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from hatwisted.ha.linklimits import MAX_LINKS, MAX_UNREPORTED
from hatwisted.store.log.openfiles import OPEN_FILE_LIMIT
from hatwisted.store.queue.queuetable import OPEN_QUEUE_FILES
from hatwisted.timing.throttle import LogThrottle, more_like_it

KEPT_FREE = 64
"""Descriptors that accepted connections leave free (a quarter of all where there are fewer than 256): for files
that the store opens, for syncs of folders, name look-ups, and calls of our own."""


def descriptor_limit() -> int:
    """The soft limit of this process."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_descriptor_limit() -> None:
    """Raise the soft limit to the hard one: a broker has thousands of queue files and clients."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_within(limit: int) -> int:
    """Connections of clients for which there's room beside the store's files and the links of slaves. limit:
    descriptors of the process."""
    queues = min(OPEN_QUEUE_FILES, limit // 4)
    others = (OPEN_FILE_LIMIT, MAX_UNREPORTED + MAX_LINKS, KEPT_FREE)
    return limit - queues - sum(min(each, limit // 8) for each in others)


def room_for_connections() -> bool:
    """May another connection be accepted?"""
    try:
        lowest_free = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    os.close(lowest_free)
    limit = descriptor_limit()
    return lowest_free < limit - min(KEPT_FREE, limit // 4)


@implementer(IProtocolFactory)
class NewcomerGuard:
    """A factory whose new connections are closed as soon as they are accepted while there's no room.

    - factory: the server's
    - clock: for the log's throttle
    - room: is there a descriptor for another one?
    """

    _log = Logger()

    def __init__(self, factory: Any, clock: IReactorTime, room: Callable[[], bool]) -> None:
        self._factory = factory
        self._room = room
        self._throttle = LogThrottle(clock)

    def doStart(self) -> None:
        """See IProtocolFactory."""
        self._factory.doStart()

    def doStop(self) -> None:
        """See IProtocolFactory."""
        self._factory.doStop()

    def buildProtocol(self, addr: IAddress) -> IProtocol | None:
        """See IProtocolFactory."""
        if self._room():
            protocol: IProtocol | None = self._factory.buildProtocol(addr)
            return protocol
        left_out = self._throttle.admit(None)
        if left_out is not None:
            self._log.warn(
                "connection from {peer} refused: of {limit} descriptors the last {kept} are reserved for "
                "files; raise "
                "the limit (ulimit -n, LimitNOFILE), or see who connects{more}",
                peer=getattr(addr, "host", addr),
                limit=descriptor_limit(),
                kept=KEPT_FREE,
                more=more_like_it(left_out),
            )
        return None

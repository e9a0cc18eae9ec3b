"""Below a RocketMQ master: a changed topic is copied when the name server hears of it, not ten seconds later.

RocketMQ's master answers no WATCH_TABLES, but it registers at once when a topic is made or changed, with the
version of its table. A name server tells anybody which version it has (QUERY_DATA_VERSION), in some hundred bytes;
so a slave of ours asks it every second, and its master for the tables only when the version is another one. A
registration that keeps failing is the rounds' business, as ever, and so are deletions, which RocketMQ's master
registers with its next regular one.

Groups of consumers aren't registered. They are copied with the topics, because what makes most of them, the first
heartbeat of a consumer, makes their retry topic as well; a change of a group's settings alone waits for the round.

Rejected: asking the master for its topics every second (all of them, each time), and taking them from the name
server (it doesn't have all their fields).
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.node.followedmaster import FollowedMaster
from hatwisted.wire.registration import DataVersion

LOOK = 1.0
"""Seconds from one answer to the next question."""

AskVersion = Callable[[str], "Deferred[DataVersion | None]"]
"""The version of the topics of the master at "host:port", as a name server has it; None if it has none.
Doesn't fail, and doesn't take long."""


def no_name_server(_master: str) -> Deferred[DataVersion | None]:
    """Of a group without any."""
    return succeed(None)


class TopicVersions:
    """Follows one master at a time.

    - clock: its timer
    - ask: asks a name server
    - have: the version that we have
    - copy: takes the master's topics and groups over; doesn't fail
    """

    def __init__(
        self,
        clock: IReactorTime,
        ask: AskVersion,
        have: Callable[[], DataVersion],
        copy: Callable[[], Deferred[None]],
    ) -> None:
        self._ask_version = ask
        self._have = have
        self._copy = copy
        self._copied: DataVersion | None = None
        """The version that the last copy was made for: a name server may be behind the master."""
        self._asked = FollowedMaster(
            clock, "asking for the version of the master's topics", self._ask, LOOK, LOOK
        )

    def follow(self, master: str | None) -> None:
        """Follow the broker at `master` ("host:port"), one of RocketMQ's; None: nobody."""
        if self._asked.follow(master):
            self._copied = None

    def _ask(self, master: str) -> Deferred[float]:
        return self._ask_version(master).addCallback(self._copy_if_new).addCallback(lambda _: LOOK)

    def _copy_if_new(self, version: DataVersion | None) -> Deferred[None] | None:
        if version is None or version in (self._copied, self._have()):
            return None
        self._copied = version
        return self._copy()

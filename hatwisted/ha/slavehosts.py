"""From which hosts slaves connect, as far as a master can know before a connection has said anything.

A put of a SYNC_MASTER waits as soon as a slave is linked, reported or not (B70), because a RocketMQ slave says
nothing for its first five to six seconds. On the same port a scanner says nothing either, and if it counted,
every put would wait for it until it times out. So a silent connection counts as a slave for as long as
a slave may need for its first report, unless no connection from its host has ever reported; from a
host where a slave has reported, without limit.
"""

from __future__ import annotations

from collections import OrderedDict

MAX_HOSTS = 1024
"""Hosts remembered (about 150 bytes each); the one that was quiet longest is forgotten."""

REPORT_SLACK = 3.0
"""Seconds beyond haSendHeartbeatInterval that a RocketMQ slave's first report may take: it looks at its clock
once a second, and its first turn is its connect."""


class SlaveHosts:
    """What was seen of each host: a slave, or only connections that never reported."""

    def __init__(self) -> None:
        self._slaves: OrderedDict[str, bool] = OrderedDict()

    def is_known(self, host: str) -> bool:
        """Has a slave reported from there?"""
        return self._slaves.get(host, False)

    def is_suspect(self, host: str) -> bool:
        """Have connections come from there, but never a report?"""
        return not self._slaves.get(host, True)

    def reported(self, host: str) -> None:
        """A slave's first report came from there."""
        self._note(host, True)

    def unidentified(self, host: str) -> None:
        """A connection from there ended, or took too long, without a report."""
        self._note(host, self.is_known(host))

    def _note(self, host: str, slave: bool) -> None:
        self._slaves[host] = slave
        self._slaves.move_to_end(host)
        if len(self._slaves) > MAX_HOSTS:
            self._slaves.popitem(last=False)

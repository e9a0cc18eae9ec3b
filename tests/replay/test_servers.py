"""Brokers, open and closed, a name server, both ends of the HA link, ports of pages: behind them is all else."""

from __future__ import annotations

from tests.fuzz.closedtargets import CLOSED
from tests.fuzz.linktargets import LINKS
from tests.fuzz.pagetargets import PAGES
from tests.fuzz.servertargets import SERVERS
from tests.fuzz.tabletargets import TABLES
from tests.replay.replayed import Replayed, replaying


@replaying({**LINKS, **PAGES, **SERVERS, **CLOSED, **TABLES})
class ServerTests(Replayed):
    """Nothing but its own error leaves a decoder."""

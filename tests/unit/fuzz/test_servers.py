"""A broker, a name server, both ends of the HA link and the ports of pages, behind which sits all else."""

from __future__ import annotations

from tests.fuzz.linktargets import LINKS
from tests.fuzz.pagetargets import PAGES
from tests.fuzz.servertargets import SERVERS
from tests.unit.fuzz.replayed import Replayed, replaying


@replaying({**LINKS, **PAGES, **SERVERS})
class ServerTests(Replayed):
    """Nothing but its own error leaves a decoder."""

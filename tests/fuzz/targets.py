"""All targets, by name."""

from __future__ import annotations

from tests.fuzz.closedtargets import CLOSED
from tests.fuzz.deltatargets import DELTA
from tests.fuzz.filetargets import FILES
from tests.fuzz.kerneltargets import KERNELS
from tests.fuzz.linktargets import LINKS
from tests.fuzz.logtargets import LOGS
from tests.fuzz.pagetargets import PAGES
from tests.fuzz.servertargets import SERVERS
from tests.fuzz.signedtargets import SIGNED
from tests.fuzz.tabletargets import TABLES
from tests.fuzz.twintargets import TWINS
from tests.fuzz.wiretargets import WIRE

TARGETS = {
    **WIRE,
    **SIGNED,
    **FILES,
    **DELTA,
    **LOGS,
    **KERNELS,
    **TWINS,
    **LINKS,
    **PAGES,
    **SERVERS,
    **CLOSED,
    **TABLES,
}

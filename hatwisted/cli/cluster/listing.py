"""Do the name servers list a new slave? Consumers find it by them alone, however level it is.

A broker registers when it starts and every 30 s from then on, so those that answer are asked for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from hatwisted.cli.cluster.clusterrun import Interrupt
from hatwisted.cli.cluster.copyprogress import INTERVAL
from hatwisted.cli.cluster.pauses import Pauses
from hatwisted.client.cluster import Cluster
from hatwisted.client.driver import deferred
from hatwisted.clientcore.errors import ClientError
from hatwisted.clientcore.survey import Survey
from hatwisted.wire.registration import ClusterInfo

PATIENCE: Final = 65
"""Questions until a name server counts as one that doesn't list it: two registrations, 30 s apart."""


class Slave(msgspec.Struct, frozen=True, kw_only=True):
    """Whom they should list.

    - group, id: its broker name and id
    - address: by which it registers
    - conf: its configuration file
    """

    group: str
    id: int
    address: str
    conf: str


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What one name server says of it: does it list it, and if not, why, and what to do."""

    address: str
    listed: bool
    problem: str | None = None


def listing(server: str, said: ClusterInfo | ClientError, slave: Slave) -> Listing:
    """What an answer comes to.

    - server: who was asked
    - said: its brokers, or why it gave none
    - slave: whom it should list
    """
    if isinstance(said, ClientError):
        return Listing(
            address=server,
            listed=False,
            problem=f"name server {server} doesn't answer, the slave can't register there: start it ({said})",
        )
    group = said.broker_addr_table.get(slave.group)
    found = None if group is None else group.broker_addrs.get(slave.id)
    if found == slave.address:
        return Listing(address=server, listed=True)
    if found is not None:
        problem = (
            f"name server {server} lists {found} as broker {slave.id} of {slave.group}, not {slave.address}: "
            f"give this one another brokerId in {slave.conf}, and start it again"
        )
    else:
        problem = (
            f"name server {server} doesn't list {slave.address}, no consumer finds it there: is the name server "
            f"in namesrvAddr of {slave.conf}? Else the slave's log says why"
        )
    return Listing(address=server, listed=False, problem=problem)


async def ask_until_listed(
    cluster: Cluster, slave: Slave, interrupt: Interrupt, tell: Callable[[str], object]
) -> list[Listing]:
    """What each name server says in the end: when all that answer list it, after PATIENCE, or at an interrupt.

    - cluster: asks
    - slave: whom they should list
    - interrupt: ends the asking
    - tell: takes a line if it takes a while
    """
    survey, pauses = Survey(cluster.session), Pauses(cluster.clock, interrupt)
    for count in range(1, PATIENCE + 1):
        said = await deferred(survey.name_servers())
        found = [listing(server, each, slave) for server, each in said.items()]
        if _enough(said, found) or interrupt.requested or count == PATIENCE:
            break
        if count == 2:
            tell("waiting for the name servers to list it: a slave registers every 30 s")
        await pauses.wait(INTERVAL)
    return found


def _enough(said: Mapping[str, ClusterInfo | ClientError], found: list[Listing]) -> bool:
    """A silent one isn't waited for, unless all are."""
    answered = [each.listed for each in found if not isinstance(said[each.address], ClientError)]
    return bool(answered) and all(answered)

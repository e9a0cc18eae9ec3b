"""Which servers meet each other here, and where their stores lie.

Every combination runs the same tests. `HATWISTED_INTEROP_CONTROL=1` adds Java with Java: a test that fails
there is wrong itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import javarocketmq
from testbed.brokergroup import JAVA, OURS, SMALL_STORE, BrokerGroup, Kind
from tests.support import javaclient
from tests.support.linkproxy import LinkProxy
from tests.support.soak import in_soak

SLAVE_TIMEOUT = 6000  # ms: long enough for tests in which a slave is missed
PAIRS = [(OURS, JAVA), (JAVA, OURS), (OURS, OURS)]
OLDER, NEWER = javaclient.VERSIONS
SECONDS_OF_A_JVM = "a JVM takes seconds, and the other version is tried"
OLDER_VERSION = [OLDER, in_soak(NEWER, why=SECONDS_OF_A_JVM)]
NEWER_VERSION = [in_soak(OLDER, why=SECONDS_OF_A_JVM), NEWER]
"""Of RocketMQ's servers, or clients: where both behave alike, `make test` tries one of them."""
SERVERS = [OURS]  # whose name server, master and slave clients are tried with
if os.environ.get("HATWISTED_INTEROP_CONTROL"):
    PAIRS.append((JAVA, JAVA))
    SERVERS.append(JAVA)


def needs(*kinds: Kind) -> None:
    """Skip, with the reason, when RocketMQ is needed and can't run here."""
    reason = javarocketmq.available() if JAVA in kinds else None
    if reason is not None:
        pytest.skip(f"RocketMQ {javarocketmq.VERSION} can't run here: {reason}")


def pair_name(pair: tuple[Kind, Kind]) -> str:
    """A pair in the id of a test."""
    master, slave = pair
    return f"{master.value}-master-{slave.value}-slave"


@pytest.fixture(params=PAIRS, ids=pair_name)
def kinds(request: pytest.FixtureRequest) -> tuple[Kind, Kind]:
    """(master, slave) of a pair; each combination in turn."""
    master, slave = request.param
    needs(master, slave)
    return master, slave


@pytest.fixture
def link() -> Iterator[LinkProxy]:
    """The wire between slave and master; its target is set by whoever starts the master."""
    with LinkProxy(0) as proxy:
        yield proxy


@pytest.fixture
def group(kinds: tuple[Kind, Kind], link: LinkProxy, tmp_path: Path) -> Iterator[BrokerGroup]:
    """A SYNC_MASTER and its slave, started and linked through `link`."""
    settings = {**SMALL_STORE, "slaveTimeout": SLAVE_TIMEOUT}
    with BrokerGroup(tmp_path, *kinds, link_port=link.port, settings=settings) as pair:
        link.target = pair.ha_port
        pair.start()
        yield pair

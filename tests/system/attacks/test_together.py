"""What strangers' attacks take of a server's memory when several of them leave something behind, or hold it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from testbed.brokergroup import BrokerGroup
from testbed.processes import wait_until
from testbed.remotingclient import RemotingFailure
from tests.support.bystander import Bystander
from tests.support.soak import only_in_soak
from tests.system.attacks import test_strangers as strangers

pytestmark = only_in_soak("a minute; each attack alone is tried by test_strangers")

TOGETHER = 450 << 20
"""Bytes of RssAnon of any server: more than one attack alone may take, less than the sum of all limits."""

HOLDING: tuple[strangers.Attack, ...] = (
    strangers.held_pulls,
    strangers.many_short_values,
    strangers.resets_for_who_does_not_read,
    strangers.idle_connections,
    strangers.half_frames,
    strangers.half_handshakes,
    strangers.inflating_registrations,
    strangers.readers_of_pages,
    strangers.flood_of_sends,
    strangers.pulls_that_wake,
    strangers.unread_answers,
    strangers.members_of_many_groups,
    strangers.long_names,
)
"""They have a server hold something for them."""


@pytest.fixture
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    with strangers.started(tmp_path_factory.mktemp("together")) as made:
        yield made


@pytest.mark.parametrize("together", [1, len(HOLDING)], ids=["one-after-the-other", "all-at-once"])
def test_the_memory_when_attacks_add_up(group: BrokerGroup, together: int) -> None:
    """After those that leave much behind, and with all that the others hold meanwhile kept."""
    assert group.namesrv is not None
    servers = (group.master, group.slave, group.namesrv)
    pids = [server.pid for server in servers]
    with Bystander(group.master_port, *pids) as watching, contextlib.ExitStack() as stack:

        def make(attack: strangers.Attack) -> None:
            with contextlib.suppress(OSError, RemotingFailure):  # a server that closes what is too much
                attack(group, stack)

        with ThreadPoolExecutor(together) as attackers:
            for made in [attackers.submit(make, attack) for attack in HOLDING]:
                made.result()
        time.sleep(strangers.LEAST)
    found = watching.result
    assert found is not None
    print(
        f"{together} at once: {found.peak >> 20} MiB, p99 {found.p99 * 1000:.1f} ms of {len(found.seconds)}"
    )
    assert found.peak < TOGETHER
    assert not found.refused, found.refused
    assert [server.pid for server in servers if server.running] == pids
    wait_until(lambda: strangers.answered(group.slave_port), 60, "the slave answers")

"""Strangers talk nonsense, half sense and sense to all ports of a pair; an honest producer's promises are kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hatwisted.sim.history import Violation
from hatwisted.sim.promises import Promises, Terms
from testbed.brokergroup import OURS, QUICK_SYNC, SMALL_STORE, BrokerGroup
from testbed.processes import Setting, wait_until
from tests.fuzz.sessions import ACCOUNTS, STRANGER, Strangers
from tests.support.judgedproducer import JudgedProducer, Judges
from tests.support.producer import QUEUES, TOPICS
from tests.support.runningstore import RunningStore
from tests.support.soak import in_soak, times

pytestmark = pytest.mark.timeout(600 * times(1))

SECONDS = 10.0 if times(1) > 1 else 5.0
"""Of one seed, at least."""
PATIENCE = 120.0
"""Seconds until a busy machine has had SESSIONS and MESSAGES."""
SESSIONS, MESSAGES = 5, 200
"""Of each port, and of the honest producer: below that nothing is proved."""
PACE = 200
MEMORY = 300 << 20
MASTER, SLAVE = "master", "slave"
SETTINGS = {**SMALL_STORE, **QUICK_SYNC, "adminAllowList": "127.0.0.1", "slaveTimeout": 1000}


@pytest.mark.parametrize("seed", range(1, 1 + times(1)))
@pytest.mark.parametrize(
    "closed", [False, in_soak(True, why="the decoders behind the door are the same")], ids=["open", "closed"]
)
def test_promises_are_kept_whatever_strangers_say(seed: int, closed: bool, tmp_path: Path) -> None:
    group = closed_group(tmp_path) if closed else BrokerGroup(tmp_path, namesrv_kind=OURS, settings=SETTINGS)
    promises, terms = Promises(), Terms(sync_slaves=True, sync_flush=False, durable_acks=False)
    with group:
        assert group.namesrv is not None
        group.start()
        servers = (group.master, group.slave, group.namesrv)
        pids = [server.pid for server in servers]
        ports = dict.fromkeys((group.master_port, group.slave_port, group.namesrv_port), False)
        ports |= {group.master_port - 2: False, group.slave_port - 2: False, group.ha_port: True}
        judges = Judges(promises, terms, MASTER, SLAVE)
        producer = JudgedProducer(group.master_port, seed, PACE, judges)
        with producer, Strangers(ports, seed, closed=closed) as strangers:
            ends = time.monotonic() + SECONDS

            def enough() -> bool:
                had = min(strangers.sessions[port] for port in ports) > SESSIONS
                return time.monotonic() > ends and had and len(promises.sent) > MESSAGES

            wait_until(enough, PATIENCE, "strangers and the producer have had their say")
        print(
            f"{strangers.sessions.total()} sessions, {strangers.pieces} pieces, {len(promises.sent)} messages"
        )
        assert [server.pid for server in servers if server.running] == pids
        assert max(server.memory() for server in servers) < MEMORY
        assert not [*violations(group, promises)]
        log = "".join(server.log_text() for server in servers)
        assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:3000]
        # What strangers have written mustn't confuse the next start either.
        group.master.restart(kill=True)
        group.slave.restart(kill=True)
        group.wait_linked()
        assert not [*violations(group, promises)]


def closed_group(folder: Path) -> BrokerGroup:
    """With accounts on all three servers; whoever comes from STRANGER is a proxy."""
    accounts = folder / "plain_acl.yml"
    accounts.write_bytes(ACCOUNTS)
    closed: dict[str, Setting] = {
        "aclEnable": "true",
        "aclPlainFile": accounts,
        "proxyProtocolFrom": STRANGER,
    }
    return BrokerGroup(folder, namesrv_kind=OURS, settings=SETTINGS | closed, namesrv_settings=closed)


def violations(group: BrokerGroup, promises: Promises) -> Iterator[Violation]:
    """What a look into both stores finds broken."""
    group.wait_caught_up()
    queues = [(topic, queue_id) for topic in TOPICS for queue_id in range(QUEUES)]
    with group.master_client() as to_master, group.slave_client() as to_slave:
        views = [
            RunningStore(MASTER, to_master, group.master_store),
            RunningStore(SLAVE, to_slave, group.slave_store),
        ]
        for view in views:
            yield from promises.check_all_stored(view)
            yield from promises.check_readable(view, queues)
        different = promises.check_equal(*views)
        if different is not None:
            yield different

"""Slaves that stop, lag or never come, and what a SYNC_MASTER's producers are told meanwhile."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from testbed.brokergroup import SMALL_STORE, BrokerGroup, log_end_of
from testbed.processes import (
    BROKER_PORTS,
    ServerProcess,
    all_stopped,
    free_port,
    twistd,
    wait_until,
    write_conf,
)
from testbed.remotingclient import RemotingClient, SendResult, send_fields
from testbed.storefiles import first_difference
from tests.support.hastatus import client_side, links

OK, TOO_FEW, NO_SLAVE, SLAVE_TIMEOUT = 0, 1, 11, 12
AT_ONCE = 14.0  # seconds; a put that waits for a slave waits longer, SMALL_STORE's slaveTimeout
STALL = 60.0  # seconds that a busy machine may stand still meanwhile
COMPLAINT = "HA link, 127.0.0.1: "
MEMORY_GROWTH = 24 << 20  # bytes of RssAnon that a stuck slave may cost its master
IDLE_CPU, ROUNDS = 0.2, 8  # seconds of CPU that 4 s without traffic may cost; and how often it's looked
BACKLOG = 60 << 20  # bytes of log that a stuck slave misses: far more than that, and than all socket buffers


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as leaving:
        yield leaving


def started(stack: ExitStack, folder: Path, **settings: str | int) -> BrokerGroup:
    """Master and slave, linked."""
    group = stack.enter_context(BrokerGroup(folder, settings={**SMALL_STORE, **settings}))
    group.start()
    return group


def second_slave(stack: ExitStack, group: BrokerGroup) -> tuple[ServerProcess, Path]:
    """One more slave of the same master, not started; and its store."""
    port, store = free_port(BROKER_PORTS), group.folder / "second-store"
    own = {
        "listenPort": port,
        "brokerId": 2,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
    }
    conf = write_conf(group.folder / "second.conf", {**group.full_slave_settings(), **own})
    server = twistd("haslave", "second", group.folder, conf, port)
    stack.enter_context(all_stopped(server))
    return server, store


def states(port: int) -> list[str]:
    """Those of a master's links, sorted."""
    return sorted(str(link["state"]) for link in links(port))


def timed_send(client: RemotingClient, **properties: str) -> tuple[int, float]:
    """Code of a put, and the seconds it took."""
    begun = time.monotonic()
    code = client.send("Silence", b"x", 0, properties).code
    return code, time.monotonic() - begun


def test_B128_B144_a_stopped_slave_costs_12_then_11_and_is_taken_back(
    stack: ExitStack, tmp_path: Path
) -> None:
    wait = 4.0
    group = started(stack, tmp_path, haHousekeepingInterval=8000, slaveTimeout=int(wait * 1000))
    with group.master_client() as client:
        group.slave.suspend()
        begun, codes = time.monotonic(), []
        while (code := timed_send(client))[0] != NO_SLAVE:
            codes.append(code)
            assert time.monotonic() - begun < 60, codes
        assert {each for each, _ in codes} == {SLAVE_TIMEOUT}
        assert all(wait - 0.1 < seconds < wait + STALL for _, seconds in codes)
        assert code[1] < wait
        assert links(group.master_port) == []
        assert timed_send(client, WAIT="false")[0] == OK
        group.slave.resume()
        wait_until(lambda: timed_send(client)[0] == OK, 60, "the slave is back")
    end = group.wait_caught_up()
    group.stop()
    assert first_difference(group.master_store, group.slave_store, end) is None


def test_B58_B144_a_stopped_master_is_noticed_said_and_joined_again(stack: ExitStack, tmp_path: Path) -> None:
    group = started(stack, tmp_path, haHousekeepingInterval=3000)
    group.master.suspend()
    wait_until(
        lambda: "nothing heard from the master" in client_side(group.slave_port)["problem"],
        60,
        "the slave misses its master",
    )
    group.master.resume()
    with group.master_client() as client:
        wait_until(lambda: timed_send(client)[0] == OK, 60, "the slave is linked again")
    # So short a time without a heartbeat passes on a busy machine as well: then it links once more.
    wait_until(lambda: client_side(group.slave_port)["problem"] == "", 60, "it has nothing to complain of")


def test_B29_B34_B47_a_stuck_slave_costs_bounded_memory_and_slows_nobody(
    stack: ExitStack, tmp_path: Path
) -> None:
    group = started(stack, tmp_path, haHousekeepingInterval=600_000, mappedFileSizeCommitLog=64 << 20)
    stuck, store = second_slave(stack, group)
    stuck.start()
    wait_until(lambda: states(group.master_port) == ["live", "live"], 60, "both slaves are linked")
    stuck.suspend()
    before = group.master.memory()
    with group.master_client() as client:
        for _ in range(BACKLOG // 500_000):
            assert client.send("Bulk", os.urandom(500_000)).code == OK
    assert group.master.memory() - before < MEMORY_GROWTH
    wait_until(
        lambda: states(group.master_port) == ["catching up", "live"], 60, "the other one has all of it"
    )
    stuck.resume()
    wait_until(lambda: log_end_of(stuck.port) == group.master_end(), 60, "the stuck slave has caught up")
    end = group.wait_caught_up()
    assert stuck.memory() < 150 << 20
    stuck.stop()
    group.stop()
    assert first_difference(group.master_store, store, end) is None
    assert first_difference(group.master_store, group.slave_store, end) is None


def test_three_copies_take_two_slaves_and_too_few_refuse_before_the_append(
    stack: ExitStack, tmp_path: Path
) -> None:
    group = stack.enter_context(
        BrokerGroup(tmp_path, settings={**SMALL_STORE, "inSyncReplicas": 3, "slaveTimeout": 2000})
    )
    group.master.start()
    group.slave.start()
    second, _ = second_slave(stack, group)
    second.start()

    def refused(client: RemotingClient) -> bool:
        end = group.master_end()
        result: SendResult = client.send("Quorum", b"x")
        return result.code == TOO_FEW and "3 needed" in result.remark and group.master_end() == end

    with group.master_client() as client:
        wait_until(lambda: client.send("Quorum", b"x").code == OK, 60, "both slaves have it")
        second.suspend()
        code, seconds = timed_send(client)
        assert code == SLAVE_TIMEOUT and seconds > 1.9
        second.kill()
        wait_until(lambda: refused(client), 60, "the lost slave is noticed")
        assert timed_send(client, WAIT="false")[0] == OK


def test_min_in_sync_replicas_alone_refuses_without_a_slave(stack: ExitStack, tmp_path: Path) -> None:
    group = stack.enter_context(BrokerGroup(tmp_path, settings={**SMALL_STORE, "minInSyncReplicas": 2}))
    group.master.start()
    with group.master_client() as client:
        assert client.send("Quorum", b"x").code == TOO_FEW
        assert group.master_end() == 0
        group.slave.start()
        wait_until(lambda: client.send("Quorum", b"x").code == OK, 60, "the slave is in sync")


def test_in_sync_replicas_1_waits_for_nobody_and_is_warned_of(stack: ExitStack, tmp_path: Path) -> None:
    group = stack.enter_context(BrokerGroup(tmp_path, settings={**SMALL_STORE, "inSyncReplicas": 1}))
    group.master.start()
    with group.master_client() as client:
        code, seconds = timed_send(client)
    assert code == OK and seconds < AT_ONCE
    assert "inSyncReplicas=1: this SYNC_MASTER waits for no slave" in group.master.log_text()


def test_B71_B134_without_a_slave_11_at_once_whoever_knocks_at_the_port(
    stack: ExitStack, tmp_path: Path
) -> None:
    group = stack.enter_context(BrokerGroup(tmp_path))
    group.master.start()
    with group.master_client() as client:
        code, seconds = timed_send(client)
        assert code == NO_SLAVE and seconds < AT_ONCE
        for greeting in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 7):
            with socket.create_connection(("127.0.0.1", group.ha_port)) as scanner:
                scanner.sendall(greeting)
        wait_until(lambda: COMPLAINT in group.master.log_text(), 60, "the scanners are noticed")
        with socket.create_connection(("127.0.0.1", group.ha_port)):
            code, seconds = timed_send(client)
        assert code == NO_SLAVE and seconds < AT_ONCE
        assert group.master.log_text().count(COMPLAINT) == 1, "each scanner has a line of its own"
        assert client.pull("Silence", 0, 1).code == OK, "what was answered 11 is stored all the same"


def test_a_slave_that_is_mute_for_20000_waiting_puts_costs_them_12_on_time(
    stack: ExitStack, tmp_path: Path
) -> None:
    """Or for as many as a slow machine has waiting before the first is answered."""
    group = started(
        stack, tmp_path, haHousekeepingInterval=600_000, slaveTimeout=10_000, mappedFileSizeCommitLog=16 << 20
    )
    count = 0
    before = group.master.memory()
    group.slave.suspend()
    fields = send_fields("Silence", 0, {})
    with group.master_client(60) as client:
        begun = time.monotonic()
        while count < 20_000 and (posted := time.monotonic() - begun) < 7:
            client.post(310, fields, b"z" * 20)
            count += 1
        assert group.master.memory() - before < 40 << 20
        codes = {client.answer().code for _ in range(count)}
        taken = time.monotonic() - begun
    assert codes == {SLAVE_TIMEOUT}
    assert posted < 10.0, "some waited for the answers of others"
    assert 10.0 <= taken < 10.0 + posted + STALL


def test_B149_B150_an_idle_pair_costs_next_to_no_cpu_on_the_platforms_own_reactor(
    stack: ExitStack, tmp_path: Path
) -> None:
    group = started(stack, tmp_path)
    pair = (group.master, group.slave)
    spent = [IDLE_CPU]
    for _ in range(ROUNDS):  # on a machine whose caches are others' each turn costs more: not all the time
        before = [server.cpu_seconds() for server in pair]
        time.sleep(4)
        spent = [server.cpu_seconds() - was for server, was in zip(pair, before, strict=True)]
        if max(spent) < IDLE_CPU:
            break
    assert max(spent) < IDLE_CPU, f"{spent} s of CPU in 4 s without traffic"
    if sys.platform == "linux":
        assert "EPollReactor" in group.master.log_text()

"""Consumers' progress over failover and back, with real processes and kill -9 (B162); and a master that brings
its own name server, which all of this runs without otherwise: the slave is told `haMasterAddress` only."""

from __future__ import annotations

from pathlib import Path

from testbed.brokergroup import QUICK_SYNC, SMALL_STORE, BrokerGroup
from testbed.processes import free_port, wait_until
from testbed.remotingclient import RemotingClient
from tests.support.clusterclient import route_of

QUERY, COMMIT, ALL_TOPICS = 14, 15, 21
QUEUE = {"consumerGroup": "g", "topic": "Progress", "queueId": "0"}
QUICK_SLAVE = {**QUICK_SYNC, "flushConsumerOffsetInterval": 500}
QUICK_MASTER = {
    **SMALL_STORE,
    "flushConsumerOffsetInterval": 2000,
}  # long enough to be killed before it writes
ROUND = 120.0  # seconds: a slave asks and writes every second here, a master writes every 2 s
LINKED = 120.0  # seconds until a slave has found its master again: 7 at the latest on an idle machine


def commit(port: int, offset: int) -> None:
    with RemotingClient("127.0.0.1", port) as client:
        client.call(COMMIT, {**QUEUE, "commitOffset": str(offset)}).expect(0)


def committed(port: int) -> int:
    with RemotingClient("127.0.0.1", port) as client:
        return int(client.call(QUERY, QUEUE).ext.get("offset", -1))


def written(store: Path, offset: int) -> bool:
    path = store / "config" / "consumerOffset.json"
    return path.exists() and f'"Progress@g":{{0:{offset}\n' in path.read_text()


def prepared(group: BrokerGroup) -> None:
    """20 messages on both sides, 5 of them consumed; the slave knows, and the master's file."""
    group.start()
    with group.master_client() as client:
        assert [client.send("Progress", b"x").code for _ in range(20)] == [0] * 20
    commit(group.master_port, 5)
    wait_until(lambda: committed(group.slave_port) == 5, ROUND, "the slave has the progress")
    wait_until(lambda: written(group.master_store, 5), ROUND, "the master's file has it")


def test_B162_what_the_slave_took_survives_a_crash_of_either_side_and_a_reset_wins(tmp_path: Path) -> None:
    with BrokerGroup(tmp_path, settings=QUICK_MASTER, slave_settings=QUICK_SLAVE) as group:
        prepared(group)
        group.master.kill()
        commit(group.slave_port, 15)
        wait_until(lambda: written(group.slave_store, 15), ROUND, "the slave's file has it")
        group.slave.kill()
        group.slave.start()
        assert committed(group.slave_port) == 15
        group.master.start()
        assert committed(group.master_port) in (5, 15)
        wait_until(lambda: committed(group.master_port) == 15, LINKED, "the master has it back")

        group.master.kill()  # most likely before its file has it
        group.master.start()
        wait_until(lambda: committed(group.master_port) == 15, LINKED, "and once more")

        group.slave.suspend()  # which still has 15 when its master comes back
        commit(group.master_port, 3)  # nobody's member: an operator's tool
        wait_until(lambda: written(group.master_store, 3), ROUND, "the master's file has the reset")
        group.master.kill()
        group.master.start()
        group.slave.resume()
        wait_until(lambda: committed(group.slave_port) == 3, ROUND, "the slave follows")
        assert committed(group.master_port) == 3
        assert "Traceback" not in group.master.log_text() + group.slave.log_text()


def test_a_slave_that_is_told_its_masters_ha_address_alone_gets_the_tables_too(tmp_path: Path) -> None:
    with BrokerGroup(tmp_path, settings=QUICK_MASTER, slave_settings=QUICK_SLAVE) as group:
        prepared(group)
        with group.slave_client() as client:
            wait_until(
                lambda: b'"Progress"' in client.call(ALL_TOPICS).body, ROUND, "the slave has the topic"
            )
            assert client.pull("Progress", 0, 0).code == 0


def test_a_master_without_name_servers_brings_one_and_tells_its_address(tmp_path: Path) -> None:
    port = free_port()
    settings = {**SMALL_STORE, "embeddedNamesrv": "true", "embeddedNamesrvPort": port}
    with BrokerGroup(tmp_path, role="ASYNC_MASTER", settings=settings) as group:
        group.master.start()
        assert f"this master starts its own name server, 127.0.0.1:{port}" in group.master.log_text()
        with group.master_client() as client:
            assert client.send("Progress", b"x").code == 0
        wait_until(lambda: route_of(port, "Progress") is not None, 60, "the topic is routed")
        route = route_of(port, "Progress")
        assert route is not None and route.ports == {group.name: {0: group.master_port}}
        group.master.stop()
        assert not (group.master_store / "abort").exists(), "the broker beneath stopped in order"
        assert "Traceback" not in group.master.log_text()

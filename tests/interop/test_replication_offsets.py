"""Where a slave begins, what becomes of one that its master has nothing for, and slaves started in any order."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from testbed.brokergroup import JAVA, OURS, BrokerGroup, Kind
from testbed.processes import BROKER_PORTS, free_port, wait_until
from testbed.storefiles import check_queues, first_difference, read_log
from tests.interop.conftest import needs
from tests.support.hastatus import client_side, links
from tests.support.producer import Producer, broken_promises

OK, NO_SLAVE, SLAVE_TIMEOUT = 0, 11, 12
MESSAGE = 100_000  # bytes; ten to a log file
FILE = 1 << 20  # SMALL_STORE's mappedFileSizeCommitLog


def fill(group: BrokerGroup, count: int) -> None:
    with group.master_client() as client:
        for number in range(count):
            sent = client.send("Fill", bytes([number % 251]) * MESSAGE, number % 4, {"KEYS": f"k{number}"})
            assert sent.code in (OK, NO_SLAVE, SLAVE_TIMEOUT), sent  # stored, whoever has it


def log_files(store: Path) -> list[Path]:
    """Those that hold something: a file prepared ahead doesn't count."""
    files = sorted((store / "commitlog").iterdir())
    return [file for file in files if file.read_bytes()[:4] != bytes(4)]


def expire(store: Path, keep: int) -> None:
    """What retention does to a stopped broker's oldest files."""
    for file in log_files(store)[:-keep]:
        file.unlink()


@pytest.fixture(params=[OURS, JAVA], ids=lambda kind: f"{kind.value}-master")
def kind(request: pytest.FixtureRequest) -> Kind:
    """Who makes the master."""
    needs(request.param)
    return request.param


def test_B158_min_offset_copies_a_log_of_many_files_whole(kind: Kind, tmp_path: Path) -> None:
    with BrokerGroup(
        tmp_path, kind, OURS, role="ASYNC_MASTER", slave_settings={"haFirstSync": "minOffset"}
    ) as group:
        group.master.start()
        fill(group, 45)
        group.slave.start()
        end = group.wait_caught_up()
        group.stop()
        assert end > 4 * FILE
        assert [file.name for file in log_files(group.slave_store)] == [
            file.name for file in log_files(group.master_store)
        ]
        assert first_difference(group.master_store, group.slave_store, end) is None
        assert check_queues(group.slave_store) == 45


def test_B40_B142_a_new_slave_has_the_last_file_only(kind: Kind, tmp_path: Path) -> None:
    with BrokerGroup(tmp_path, kind, OURS, role="ASYNC_MASTER") as group:
        group.master.start()
        fill(group, 25)
        group.slave.start()
        group.wait_caught_up()
        group.stop()
        assert [file.name for file in log_files(group.slave_store)] == [f"{2 * FILE:020d}"]
        assert log_files(group.slave_store)[0].read_bytes() == log_files(group.master_store)[-1].read_bytes()


def test_B143_an_expired_offset_is_a_state_with_a_message_and_slow_retries(
    kind: Kind, tmp_path: Path
) -> None:
    with BrokerGroup(tmp_path, kind, OURS) as group:
        group.start()
        group.slave.stop()
        fill(group, 45)
        group.master.stop()
        expire(group.master_store, keep=2)
        oldest = int(log_files(group.master_store)[0].name)
        group.master.start()
        group.slave.start()
        _lacking(group, f"the master's begins at {oldest}")
        with group.master_client() as client:
            assert client.send("Fill", b"x").code == NO_SLAVE, "a refused slave is none"


def test_B140_an_offset_above_the_masters_is_a_state_too(kind: Kind, tmp_path: Path) -> None:
    with BrokerGroup(tmp_path, kind, OURS) as group:
        group.start()
        fill(group, 15)
        group.wait_caught_up()
        group.stop()
        shutil.rmtree(group.master_store)
        group.master.start()
        fill(group, 3)
        group.slave.start()
        _lacking(group, f"the master's at {group.master_end()}")
        with group.master_client() as client:
            assert client.send("Fill", b"x").code in (NO_SLAVE, SLAVE_TIMEOUT), "nothing of it was copied"


def _lacking(group: BrokerGroup, told: str) -> None:
    """The slave says what is wrong, once, and doesn't dial again for long."""
    wait_until(lambda: told in client_side(group.slave_port)["problem"], 60, f"the slave says {told!r}")
    assert client_side(group.slave_port)["state"] == "master lacks offset"
    assert group.slave.log_text().count(told) == 1
    dialled = group.slave.log_text().count("HA link to master")
    time.sleep(2)  # a slave that isn't slowed down dials four times meanwhile: after 0.1, 0.2, 0.4, 0.8 s
    assert group.slave.log_text().count("HA link to master") == dialled
    if group.master_kind is OURS:
        assert "refused: it asks for offset" in group.master.log_text()
        assert [link["state"] for link in links(group.master_port) if link["inSync"]] == []


def test_B111_slave_then_name_server_then_master(tmp_path: Path) -> None:
    with BrokerGroup(tmp_path, namesrv_kind=OURS) as group:
        assert group.namesrv is not None
        group.slave.start()
        assert client_side(group.slave_port)["state"] == "disconnected"
        group.namesrv.start()
        group.master.start()
        group.wait_linked()
        # B114: without a name server what is known goes on
        group.namesrv.kill()
        with group.master_client() as client:
            assert client.send("Orders", b"x").code == OK
        assert "Traceback" not in group.slave.log_text()


def test_B67_a_master_that_moved_is_found_through_the_name_server(tmp_path: Path) -> None:
    with BrokerGroup(tmp_path, namesrv_kind=OURS) as group:
        group.settings = {**group.settings, "registerNameServerPeriod": 10_000}
        group.start()
        group.master.stop()
        group.master_port, group._master = free_port(BROKER_PORTS), None
        group.master.start()
        group.wait_linked()


def test_B137_sigterm_under_load_leaves_both_sides_whole(tmp_path: Path) -> None:
    with BrokerGroup(tmp_path) as group:
        group.start()
        with Producer(group.master_port) as producer:
            producer.wait_acked(2000)
            group.master.stop()
            assert not (group.master_store / "abort").exists()
            group.master.start()
            group.wait_linked()
            producer.wait_acked(500)
            group.slave.stop()
        end = group.master_end()
        group.slave.start()
        group.wait_caught_up()
        group.stop()
        assert set(producer.codes) <= {0, 11, 12, 14}
        assert first_difference(group.master_store, group.slave_store, end) is None
        for store in (group.master_store, group.slave_store):
            assert broken_promises(producer, store) == []
            assert not (store / "abort").exists()


def test_B130_queues_lost_on_the_slave_are_built_again_from_its_log(tmp_path: Path) -> None:
    with BrokerGroup(tmp_path) as group:
        group.start()
        fill(group, 25)
        group.wait_caught_up()
        group.slave.kill()
        shutil.rmtree(group.slave_store / "consumequeue")
        group.slave.start()
        group.wait_linked()
        fill(group, 5)
        group.wait_caught_up()
        group.stop()
        assert check_queues(group.slave_store) == check_queues(group.master_store)


def test_B138_a_slave_whose_master_died_serves_reads_and_takes_no_writes(tmp_path: Path) -> None:
    with BrokerGroup(tmp_path, namesrv_kind=OURS) as group:
        group.start()
        with group.master_client() as client, group.slave_client() as reader:
            assert client.send("Orphan", b"kept", 0).code == OK
            wait_until(
                lambda: reader.pull("Orphan", 0, 0).code == OK, 60, "topics and message are on the slave"
            )
        group.master.kill()
        with group.slave_client() as client:
            assert b"kept" in client.pull("Orphan", 0, 0).expect(0).body
            assert client.send("Orphan", b"refused").code == 14
        wait_until(
            lambda: client_side(group.slave_port)["problem"], 60, "the slave says that its master is gone"
        )
        group.master.start()
        group.wait_linked()


def test_B136_an_async_master_lost_with_its_disk_leaves_all_but_the_tail(tmp_path: Path) -> None:
    with BrokerGroup(tmp_path, role="ASYNC_MASTER") as group:
        group.start()
        first = group.master_end()
        with group.master_client() as client:
            sent = [client.send("Tail", b"%d" % number).physical for number in range(300)]
            wait_until(lambda: group.slave_end() > sent[0], 60, "the slave has some of them")
            sent += [client.send("Tail", b"%d" % number).physical for number in range(300, 600)]
            group.master.kill()
        shutil.rmtree(group.master_store)
        group.slave.stop()
        kept = [message.offset for message in read_log(group.slave_store) if message.offset >= first]
        assert kept and kept == sent[: len(kept)], "what is left is no prefix of what was sent"

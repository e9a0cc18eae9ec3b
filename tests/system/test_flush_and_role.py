"""What a running broker waits for before it answers a send: each role with each way to flush, its disk stalled and
its slave mute in turn.

The unit tests of the put gate show what becomes of a put that waits for disk and slave; these show that a broker
put together from its configuration waits for what that says, and for nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed.processes import (
    BROKER_PORTS,
    REPOSITORY,
    ServerProcess,
    all_stopped,
    broker_answers,
    free_port,
    wait_until,
    write_conf,
)
from testbed.remotingclient import RemotingClient
from tests.support.haslave import PlayedSlave

OK, FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT = 0, 10, 12
WAIT = 500  # milliseconds for disk and for slave: long for a healthy one, short for the test


@dataclass
class StallableMaster:
    """A master, a slave for it that the test plays, and a client."""

    switch: Path
    slave: PlayedSlave
    client: RemotingClient

    def send(self, **properties: str) -> int:
        """The answer's code."""
        return self.client.send("Waits", b"x", 0, properties).code

    @contextmanager
    def disk_stalled(self) -> Iterator[None]:
        self.switch.touch()
        try:
            yield
        finally:
            self.switch.unlink()

    @contextmanager
    def slave_mute(self) -> Iterator[None]:
        self.slave.acks.clear()
        try:
            yield
        finally:
            self.slave.acks.set()

    def wait_well(self) -> None:
        """Until disk and slave do what they should."""
        wait_until(lambda: self.send() == OK, 30, "disk and slave are well")


@contextmanager
def master(folder: Path, role: str, flush: str) -> Iterator[StallableMaster]:
    """Started, with its slave's first report accepted."""
    port = free_port(BROKER_PORTS)
    settings = {
        "listenPort": port,
        "brokerRole": role,
        "flushDiskType": flush,
        "syncFlushTimeout": WAIT,
        "slaveTimeout": WAIT,
        "bindAddress": "127.0.0.1",
        "brokerIP1": "127.0.0.1",
        "storePathRootDir": folder / "store",
        "mappedFileSizeCommitLog": 1 << 20,
        "messageIndexEnable": False,
        "embeddedNamesrv": False,
    }
    switch, conf = folder / "stalled", write_conf(folder / "broker.conf", settings)
    program = [sys.executable, "-m", "tests.support.stalleddisk", str(switch)]
    server = ServerProcess(
        name="master",
        argv=[*program, "-n", "--pidfile=", "hamaster", f"--conf={conf}"],
        folder=folder,
        port=port,
        probe=broker_answers,
        environment={"PYTHONPATH": str(REPOSITORY)},
    )
    with all_stopped(server):
        server.start()
        with RemotingClient("127.0.0.1", port) as client:
            client.send("Waits", b"first")
            end = int(client.runtime_info()["commitLogMaxOffset"])
            with PlayedSlave(port + 1, end) as slave:
                made = StallableMaster(switch, slave, client)
                made.wait_well()
                yield made


@pytest.mark.parametrize(
    ("role", "flush", "disk_stalled", "slave_mute", "both"),
    [
        ("ASYNC_MASTER", "ASYNC_FLUSH", OK, OK, OK),
        ("ASYNC_MASTER", "SYNC_FLUSH", FLUSH_DISK_TIMEOUT, OK, FLUSH_DISK_TIMEOUT),
        ("SYNC_MASTER", "ASYNC_FLUSH", OK, FLUSH_SLAVE_TIMEOUT, FLUSH_SLAVE_TIMEOUT),
        ("SYNC_MASTER", "SYNC_FLUSH", FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT, FLUSH_SLAVE_TIMEOUT),
    ],
)
def test_B04_B06_B69_B82_B83_role_and_flush_say_what_a_send_waits_for(
    tmp_path: Path, role: str, flush: str, disk_stalled: int, slave_mute: int, both: int
) -> None:
    with master(tmp_path, role, flush) as broker:
        assert broker.send() == OK
        with broker.disk_stalled():
            assert broker.send() == disk_stalled
            assert broker.send(WAIT="false") == OK
            with broker.slave_mute():
                assert broker.send() == both
        broker.wait_well()
        with broker.slave_mute():
            assert broker.send() == slave_mute
            assert broker.send(WAIT="false") == OK

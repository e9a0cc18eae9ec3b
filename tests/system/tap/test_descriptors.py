"""Descriptors run out: for whoever connects last, and for nobody else. Real limits, in processes of their own."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from testbed.brokergroup import SMALL_STORE, BrokerGroup
from testbed.processes import wait_until

LIMIT = 300
"""Descriptors of the broker: some 30 of its own, and 64 that are kept."""

FULL_TABLE = """
import os, resource, sys
from hatwisted.store.disk.filesystem import PosixFileSystem
fs = PosixFileSystem()
lock = fs.lock(sys.argv[1] + "/lock")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
try:
    while True:
        os.open(os.devnull, os.O_RDONLY)
except OSError:
    pass
for _ in range(100):
    fs.sync_folder(sys.argv[1])
    fs.sync_all(sys.argv[1])
print("synced")
"""


def test_folders_are_synced_when_there_is_no_descriptor_left(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_TABLE, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "synced\n", done.stderr


def test_a_flood_of_connections_costs_no_put(tmp_path: Path) -> None:
    settings = {**SMALL_STORE, "mappedFileSizeCommitLog": 1 << 16, "maxConnectionsPerAddress": LIMIT}
    group = BrokerGroup(tmp_path, role="ASYNC_MASTER", settings=settings)
    group.master.argv = ["prlimit", f"--nofile={LIMIT}:{LIMIT}", "--", *group.master.argv]
    flood: list[socket.socket] = []
    try:
        with group:
            group.master.start()
            client = group.master_client()
            assert client.send("T", b"before").code == 0
            for _ in range(LIMIT + 50):
                with suppress(ConnectionResetError):  # refused before it knew that it was connected
                    flood.append(socket.create_connection(("127.0.0.1", group.master_port), 60))
            refused = "connections are open on all ports"
            wait_until(lambda: refused in group.master.log_text(), 60, "the newcomers are refused")
            # New log files, new queues, syncs of all these and their folders.
            for number in range(100):
                answer = client.send(f"T{number % 20}", bytes(2000))
                assert answer.code == 0, answer.remark
            for each in flood:
                each.close()
            with group.master_client() as newcomer:
                assert newcomer.send("T", b"after").code == 0
            log = group.master.log_text()
            assert f"{LIMIT} descriptors: " in log
            assert "critical" not in log, log[-2000:]
            assert log.count(refused) == 1
    finally:
        for each in flood:
            each.close()


@pytest.fixture(autouse=True)
def _prlimit() -> None:
    if subprocess.run(["which", "prlimit"], capture_output=True).returncode:
        pytest.skip("no prlimit on this machine (package util-linux)")

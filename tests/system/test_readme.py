"""README's commands, as they stand there: a name server, a master and its slave, and a message that both have."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.brokergroup import log_end_of
from testbed.processes import (
    BROKER_PORTS,
    REPOSITORY,
    ServerProcess,
    all_stopped,
    broker_answers,
    free_port,
    namesrv_answers,
    wait_until,
)
from testbed.remotingclient import RemotingClient
from tests.support.pages import blocks

README = REPOSITORY / "README.md"
NAME_SERVER_PORT, SLAVE_PORT = "9876", "10921"  # as README has them
SECONDS = 120.0
SMALL = [
    *("--set", "bindAddress=127.0.0.1", "--set", "brokerIP1=127.0.0.1", "--set", "brokerIP2=127.0.0.1"),
    *("--set", "mappedFileSizeCommitLog=1048576", "--set", "mappedFileSizeConsumeQueue=20000"),
    *("--set", "maxHashSlotNum=500", "--set", "maxIndexNum=2000", "--set", "diskMaxUsedSpaceRatio=95"),
]
"""What the test adds: nobody outside of this machine is let in, files of 1 GiB are too many, and how full
its disk is is the machine's affair."""


def commands() -> list[list[str]]:
    """The words of each line that starts a server, in README's order."""
    (block,) = (each for each in blocks(README) if each.heading == "Running a group")
    lines = block.code.replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.startswith("twistd ")]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[ServerProcess, ServerProcess, ServerProcess]]:
    """Name server, master and slave, started one after the other."""
    found, master_port = commands(), free_port(BROKER_PORTS)
    ports = {NAME_SERVER_PORT: free_port(), SLAVE_PORT: free_port(BROKER_PORTS)}
    assert [words[3] for words in found] == ["hanamesrv", "hamaster", "haslave"]

    def server(words: list[str], port: int, *more: str) -> ServerProcess:
        told = " ".join(words)
        for shown, free in ports.items():
            told = re.sub(rf"\b{shown}\b", str(free), told)
        program, *options = told.replace("$HOME", str(tmp_path)).split()
        return ServerProcess(
            name=words[3],
            argv=[
                "env",
                "-C",
                str(REPOSITORY),
                str(Path(sys.executable).with_name(program)),
                *options,
                *more,
            ],
            folder=tmp_path,
            port=port,
            probe=broker_answers if more else namesrv_answers,
            environment={"PYTHONPATH": str(REPOSITORY), "HOME": str(tmp_path)},
        )

    started = (
        server([*found[0], "--set", f"listenPort={NAME_SERVER_PORT}"], ports[NAME_SERVER_PORT]),
        server(found[1], master_port, *SMALL, "--set", f"listenPort={master_port}"),
        server(found[2], ports[SLAVE_PORT], *SMALL),
    )
    with all_stopped(*started):
        for each in started:
            each.start()
        yield started


def test_its_group_runs_and_stops_in_order(
    servers: tuple[ServerProcess, ServerProcess, ServerProcess], tmp_path: Path
) -> None:
    namesrv, master, slave = servers
    with RemotingClient("127.0.0.1", master.port) as client:
        wait_until(lambda: client.send("T", b"a message").code == 0, SECONDS, "a put is on the slave, too")
    stores = [path.parent.name for path in tmp_path.glob("*/abort")]
    assert sorted(stores) == ["store", "store-slave"], "as README has them"
    wait_until(lambda: log_end_of(slave.port) == log_end_of(master.port) > 0, SECONDS, "both have it all")
    for each in (slave, master, namesrv):
        each.stop()
    assert not list(tmp_path.glob("*/abort")), "not in order"
    for each in servers:
        assert "Traceback" not in each.log_text()

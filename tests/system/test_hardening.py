"""docs/hardening.md, block by block as it stands there: what it makes works for friends, and for nobody else."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed.processes import BROKER_PORTS, REPOSITORY, ServerProcess, all_stopped, free_port, wait_until
from tests.support.pages import DOCS, blocks, put_in, run_block

PAGE = DOCS / "hardening.md"
FOLDER = "/etc/hatwisted"
SMALL = (
    "--set mappedFileSizeCommitLog=1048576 --set mappedFileSizeConsumeQueue=20000 "
    "--set maxHashSlotNum=500 --set maxIndexNum=2000"
)
"""What the test adds: files of 1 GiB are too many."""
SECONDS = 120
CURL = shutil.which("curl") is not None


@dataclass(frozen=True, kw_only=True)
class Page:
    """The page, with folder and ports of this test. ports: those of the page -> these."""

    folder: Path
    ports: Mapping[str, int]
    environment: Mapping[str, str]

    def blocks(self, heading: str) -> list[list[str]]:
        """The lines of each block of commands below a heading."""
        replaced = {FOLDER: self.folder, **self.ports}
        return [
            put_in(block.code, replaced).splitlines()
            for block in blocks(PAGE)
            if block.heading == heading and not block.mark
        ]

    def run(self, lines: list[str]) -> subprocess.CompletedProcess[str]:
        return run_block("\n".join(lines), self.folder.parent)

    def works(self, heading: str) -> str:
        """All blocks below a heading do what they should; what they print."""
        told = ""
        for block in self.blocks(heading):
            if any("curl" in line for line in block) and not CURL:
                continue
            done = self.run(block)
            assert done.returncode == 0, done
            told += done.stdout
        return told


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    base = tmp_path_factory.mktemp("hardening")
    master = free_port(BROKER_PORTS)
    ports = {"9876": free_port(), "10911": master, "10912": master + 1}
    ports |= {"10921": free_port(BROKER_PORTS), "10931": free_port(BROKER_PORTS), "5557": free_port()}
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "HOME": str(base),
    }
    return Page(folder=base / "hatwisted", ports=ports, environment=environment)


@pytest.fixture(scope="module")
def servers(page: Page) -> Iterator[list[ServerProcess]]:
    """Made and started as the page says."""
    for heading in ("Certificates", "Accounts", "Configurations"):
        page.works(heading)
    commands = [line for line in page.blocks("Start")[0] if line.startswith("twistd ")]
    assert len(commands) == 3
    ports = [page.ports[port] for port in ("9876", "10911", "10921")]
    found = [
        ServerProcess(
            name=f"server-{number}",
            argv=["sh", "-c", f"exec {command} {SMALL if number else ''}"],
            folder=page.folder.parent,
            port=port,
            probe=lambda port: socket.create_connection(("127.0.0.1", port), 5).close(),
            environment=page.environment,
        )
        for number, (command, port) in enumerate(zip(commands, ports, strict=True))
    ]
    with all_stopped(*found):
        for each in found:
            each.start()
        yield found


def test_keys_and_secrets_are_their_owners_alone(page: Page, servers: list[ServerProcess]) -> None:
    secrets = [*page.folder.glob("*.key"), *page.folder.glob("*.yml")]
    assert len(secrets) == 7
    assert {each.stat().st_mode & 0o777 for each in secrets} == {0o600}
    shown = "".join(server.log_text() for server in servers)
    for file in page.folder.glob("*.yml"):
        for secret in re.findall(r"secretKey: (\w+)", file.read_text()):
            assert secret not in shown


@pytest.fixture(scope="module")
def told(page: Page, servers: list[ServerProcess]) -> str:
    """What friends see."""
    return page.works("What has to work")


def test_it_works_for_friends(told: str) -> None:
    assert "first order" in told
    assert told.endswith("ok\n") or not CURL


REASONS = (
    "authenticationEnabled=true: not the accounts of 5.x",
    "connection closed",
    "Need admin permission",
    "Need admin permission",
    "No default permission for topic:Payments|No default permission for Payments",
    "",  # nothing comes, until --idle ends it
    "Check signature failed",
    "handshake failure",
    "[Ee]mpty reply|reset by peer|closed",
    "no peer certificate available",
    "no peer certificate available",
    "no peer certificate available",
    "no peer certificate available",
)
"""Why the lines of the page that have to fail do so, in its order: patterns of what they print."""


@pytest.mark.parametrize("number", range(len(REASONS)))
def test_nobody_else_gets_through(page: Page, told: str, number: int) -> None:
    lines = page.blocks("Start")[1] + page.blocks("What has to be refused")[0]
    wrong = [line for line in lines if line.startswith("! ")]
    assert len(wrong) == len(REASONS)
    if "curl" in wrong[number] and not CURL:
        pytest.skip("curl isn't installed")
    before = [line for line in lines[: lines.index(wrong[number])] if not line.startswith("! ")]
    done = page.run([*before, wrong[number].removeprefix("! ")])
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert re.search(REASONS[number], said), said
    assert "Traceback" not in said


def test_the_log_goes_to_the_slave_encrypted(page: Page, servers: list[ServerProcess]) -> None:
    wait_until(lambda: "broker-a-s" in servers[1].log_text(), SECONDS, "the slave's certificate is named")
    assert "everybody" not in "".join(server.log_text() for server in servers)

"""docs/howto: every block of commands, in one folder with one group that `hatwisted up` has started."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hatwisted.pipeline.spark.javahome import find_java_home
from testbed.brokergroup import log_end_of
from testbed.processes import free_port, wait_until
from tests.support.pages import DOCS, blocks, put_in, run_block, to_run
from tests.support.quickspark import quick_start

PAGES = sorted((DOCS / "howto").glob("*.md"), key=lambda path: path.stem)
READY = re.compile(r"ready: name server (\S+), master \S+:(\d+), slave \S+:(\d+)")
PATIENCE = 90.0
SAID = {
    "slave": ("haslave --conf=", "nothing to say", "ok master", "level    it has all", "SLAVE"),
    "watch": ("SYNC_MASTER", "level    it has all", "ok", 'hatwisted_ha_slave_state{state="', "monitoring"),
    "messages": ('"keys":["order-77"]', "four chairs", "order-77", "21 stored"),
    "groups": ("ledger", *["100 messages to consume"] * 2, " 0 messages to consume"),
    "land": (
        *("rows landed", "10 rows landed", "1010 messages", "celsius"),
        *("1 body didn't fit the schema (1 type)", "exit code 1", "[1, 3]", "type Expected `int`, got `str`"),
        "1,010 rows landed",
    ),
    "audit": ("equal", "no problems found", "shorter log is a copy", "copies are identical"),
}
"""What a page's commands have to print, in this order."""


class Group:
    """What `hatwisted up` has started, and its ports in place of a page's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (command,) = to_run(DOCS / "howto" / "index.md")
        out = folder / "up.out"
        with out.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *command.split()], cwd=folder, stdout=file, stderr=subprocess.STDOUT
            )
        wait_until(lambda: READY.search(out.read_text()), PATIENCE, "the group is ready")
        found = READY.search(out.read_text())
        assert found is not None
        self.names, self.master, self.slave = found[1], int(found[2]), int(found[3])
        self.replaced = {"127.0.0.1:9876": self.names, "10911": self.master, "10921": self.slave}
        self.replaced |= {"5557": free_port(), "8080": free_port()}

    def run(self, code: str) -> str:
        """What a block prints; it has to end with 0."""
        environment = {"NAMESRV_ADDR": self.names}
        if "pipeline audit" in code or "pipeline land -n" in code:
            environment |= quick_start(find_java_home(os.environ))
        done = run_block(put_in(code, self.replaced), self.folder, environment)
        assert done.returncode == 0, (code, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr

    def end(self) -> None:
        for pid in self.folder.glob("*/*.pid"):
            run_block(f"kill $(cat {pid}) && while [ -e {pid} ]; do sleep 0.2; done", self.folder)
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    found = Group(tmp_path_factory.mktemp("howto"))
    try:
        yield found
    finally:
        found.end()


def test_each_page_is_expected_to_say_something() -> None:
    assert {page.stem for page in PAGES} == {*SAID, "index"}


@pytest.mark.parametrize("name", SAID)
def test_the_commands_of_a_page_do_what_it_says(group: Group, name: str) -> None:
    page = DOCS / "howto" / f"{name}.md"
    if "curl" in page.read_text() and shutil.which("curl") is None:
        pytest.skip("curl isn't installed")
    assert len(to_run(page)) >= len(blocks(page)) - 1
    wait_until(lambda: log_end_of(group.master) == log_end_of(group.slave), PATIENCE, "the slave is level")
    said = ""
    for code in to_run(page):
        said += group.run(code)
        wait_until(
            lambda: log_end_of(group.master) == log_end_of(group.slave), PATIENCE, "the slave is level"
        )
    at = 0
    for words in SAID[name]:
        found = said.find(words, at)
        assert found >= 0, (words, said)
        at = found + len(words)

"""`hatwisted up`: a whole group with one command, its messages on both, its end in order, and the next start."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from testbed.brokergroup import log_end_of
from testbed.processes import REPOSITORY, wait_until
from tests.support.patientprogram import PATIENT
from tests.support.upgroup import Upped

END_SECONDS = 90.0


def asked(group: Upped, *words: str, given: bytes = b"") -> bytes:
    """What a command says of a group."""
    done = subprocess.run(
        [*PATIENT, *words],
        env={**os.environ, "NAMESRV_ADDR": group.names, "PYTHONPATH": str(REPOSITORY)},
        input=given,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done
    return done.stdout


def children_of(group: Upped) -> list[str]:
    return Path(f"/proc/{group.process.pid}/task/{group.process.pid}/children").read_text().split()


@contextmanager
def upped(folder: Path, *words: str) -> Iterator[Upped]:
    found = Upped(folder, *words)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            found.end()


def test_messages_are_on_both_and_survive_the_next_start(tmp_path: Path) -> None:
    with upped(tmp_path) as group:
        asked(group, "produce", "Hello", given=b"hello\n")
        assert asked(group, "consume", "Hello", "--from", "first", "--count", "1") == b"hello\n"
        wait_until(lambda: log_end_of(group.master) == log_end_of(group.slave) > 0, 60, "both have it")
        assert b"all well" in asked(group, "status")
        assert group.end() == 0, group.text()
        said = group.text() + group.errors.read_text()
    assert not list(tmp_path.glob("hatwisted-up/*/abort")), "not in order"
    stops = re.findall(r"^(\w+) +\| .*Received SIGTERM", said, re.MULTILINE)
    assert stops == ["slave", "master", "names"]
    assert "Traceback" not in said
    with upped(tmp_path) as group:
        again = asked(group, "consume", "Hello", "-g", "other", "--from", "first", "--count", "1")
        assert again == b"hello\n"
        one_that_ends_takes_the_others_along(group)


def one_that_ends_takes_the_others_along(group: Upped) -> None:
    children = children_of(group)
    assert len(children) == 3
    os.kill(int(children[1]), signal.SIGKILL)
    assert group.process.wait(END_SECONDS) == 1
    assert "master has ended with -9; ending the others" in group.text()
    wait_until(lambda: not any(Path("/proc", each).exists() for each in children), END_SECONDS, "all end")


def test_two_at_once_take_ports_of_their_own(tmp_path: Path) -> None:
    """Each has what it was sent, and when one is killed the other goes on."""
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(2) as threads:
        groups = list(threads.map(lambda folder: Upped(folder, "--json"), folders))
    first, second = groups
    try:
        ports = [port for each in groups for port in (each.names, each.master, each.slave)]
        assert len(set(ports)) == 6
        for number, each in enumerate(groups):
            asked(each, "produce", "Hello", given=b"%d\n" % number)
        assert asked(first, "consume", "Hello", "--from", "first", "--count", "1") == b"0\n"
        none_outlives_a_command_that_is_killed(first)
        assert asked(second, "consume", "Hello", "--from", "first", "--count", "1") == b"1\n"
    finally:
        ended = [each.end() for each in groups if each.process.poll() is None]
    assert ended == [0]


def none_outlives_a_command_that_is_killed(group: Upped) -> None:
    said = [json.loads(line) for line in group.text().splitlines()]
    assert {each["from"] for each in said} == {"names", "master", "slave", "up"}
    assert [each["ready"]["names"] for each in said if "ready" in each] == [group.names]
    children = children_of(group)
    assert len(children) == 3
    group.process.kill()
    group.process.wait(END_SECONDS)
    wait_until(lambda: not any(Path("/proc", each).exists() for each in children), END_SECONDS, "all end")
    assert not list(group.folder.glob("hatwisted-up/*/abort")), "not in order"

"""`hatwisted attach` as an operator runs it, at a master of ours: a whole copy, again, and what is refused."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hatwisted.cli.cluster.newslave import is_served, port_lock
from testbed.brokergroup import OURS, BrokerGroup, log_end_of
from testbed.processes import free_port, wait_until
from testbed.storefiles import first_difference
from tests.support.tutorial import stop_slave

MESSAGES, BATCH = 2000, 100


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    """A master of ours with some files of log, and its name server."""
    folder = tmp_path_factory.mktemp("attached-to")
    with BrokerGroup(folder, namesrv_kind=OURS, role="ASYNC_MASTER") as made:
        assert made.namesrv is not None
        made.namesrv.start()
        made.master.start()
        made.wait_registered(made.master_port)
        with made.master_client() as client:
            batch = [b"x" * 900] * BATCH
            assert {client.send_batch("T", batch).code for _ in range(MESSAGES // BATCH)} == {0}
        yield made


@pytest.fixture
def group(running: BrokerGroup, tmp_path: Path) -> Iterator[BrokerGroup]:
    """The same for all tests, with the master up, and without a slave before and after each."""
    if not running.master.running:
        running.master.start()
        running.wait_registered(running.master_port)
    yield running
    stop_slave(tmp_path)


def begin(group: BrokerGroup, folder: Path, *more: str, name: str = "broker-a") -> subprocess.Popen[str]:
    """The command, run in that folder."""
    words = ["attach", f"127.0.0.1:{group.namesrv_port}", name, "--dir", "copy", *more]
    return subprocess.Popen(
        [sys.executable, "-m", "hatwisted", *words],
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def attach(
    group: BrokerGroup, folder: Path, *more: str, name: str = "broker-a"
) -> subprocess.CompletedProcess[str]:
    process = begin(group, folder, *more, name=name)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that it ended with."""
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_port_is_chosen_when_nobody_else_chooses_one(group: BrokerGroup, tmp_path: Path) -> None:
    with port_lock(print):
        process = begin(group, tmp_path)
        assert process.stderr is not None
        assert process.stderr.readline().startswith("waiting for another `hatwisted up` or `attach`")
        assert not (tmp_path / "copy").exists()
    out, err = process.communicate(timeout=120)
    assert (process.returncode, "level    it has all" in out) == (0, True), err


def test_without_starting_it_says_how(group: BrokerGroup, tmp_path: Path) -> None:
    told = attach(group, tmp_path, "--no-start")
    assert told.returncode == 0, told
    assert "haslave --conf=" in told.stdout and "[Service]" in told.stdout
    _, written = map(json.loads, attach(group, tmp_path, "--no-start", "--json").stdout.splitlines())
    assert "haslave" in written["start"] and "[Service]" in written["unit"]
    conf = (tmp_path / "copy" / "broker.conf").read_text()
    assert "mappedFileSizeCommitLog=1048576\n" in conf
    assert not (tmp_path / "copy" / "store").exists()
    (tmp_path / "copy" / "broker.conf").write_text("brokerName=other\n")
    assert "is of another broker" in refused(attach(group, tmp_path))


def test_a_server_that_comes_to_its_port_before_the_start_isnt_taken_for_the_slave(
    group: BrokerGroup, tmp_path: Path
) -> None:
    plan = json.loads(attach(group, tmp_path, "--no-start", "--json").stdout.splitlines()[0])
    assert not is_served(str(tmp_path / "copy" / "store"))
    with socket.create_server(("127.0.0.1", plan["listenPort"])):
        made = attach(group, tmp_path)
    assert made.returncode == 0, made
    assert "another server has taken the slave's port: trying" in made.stderr
    assert is_served(str(tmp_path / "copy" / "store"))
    assert f"listenPort={plan['listenPort']}\n" not in (tmp_path / "copy" / "broker.conf").read_text()


def test_a_whole_copy_and_again_after_a_stop(group: BrokerGroup, tmp_path: Path) -> None:
    made = attach(group, tmp_path, "--json")
    assert made.returncode == 0, made
    plan, level = map(json.loads, made.stdout.splitlines())
    assert (plan["event"], level["event"]) == ("planned", "level")
    assert [each["listed"] for each in level["nameServers"]] == [True]
    assert log_end_of(plan["listenPort"]) == group.master_end() > MESSAGES * 900
    stop_slave(tmp_path)
    with group.master_client() as client:
        client.send("T", b"while it was away", 0)
    assert "level    it has all" in attach(group, tmp_path).stdout
    assert "level    it has all" in attach(group, tmp_path).stdout, "it runs already"
    wait_until(lambda: log_end_of(plan["listenPort"]) == group.master_end(), 60, "the slave has it all")
    stop_slave(tmp_path)
    group.master.stop()
    assert first_difference(group.master_store, tmp_path / "copy" / "store", plan["logBytes"]) is None


def test_what_is_refused_leaves_nothing_behind(group: BrokerGroup, tmp_path: Path) -> None:
    assert "known there: broker-a" in refused(attach(group, tmp_path, name="broker-b"))
    group.master.stop()
    assert "known there: none" in refused(attach(group, tmp_path))
    assert not (tmp_path / "copy").exists()
    nobody = subprocess.run(
        [sys.executable, "-m", "hatwisted", "attach", f"127.0.0.1:{free_port()}", "broker-a"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "no name server answered" in refused(nobody)

"""`hatwisted doctor` on this host: a broker that runs, a slave beside it, and what keeps one from running."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.brokergroup import OURS, BrokerGroup
from testbed.processes import write_conf

Told = dict[str, tuple[str | None, str]]


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    with BrokerGroup(tmp_path_factory.mktemp("doctor"), namesrv_kind=OURS) as made:
        assert made.namesrv is not None
        made.namesrv.start()
        made.master.start()
        made.wait_registered(made.master_port)
        yield made


def doctor(*words: str, code: int = 0) -> Told:
    """(weight, what) by the name of each check; the last of several."""
    command = [sys.executable, "-m", "hatwisted", "doctor", "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (code, ""), done
    return {each["name"]: (each["weight"], each["what"]) for each in json.loads(done.stdout)}


def slave_conf(group: BrokerGroup, folder: Path, **more: str) -> str:
    return str(write_conf(folder / "slave.conf", {**group.full_slave_settings(), **more}))


def test_a_broker_that_runs(group: BrokerGroup) -> None:
    told = doctor("--conf", str(group.folder / "master.conf"))
    assert told["ports"][0] is None and "this broker runs" in told["ports"][1]
    assert told["name-server"][0] is None


def test_a_slave_that_can_run(group: BrokerGroup, tmp_path: Path) -> None:
    told = doctor("--conf", slave_conf(group, tmp_path))
    assert told["ports"][1].endswith("are free")
    assert told["master"][0] is None and str(group.ha_port) in told["master"][1]


def test_another_file_size_than_its_masters(group: BrokerGroup, tmp_path: Path) -> None:
    told = doctor("--conf", slave_conf(group, tmp_path, mappedFileSizeCommitLog="2097152"), code=1)
    assert told["master"][0] == "problem"
    assert "set mappedFileSizeCommitLog=1048576" in told["master"][1]


def test_somebody_elses_ports(group: BrokerGroup, tmp_path: Path) -> None:
    told = doctor("--conf", slave_conf(group, tmp_path, listenPort=str(group.ha_port)), code=1)
    assert told["ports"] == ("problem", f"{group.ha_port}: in use")


def test_nobody_there_and_a_certificate_that_isnt_one(group: BrokerGroup, tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("nonsense")
    keys = {"haTlsCertPath": str(tmp_path / "no.pem"), "haTlsKeyPath": str(tmp_path / "no.pem")}
    conf = slave_conf(group, tmp_path, namesrvAddr="127.0.0.1:1", **keys)
    told = doctor("--conf", conf, code=1)
    assert told["name-server"][0] == told["master"][0] == told["certificate"][0] == "problem"


def test_a_file_that_is_wrong_ends_there(tmp_path: Path) -> None:
    conf = write_conf(tmp_path / "broker.conf", {"listenPort": "many"})
    told = doctor("--conf", str(conf), code=1)
    assert set(told) == {"versions", "configuration"}
    assert told["configuration"] == (
        "problem",
        f"{conf}:1: listenPort: can't be 'many'; allowed: a whole number from 3 to 65534",
    )


def test_people_get_lines(group: BrokerGroup, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatwisted", "doctor", "--conf", slave_conf(group, tmp_path)]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    assert any(line.startswith("ok master") for line in shown.splitlines()), shown

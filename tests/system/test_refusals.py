"""A start that can't work: one line on standard error that says what and where, exit status 1, no traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.processes import BROKER_PORTS, REPOSITORY, free_port, twistd, write_conf
from tests.support.golden import MASTER
from tests.support.soak import in_soak

TWISTD = str(Path(sys.executable).with_name("twistd"))
CONF = REPOSITORY / "conf"

MODES = {"foreground": ["-n"], "daemon": []}
EITHER = pytest.mark.parametrize("mode", MODES, indirect=True)
"""Of tests that `make test`, too, tries both ways: one for each place that a start can end at before the fork."""


@pytest.fixture(params=["foreground", in_soak("daemon", why="it ends before the fork, as others do")])
def mode(request: pytest.FixtureRequest) -> list[str]:
    return MODES[request.param]


def run(folder: Path, mode: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """`twistd ARGUMENTS` in `folder`, which must end by itself."""
    return subprocess.run(
        [TWISTD, *mode, "--pidfile", str(folder / "pid"), "--logfile", str(folder / "log"), *arguments],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def refusal(folder: Path, mode: list[str], *arguments: str) -> str:
    """The one line that such a start ends with."""
    ended = run(folder, mode, *arguments)
    assert ended.returncode == 1, ended
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert not (folder / "pid").exists()
    return ended.stderr.rstrip("\n").replace(str(folder), "F")


def conf(folder: Path, **settings: str | int | Path) -> str:
    return str(write_conf(folder / "broker.conf", settings))


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A broker's port with somebody else listening on it."""
    # The one below it is a broker's as well, whose HA port this is.
    port = free_port((-3, -2, -1, 0, 1))
    with socket.create_server(("", port)):
        yield port


@EITHER
def test_a_wrong_value(tmp_path: Path, mode: list[str]) -> None:
    path = conf(tmp_path, brokerName="a", flushDiskType="SYNC")
    assert refusal(tmp_path, mode, "hamaster", "--conf", path) == (
        "hamaster: F/broker.conf:2: flushDiskType: can't be 'SYNC'; allowed: one of ASYNC_FLUSH, SYNC_FLUSH"
    )


def test_a_file_that_is_no_text(tmp_path: Path, mode: list[str]) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(b"brokerName=a\nlistenPort=10911\n" + bytes(4096))
    for program in ("hamaster", "haslave", "hanamesrv"):
        assert refusal(tmp_path, mode, program, "--conf", str(path)).startswith(
            f"{program}: F/broker.conf:3: byte 30 of the file is 0x00, a control character: "
        )


@EITHER
def test_a_missing_file(tmp_path: Path, mode: list[str]) -> None:
    line = refusal(tmp_path, mode, "hanamesrv", "--conf", str(tmp_path / "none.conf"))
    assert line == "hanamesrv: F/none.conf: can't be read: No such file or directory"


def test_a_slaves_file_given_to_hamaster(tmp_path: Path, mode: list[str]) -> None:
    path = CONF / "2m-2s-async" / "broker-a-s.properties"
    line = refusal(tmp_path, mode, "hamaster", "--conf", str(path))
    assert line.startswith(f"hamaster: {path}:7: brokerRole: SLAVE is not for hamaster; allowed: "), line


def test_a_masters_file_given_to_haslave(tmp_path: Path, mode: list[str]) -> None:
    path = CONF / "2m-2s-sync" / "broker-a.properties"
    line = refusal(tmp_path, mode, "haslave", "--conf", str(path))
    assert line.startswith(f"haslave: {path}:7: brokerRole: SYNC_MASTER is not for haslave; allowed: "), line


def test_B02_a_slave_with_id_0(tmp_path: Path, mode: list[str]) -> None:
    path = conf(tmp_path, brokerRole="SLAVE", brokerId=0)
    line = refusal(tmp_path, mode, "haslave", "--conf", path)
    assert line.startswith("haslave: F/broker.conf:2: brokerId: 0 is not a slave's id; allowed: "), line


@pytest.mark.parametrize("program", ["hamaster", "haslave", "hanamesrv"])
def test_a_port_in_use(tmp_path: Path, mode: list[str], taken_port: int, program: str) -> None:
    role = ["--set", "brokerRole=SLAVE", "--set", "brokerId=1"] if program == "haslave" else []
    line = refusal(tmp_path, mode, program, "--set", f"listenPort={taken_port}", *role)
    place = "--set: listenPort"
    assert line == f"{program}: {place}: can't listen on 0.0.0.0:{taken_port}: Address already in use"


@EITHER
def test_B15_the_ha_port_in_use(tmp_path: Path, mode: list[str], taken_port: int) -> None:
    path = conf(tmp_path, brokerName="a", listenPort=taken_port - 1)
    assert refusal(tmp_path, mode, "hamaster", "--conf", path) == (
        f"hamaster: F/broker.conf:2: listenPort: can't listen on 0.0.0.0:{taken_port}: Address already in use "
        "(listenPort + 1, for slaves)"
    )


def test_an_address_of_another_host(tmp_path: Path, mode: list[str]) -> None:
    path = conf(tmp_path, listenPort=free_port(BROKER_PORTS), bindAddress="192.0.2.77")
    line = refusal(tmp_path, mode, "hanamesrv", "--conf", path)
    assert line.startswith("hanamesrv: F/broker.conf:2: bindAddress: can't listen on 192.0.2.77:"), line


def test_a_broker_address_that_is_none(tmp_path: Path, mode: list[str]) -> None:
    path = conf(tmp_path, listenPort=free_port(BROKER_PORTS), brokerIP1="nowhere.invalid")
    line = refusal(tmp_path, mode, "hamaster", "--conf", path)
    assert line.startswith("hamaster: F/broker.conf:2: brokerIP1: nowhere.invalid has no address: "), line


def test_a_file_in_the_stores_place(tmp_path: Path, mode: list[str]) -> None:
    (tmp_path / "store").write_text("")
    line = refusal(tmp_path, mode, "hamaster", "--set", f"listenPort={free_port(BROKER_PORTS)}")
    assert line == "hamaster: configuration: storePathRootDir: F/store: File exists"


@EITHER
def test_log_files_of_another_size(tmp_path: Path, mode: list[str], damaged_store: Path) -> None:
    path = conf(tmp_path, listenPort=free_port(BROKER_PORTS), mappedFileSizeCommitLog=1 << 20)
    line = refusal(tmp_path, mode, "hamaster", "--conf", path)
    assert line.startswith(
        "hamaster: F/broker.conf:2: mappedFileSizeCommitLog: F/store/commitlog/00000000000000000000 has 65536 "
    ), line


def test_a_store_that_another_process_owns(tmp_path: Path, mode: list[str]) -> None:
    store = tmp_path / "store"
    port = free_port(BROKER_PORTS)
    path = write_conf(tmp_path / "owner.conf", {"listenPort": port, "storePathRootDir": store})
    owner = twistd("hamaster", "owner", tmp_path / "owner", path, port)
    owner.start()
    try:
        other = ["--set", f"listenPort={free_port(BROKER_PORTS)}", "--set", f"storePathRootDir={store}"]
        line = refusal(tmp_path, mode, "hamaster", *other)
        assert line.startswith("hamaster: --set: storePathRootDir: F/store/lock is held by "), line
        assert str(owner.pid) in line, line
        assert owner.running
    finally:
        owner.stop()


@pytest.fixture
def damaged_store(tmp_path: Path) -> Path:
    """The golden log with one bit of its second record's body flipped."""
    folder = tmp_path / "store" / "commitlog"
    folder.mkdir(parents=True)
    log = bytearray((MASTER / "commitlog" / "00000000000000000000").read_bytes())
    log[227 + 88] ^= 1
    (folder / "00000000000000000000").write_bytes(log)
    return folder / "00000000000000000000"


SMALL = ["--set", "mappedFileSizeCommitLog=65536", "--set", "maxMessageSize=32768"]


def test_a_damaged_log(tmp_path: Path, damaged_store: Path) -> None:
    before = damaged_store.read_bytes()
    line = refusal(tmp_path, ["-n"], "hamaster", "--set", f"listenPort={free_port(BROKER_PORTS)}", *SMALL)
    assert line.startswith("hamaster: commit log damaged at offset 227 "), line
    assert damaged_store.read_bytes() == before


def test_a_damaged_log_found_by_a_daemon(tmp_path: Path, damaged_store: Path) -> None:
    """Found after the fork: our line in the log and on the terminal, where twistd adds its own words."""
    ended = run(tmp_path, [], "hamaster", "--set", f"listenPort={free_port(BROKER_PORTS)}", *SMALL)
    assert ended.returncode == 1
    line = ended.stderr.partition("\n")[0]
    assert line.startswith("hamaster: commit log damaged at offset 227 "), ended.stderr
    assert line.endswith("see 'hatwisted log repair'"), line
    assert "Traceback" not in ended.stderr
    assert "can't start: commit log damaged at offset 227 " in (tmp_path / "log").read_text()
    assert not (tmp_path / "pid").exists()

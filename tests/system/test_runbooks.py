"""docs/runbooks, as they stand there: a dead master, a full disk, a new version. From Java: tests/interop."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from testbed.brokergroup import OURS, QUICK_SYNC, SMALL_STORE, BrokerGroup
from testbed.processes import BROKER_PORTS, REPOSITORY, free_port, wait_until, write_conf
from testbed.storefiles import first_difference, log_end
from tests.support.fulldiskseries import missing as no_small_disks
from tests.support.lastrelease import Unknown, last_release, sources
from tests.support.pages import run_block
from tests.support.runbooks import TOPIC, Runbook, Traffic, missing_from
from tests.support.soak import only_in_soak

SECONDS = 120.0
DISK_BYTES = 96 << 20
SERVICE_NOT_AVAILABLE = 14
SOME = 100
SETTINGS = {**SMALL_STORE, "maxMessageSize": 65536}
"""A message fits into a file: `conf check` finds no problems."""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as leaving:
        yield leaving


def some_stored(traffic: Traffic, count: int = SOME) -> None:
    goal = len(traffic.stored) + count
    wait_until(lambda: len(traffic.stored) >= goal, SECONDS, f"{count} more messages are stored")


def test_the_slave_takes_its_dead_master_s_place(tmp_path: Path, stack: ExitStack) -> None:
    group = stack.enter_context(BrokerGroup(tmp_path, namesrv_kind=OURS, settings=SETTINGS))
    second = f"--dir second --port {free_port(BROKER_PORTS)}"
    old = tmp_path / "old"
    replaced = {"/data/old": old, "--dir second": second}
    group.master_store = old / "store"
    assert group.namesrv is not None
    group.namesrv.start()
    group.master.start()
    group.wait_registered(group.master_port)
    page = Runbook("dead-master", tmp_path, group.namesrv_port, replaced)
    stack.callback(page.end)
    attach = f"hatwisted attach 127.0.0.1:9876 broker-a --dir copy --port {free_port(BROKER_PORTS)}"
    page.run(f"{attach} --no-start")
    with open(tmp_path / "copy" / "broker.conf", "a") as conf:
        conf.writelines(f"{key}={value}\n" for key, value in QUICK_SYNC.items())
    page.run(attach)
    with Traffic(group.namesrv_port) as traffic:
        some_stored(traffic)
    page.run(f"hatwisted consume {TOPIC} --group billing --from first --count 10")
    progress = tmp_path / "copy" / "store" / "config" / "consumerOffset.json"
    wait_until(
        lambda: progress.exists() and f"{TOPIC}@billing" in progress.read_text(),
        SECONDS,
        "the slave knows of the group",
    )
    group.master.kill()
    shutil.copy(tmp_path / "master.conf", old / "broker.conf")
    said = {heading: page.run_section(heading) for heading in page.headings()}
    assert "no problems found" in said["Stop the slave and look at its log"]
    assert "billing" in said["Look whether it serves"]
    assert "level    it has all" in said["Give it a slave"]
    page.end()
    for store in (tmp_path / "copy" / "store", tmp_path / "second" / "store", old / "store"):
        assert missing_from(store, [*traffic.stored, b"the first one since"]) == []
    assert re.search(r" 3 SLAVE .* level *$", said["When the old machine comes back"], re.MULTILINE)


def test_a_full_disk_is_found_and_puts_are_taken_again(tmp_path: Path, stack: ExitStack) -> None:
    if reason := no_small_disks(tmp_path):
        pytest.skip(f"small disks can't be made here: {reason}")
    disk = tmp_path / "data"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", disk], check=True)
    stack.callback(subprocess.run, ["umount", disk], check=True)
    settings = {**SETTINGS, "cleanResourceInterval": 1000}
    group = stack.enter_context(
        BrokerGroup(tmp_path, namesrv_kind=OURS, role="ASYNC_MASTER", settings=settings)
    )
    group.master_store = disk / "store"
    assert group.namesrv is not None
    group.namesrv.start()
    group.master.start()
    group.wait_registered(group.master_port)
    with Traffic(group.namesrv_port) as traffic:
        some_stored(traffic)
    ballast = disk / "heap.hprof"
    run_block(f"head -c {DISK_BYTES} /dev/zero > {ballast}", tmp_path)

    def refused() -> bool:
        with group.master_client() as client:
            return client.send(TOPIC, b"no room").code == SERVICE_NOT_AVAILABLE

    wait_until(refused, SECONDS, "puts are refused")
    page = Runbook("full-disk", tmp_path, group.namesrv_port, {"/data": disk})
    said = {heading: page.run_section(heading) for heading in page.headings()}
    assert "its disk is 100% full: it takes no messages above 90%" in said["See which disk"]
    assert str(ballast) in said["See what fills it"]
    assert "1 stored" in said["Below 85 % puts are taken again"]
    group.stop()
    assert missing_from(group.master_store, [*traffic.stored, b"taken again"]) == []


def installed(folder: Path, sources: Path) -> None:
    """An environment's programs that run `sources`, with this environment's libraries."""
    (folder / "bin").mkdir(parents=True)
    runs = {"twistd": Path(sys.executable).with_name("twistd"), "hatwisted": "-m hatwisted"}
    for program, words in runs.items():
        path = folder / "bin" / program
        path.write_text(f'#!/bin/sh\nPYTHONPATH="{sources}" exec "{sys.executable}" {words} "$@"\n')
        path.chmod(0o755)


def last_version(folder: Path) -> Path:
    """The sources of the last release."""
    try:
        release = last_release(REPOSITORY)
    except Unknown as why:
        pytest.skip(f"no release to upgrade from: {why}")
    print(f"upgraded from {release.version} ({release.commit[:12]}, by {release.by})")
    return sources(REPOSITORY, release, folder)


@only_in_soak("25 s")
def test_a_group_comes_to_a_new_version_and_back(tmp_path: Path, stack: ExitStack) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    installed(old, last_version(tmp_path / "sources"))
    installed(new, REPOSITORY)
    namesrv_port = free_port()
    ports = {"master": free_port(BROKER_PORTS), "slave": free_port(BROKER_PORTS)}
    common = {
        **SETTINGS, "brokerName": "broker-a", "namesrvAddr": f"127.0.0.1:{namesrv_port}",
        "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1",
    }  # fmt: skip
    for name, role in (("master", "ASYNC_MASTER"), ("slave", "SLAVE")):
        own = {"brokerRole": role, "brokerId": int(name == "slave"), "listenPort": ports[name]}
        (tmp_path / name).mkdir()
        store = {"storePathRootDir": tmp_path / name / "store", "haFirstSync": "minOffset"}
        write_conf(tmp_path / name / "broker.conf", {**common, **own, **store})
    (tmp_path / "namesrv").mkdir()
    write_conf(
        tmp_path / "namesrv" / "namesrv.conf", {"listenPort": namesrv_port, "bindAddress": "127.0.0.1"}
    )

    def restart_all(folder: Path) -> None:
        """By the page, with the servers of an environment; looked at with the new one's commands."""
        replaced = {"/opt/hatwisted-new/bin/twistd": folder / "bin" / "twistd", "/opt/hatwisted-new": new}
        page = Runbook("upgrade", tmp_path, namesrv_port, replaced)
        first, *others = page.headings()
        install, check = (block.code for block in page.blocks if block.heading == first)
        assert "pip install" in install
        for code in (check, *(block.code for block in page.blocks if block.heading in others)):
            page.run(code)

    end = Runbook("upgrade", tmp_path, namesrv_port)
    stack.callback(end.end)
    for name, program in (("namesrv", "hanamesrv"), ("master", "hamaster"), ("slave", "haslave")):
        conf = "namesrv.conf" if name == "namesrv" else "broker.conf"
        end.run(
            f"old/bin/twistd --pidfile={name}/{name}.pid --logfile={name}/{name}.log --rundir={name} "
            f"{program} --conf=$PWD/{name}/{conf}"
        )
    with Traffic(namesrv_port) as traffic:
        some_stored(traffic)
        restart_all(new)
        some_stored(traffic)
        restart_all(old)
        some_stored(traffic)
    wait_until(lambda: log_end(tmp_path / "slave" / "store") > 0, SECONDS, "the slave has copied")
    end.end()
    stores = tmp_path / "master" / "store", tmp_path / "slave" / "store"
    for store in stores:
        assert missing_from(store, traffic.stored) == []
    assert first_difference(*stores, log_end(stores[0])) is None

"""A broker of ours on the kernel in Python beside one of RocketMQ's: as it is installed where no compiler is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.brokergroup import JAVA, OURS, BrokerGroup, Kind
from tests.interop.conftest import pair_name
from tests.interop.test_replication import SOME, assert_faithful
from tests.support.kerneltwins import PARTS
from tests.support.linkproxy import LinkProxy
from tests.support.producer import Producer
from tests.support.soak import in_soak

PAIRS = [(OURS, JAVA), in_soak((JAVA, OURS), why="a JVM takes seconds, and the other way round is tried")]


def compiled_modules(pid: int | str) -> set[str]:
    """The compiled modules of the kernel that a process has loaded, as its memory is mapped."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.rpartition("/")[2] for line in lines if "/hatwisted/kernel/_" in line}


@pytest.fixture
def pure(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is started afterwards is told to take Python's; RocketMQ doesn't listen."""
    monkeypatch.setenv("HATWISTED_PURE", "1")
    yield


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc what a process has loaded")
@pytest.mark.parametrize("kinds", PAIRS, indirect=True, ids=pair_name)
def test_logs_are_identical_on_the_twin_in_python(
    pure: None, kinds: tuple[Kind, Kind], group: BrokerGroup, link: LinkProxy
) -> None:
    ours = group.master if kinds[0] is OURS else group.slave
    assert compiled_modules(ours.pid) == set()
    assert bool(compiled_modules("self")) == bool(PARTS), "where they are built, that would show"
    with Producer(group.master_port) as producer:
        producer.wait_acked(SOME)
        link.cut()
        producer.wait_acked(SOME)
    assert_faithful(group, producer)

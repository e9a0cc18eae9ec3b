"""The data pipeline's examples on a store that RocketMQ wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from testbed.brokergroup import OURS, BrokerGroup
from tests.support.exampleprogram import lines_of
from tests.support.golden import SLAVE
from tests.support.soak import only_in_soak


@pytest.fixture
def store(java: None, tmp_path: Path) -> str:
    shutil.copytree(SLAVE, tmp_path / "store")
    return str(tmp_path / "store")


def test_a_log_is_landed_and_audited(store: str, tmp_path: Path) -> None:
    landed, verdict, *topics = lines_of("landing", tmp_path, store, "table")
    assert landed == "landed: 246 rows"
    assert verdict == "audit: 2 copies are identical from 0 to 111713"
    assert "TopicB: 153 messages, 70038 bytes" in topics


@only_in_soak("a Spark of its own for most of a minute")
def test_a_stream_is_written_repeated_and_read_once(java: None, tmp_path: Path) -> None:
    with BrokerGroup(tmp_path / "cluster", namesrv_kind=OURS) as group:
        group.start()
        shown = lines_of("sparksink", tmp_path, f"127.0.0.1:{group.namesrv_port}")
    assert shown[-1] == "200 messages, 100 rows"


@only_in_soak("a Spark of its own for half a minute")
def test_the_source_tells_topics_and_the_biggest_messages(store: str, tmp_path: Path) -> None:
    shown = lines_of("sparksource", tmp_path, store)
    assert "TopicB: 153 messages, 70038 bytes" in shown
    sizes = [int(line.split()[0]) for line in shown[-3:]]
    assert sizes == sorted(sizes, reverse=True)

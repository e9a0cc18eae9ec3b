"""Our commands for operators, on a group of RocketMQ's: a master, its slave of ours, and their name server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.brokergroup import JAVA, OURS, BrokerGroup
from testbed.processes import REPOSITORY, wait_until
from tests.interop.conftest import needs
from tests.support.patientprogram import PATIENT

SECONDS = 120.0


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    needs(JAVA)
    folder: Path = tmp_path_factory.mktemp("commands")
    with BrokerGroup(folder, JAVA, OURS, JAVA, role="ASYNC_MASTER") as pair:
        pair.start()
        yield pair


def cli(group: BrokerGroup, *words: str, given: str = "", code: int = 0) -> str:
    return run(group, *words, given=given, code=code).stdout


def run(group: BrokerGroup, *words: str, given: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*PATIENT, *words, "-n", f"127.0.0.1:{group.namesrv_port}"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        input=given, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done


def told(group: BrokerGroup, *words: str) -> Any:
    return json.loads(cli(group, *words, "--json"))


def test_single_messages_of_a_rocketmq_broker(group: BrokerGroup) -> None:
    line = json.dumps({"body": "hello", "keys": ["k1"]}) + "\n"
    sent = json.loads(cli(group, "produce", "Single", "--ndjson", "--json", given=line))
    place = f"Single/{sent['queueId']}/{sent['queueOffset']}"
    for words in (
        [sent["offsetMessageId"]],
        [place],
        ["k1", "-t", "Single"],
        [sent["messageId"], "-t", "Single"],
    ):
        wait_until(lambda words=words: told_or_none(group, *words), SECONDS, f"{words} is found")
        found = told(group, "msg", "get", *words)
        assert (found["messageId"], found["body"]) == (sent["messageId"], "hello")


def told_or_none(group: BrokerGroup, *words: str) -> bool:
    """Is it there already? RocketMQ's index follows its log."""
    try:
        return bool(cli(group, "msg", "get", *words, "--json"))
    except AssertionError:
        return False


def test_settings_figures_and_routes_of_a_rocketmq_broker(group: BrokerGroup) -> None:
    assert told(group, "broker", "config", "get", "broker-a", "brokerRole") == {"brokerRole": "ASYNC_MASTER"}
    cli(group, "broker", "config", "set", "broker-a", "fileReservedTime=48")
    assert told(group, "broker", "config", "get", "broker-a", "fileReservedTime") == {
        "fileReservedTime": "48"
    }
    assert "commitLogMaxOffset" in told(group, "broker", "stats", "broker-a")
    assert run(group, "topic", "create", "Routed", "-q", "4").stderr == ""
    cli(group, "broker", "writable", "broker-a", "off")
    assert told(group, "topic", "route", "Routed")[0]["perm"] == 4
    cli(group, "broker", "writable", "broker-a", "on")
    assert told(group, "topic", "route", "Routed")[0]["perm"] == 6


def test_the_list_of_a_mixed_group(group: BrokerGroup) -> None:
    group.wait_caught_up()
    wait_until(lambda: len(told(group, "cluster", "list")) == 2, SECONDS, "both are registered")
    master, slave = told(group, "cluster", "list")
    assert (master["role"], master["version"], master["state"]) == ("master", "V4_9_7", "serving")
    assert (slave["role"], slave["state"], slave["lag"]) == ("slave", "copying", 0)


def test_looking_at_a_topic_of_a_rocketmq_broker(group: BrokerGroup) -> None:
    cli(group, "produce", "Looked", given="a\nb\n")
    for _ in range(2):
        assert sorted(cli(group, "consume", "Looked", "--from", "first", "-c", "2").split()) == ["a", "b"]


def test_a_queue_of_a_rocketmq_broker_from_an_offset_to_its_end(group: BrokerGroup) -> None:
    cli(group, "topic", "create", "Kcat", "-q", "2")
    lines = "".join(f"k:{number}\n" for number in range(20))
    cli(group, "produce", "Kcat", "-K", ":", given=lines)
    places = cli(group, "consume", "Kcat", "-o", "beginning", "-e", "-f", r"%p/%o %k %s\n").split("\n")[:-1]
    assert len(places) == 20
    queue = places[0].partition("/")[0]
    assert [line.partition(" ")[0] for line in places] == [f"{queue}/{number}" for number in range(20)]
    assert cli(group, "consume", "Kcat", "-p", queue, "-o", "-3", "-e").split() == ["17", "18", "19"]
    assert cli(group, "consume", "Kcat", "-p", queue, "-o", "s@1h", "-c", "1").split() == ["0"]


def test_groups_of_a_rocketmq_broker_are_skipped_and_cloned(group: BrokerGroup) -> None:
    cli(group, "topic", "create", "Moved", "-q", "2")
    cli(group, "produce", "Moved", given="a\nb\nc\nd\n")
    cli(group, "consume", "Moved", "-g", "first", "--from", "first", "-c", "1")
    assert behind(group, "first") == 3
    cli(group, "group", "clone", "first", "second", "--yes")
    wait_until(lambda: "second" in cli(group, "group", "list"), SECONDS, "it is made")
    rest = cli(group, "consume", "Moved", "-g", "second", "--from", "last", "-c", "3").split()
    assert len(rest) == 3, "it began where the other one is, not at the end"
    skipped = told(group, "group", "skip", "first", "Moved", "--yes")
    assert sum(each["offset"] for each in skipped) == 4
    assert behind(group, "first") == 0


def behind(group: BrokerGroup, name: str) -> int:
    (found,) = told(group, "group", "lag", name)["groups"]
    return int(found["behind"])

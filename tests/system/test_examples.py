"""The client's examples against a name server, a SYNC master and a slave of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.brokergroup import OURS, BrokerGroup
from testbed.processes import free_port
from tests.support.exampleprogram import CLIENT, FOLDER, PIPELINE, SECONDS, lines_of, started


@pytest.fixture(scope="module")
def name_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerGroup(tmp_path_factory.mktemp("examples"), namesrv_kind=OURS) as group:
        group.start()
        yield f"127.0.0.1:{group.namesrv_port}"


def test_every_example_has_its_test() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted((*CLIENT, *PIPELINE))


def test_sends_that_are_gathered_fail_aloud(tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    with started("aio_producer", tmp_path, nobody) as process:
        said, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, said) == (1, "")
    assert f"100 not stored, the first of them: no name server answered: {nobody}" in errors


def test_what_the_producer_sends_the_consumer_prints(name_servers: str, tmp_path: Path) -> None:
    one, many = lines_of("producer", tmp_path, name_servers)
    assert re.fullmatch(r"OK: [0-9A-F]{32} in Examples/\d at 0", one)
    assert re.fullmatch(r"OK: 10 messages in a row from offset [01] on", many)
    received = lines_of("consumer", tmp_path, name_servers)
    expected = ["greeting: hello", *(f"count: number {n}" for n in range(10))]
    assert sorted(line.partition(" ")[2] for line in received) == sorted(expected)

    lines_of("producer", tmp_path, name_servers)
    again = lines_of("consumer", tmp_path, name_servers, "11")
    assert not set(received) & set(again), "what was settled came again"


def test_bookings_keep_their_order(name_servers: str, tmp_path: Path) -> None:
    assert lines_of("ordered", tmp_path, name_servers) == ["alice: 0 1 2 3 4", "bob: 0 1 2 3 4"]


def test_only_the_paid_order_is_delivered(name_servers: str, tmp_path: Path) -> None:
    shown = lines_of("transactional", tmp_path, name_servers)
    assert shown == ["order-1: COMMIT", "order-2: ROLLBACK", "to be delivered: order-1"]


def test_the_reminder_comes_later(name_servers: str, tmp_path: Path) -> None:
    (shown,) = lines_of("delayed", tmp_path, name_servers)
    late = re.fullmatch(r"stand up: delivered ([\d.]+) s after it was sent", shown)
    assert late is not None and float(late[1]) >= 1.0


def test_on_asyncio(name_servers: str, tmp_path: Path) -> None:
    sent = lines_of("aio_producer", tmp_path, name_servers)
    assert sum(int(line.partition(": ")[2]) for line in sent) == 100
    *committed, count = lines_of("aio_consumer", tmp_path, name_servers)
    assert (len(committed), count) == (10, "read 100")
    assert lines_of("aio_consumer", tmp_path, name_servers) == ["read 0"], "what was committed came again"
    shown = lines_of("aio_transactional", tmp_path, name_servers)
    assert shown == ["order-1: COMMIT", "order-2: ROLLBACK", "to be delivered: order-1"]


def test_administration(name_servers: str, tmp_path: Path) -> None:
    master, slave, *rest = lines_of("admin", tmp_path, name_servers)
    assert re.fullmatch(r"broker-a 0 at 127\.0\.0\.1:\d+: log ends at \d+", master)
    assert re.fullmatch(r"broker-a 1 at 127\.0\.0\.1:\d+: log ends at \d+", slave)
    assert rest == ["topic Invoices is there: True", "consumed: 1", "to be consumed again: 1"]

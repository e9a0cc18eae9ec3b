"""`hatwisted audit` of two brokers that run as processes, with bits flipped in their files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.brokergroup import BrokerGroup
from testbed.processes import REPOSITORY, dies_with_us
from testbed.storefiles import log_files
from tests.support.copies import flip

MESSAGES, SIZE = 400, 4000  # more than one log file of 1 MiB


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    with BrokerGroup(tmp_path_factory.mktemp("audited")) as group:
        group.start()
        with group.master_client() as client:
            for number in range(MESSAGES):
                assert client.send("Audited", bytes([number % 251]) * SIZE, 0, {}).code == 0
        group.wait_caught_up()
        yield group


def audit(group: BrokerGroup, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code, and what was found."""
    addresses = (f"127.0.0.1:{port}" for port in (group.master_port, group.slave_port))
    argv = [*dies_with_us(), sys.executable, "-m", "hatwisted", "audit", *addresses, "--json", *words]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(argv, capture_output=True, env=environment, timeout=120, check=False)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


def test_B171_equal_copies_and_the_masters_rot(pair: BrokerGroup) -> None:
    code, found = audit(pair)
    assert (code, found["differences"], found["end"]) == (0, [], pair.master_end())
    at = 1_100_000
    flip(pair.master_store, at)
    code, found = audit(pair, "--repair")
    (difference,) = found["differences"]
    (record,) = difference["records"]
    assert (code, difference["begin"], difference["end"]) == (1, at, at + 1)
    assert (record["rotten"], record["topic"], "sideFile" in record) == ("master", "Audited", False)
    flip(pair.master_store, at)


def test_B173_the_slaves_rot_in_two_files_is_repaired(pair: BrokerGroup) -> None:
    places = [300_000, 1_300_000]
    for at in places:
        flip(pair.slave_store, at)
    code, found = audit(pair)
    assert (code, [each["begin"] for each in found["differences"]]) == (1, places)
    code, found = audit(pair, "--repair")
    kept = [Path(record["sideFile"]) for each in found["differences"] for record in each["records"]]
    assert (code, len(kept)) == (0, 2)
    assert all(path.parent == pair.slave_store / "repair" and path.stat().st_size for path in kept)
    assert audit(pair)[1]["differences"] == []
    copies = [
        b"".join(path.read_bytes() for _, path in log_files(store))
        for store in (pair.master_store, pair.slave_store)
    ]
    assert copies[0][: pair.master_end()] == copies[1][: pair.master_end()]

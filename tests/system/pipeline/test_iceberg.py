"""Iceberg tables as programs make them: landed once through kills and rivals, here and at an object store."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pytest
from pyiceberg.catalog import load_catalog

from tests.support.growing import GrowingStore
from tests.support.icebergcatalog import iceberg_catalog
from tests.support.lakes import Lake, lake_of
from tests.support.moments import wait_for_another
from tests.support.pages import DOCS, put_in
from tests.support.processgroup import Program, process_group
from tests.support.soak import only_in_soak, times

pytestmark = pytest.mark.timeout(600)
KILLS = times(3)
NAME = "iceberg:lake.rocketmq.messages"
LANDING = """
import sys
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.land.landing import LandOptions, land

how = LandOptions(max_bytes_per_trigger=int(sys.argv[2]), compact_below=1 << 20)
for _ in range(100):
    try:
        found = land([sys.argv[1]], sys.argv[3], how, progress=lambda *at: print("landed", flush=True))
    except PipelineError as error:
        print("refused", error, flush=True)
        if "took over" in str(error):
            break
    else:
        if not found.rows:
            break
"""
"""Lands until there is nothing more, or another one takes over; tries again if the catalog is busy."""
LATEST = """
import sys
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.latest import latesttable

latesttable.MERGE_BYTES = 100_000
for _ in range(100):
    try:
        told = lambda *at: print("read", flush=True)
        found = latesttable.latest(sys.argv[1], sys.argv[2], key="queue_offset", progress=told)
    except PipelineError as error:
        print("refused", error, flush=True)
    else:
        if not found.rows:
            break
"""
"""Keeps the last messages until there is nothing new."""


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[None]:
    with iceberg_catalog(tmp_path):
        yield


@pytest.fixture
def store(tmp_path: Path) -> GrowingStore:
    return GrowingStore(tmp_path / "broker-a")


def landing(programs: ExitStack, store: GrowingStore, max_bytes: int) -> Program:
    command = (sys.executable, "-c", LANDING, str(store.root), str(max_bytes), NAME)
    return programs.enter_context(process_group(*command, stdout=subprocess.PIPE))


def rest(program: Program) -> str:
    """What it prints until its end, which has to be a good one."""
    assert program.stdout is not None
    told = program.stdout.read()
    assert program.wait() == 0, told
    return told


def offsets(**more: str) -> list[int]:
    """Of the table. more: properties of the catalog."""
    rows = (
        load_catalog("lake", **more)
        .load_table(("rocketmq", "messages"))
        .scan(selected_fields=("physical_offset",))
    )
    found: list[int] = rows.to_arrow()["physical_offset"].to_pylist()
    return sorted(found)


def at_lake(lake: Lake) -> dict[str, str]:
    """Properties of the catalog, so that its tables are there."""
    found = {"warehouse": f"{lake.address}/warehouse"}
    if lake.address.startswith("s3://"):
        found |= {
            "s3.endpoint": lake.environment["AWS_ENDPOINT_URL"],
            "s3.region": lake.environment["AWS_REGION"],
        }
    return found


def test_exactly_once_through_kills(catalog: None, store: GrowingStore, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    warehouse = tmp_path / "warehouse"
    with ExitStack() as programs:
        for number in range(KILLS):
            store.append(800)
            process = landing(programs, store, 30_000)
            assert process.stdout is not None
            for _ in range(chance.randrange(2, 6)):
                process.stdout.readline()
            if number % 2:
                # Files that no snapshot mentions yet, or a snapshot that the catalog doesn't know.
                kind = chance.choice(("*.parquet", "*.avro", "*.metadata.json"))
                wait_for_another(lambda: warehouse.rglob(kind), 5)  # noqa: B023
            process.send_signal(signal.SIGKILL)
            process.wait()
            seen = offsets()
            assert seen == store.offsets[: len(seen)]
        assert "refused" not in rest(landing(programs, store, 1 << 30))
    assert offsets() == store.offsets
    table = load_catalog("lake").load_table(("rocketmq", "messages"))
    mentioned = table.inspect.all_data_files()["file_path"].to_pylist()
    assert {f"file://{path}" for path in warehouse.rglob("*.parquet")} == {*mentioned}


def test_of_landings_at_once_none_lands_twice(catalog: None, store: GrowingStore) -> None:
    store.append(1_500)
    with ExitStack() as programs:
        rivals = [landing(programs, store, 60_000) for _ in range(2)]
        for rival in rivals:
            rest(rival)
    assert offsets() == store.offsets


@only_in_soak("half a minute, and merges into Delta are killed")
def test_last_messages_through_kills_and_rivals(catalog: None, store: GrowingStore, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    kept, warehouse = "iceberg:lake.rocketmq.last", tmp_path / "warehouse" / "rocketmq" / "last"
    with ExitStack() as programs:

        def run() -> Program:
            command = (sys.executable, "-c", LATEST, NAME, kept)
            return programs.enter_context(process_group(*command, stdout=subprocess.PIPE))

        for _ in range(KILLS):
            store.append(800)
            rest(landing(programs, store, 200_000))
            process = run()
            assert process.stdout is not None
            for _ in range(chance.randrange(1, 6)):
                process.stdout.readline()
            kind = chance.choice(("*.parquet", "*.avro", "*.metadata.json"))
            wait_for_another(lambda: warehouse.rglob(kind), 2)  # noqa: B023
            process.send_signal(signal.SIGKILL)
            process.wait()
        for rival in [run() for _ in range(2)]:
            rest(rival)
    last = {
        (record.topic, str(record.queue_offset)): offset
        for record, offset in zip(store.records, store.offsets, strict=True)
    }
    rows = load_catalog("lake").load_table(("rocketmq", "last")).scan().to_arrow()
    places = zip(rows["topic"].to_pylist(), rows["key"].to_pylist(), strict=True)
    assert dict(zip(places, rows["physical_offset"].to_pylist(), strict=True)) == last
    assert rows.num_rows == len(last)


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_the_command_lands_into_a_table_at_an_object_store(
    store: GrowingStore, tmp_path: Path, scheme: str
) -> None:
    store.append(300)
    with (
        lake_of(scheme, tmp_path) as lake,
        patch.dict(os.environ, lake.environment),
        iceberg_catalog(tmp_path),
    ):
        properties = at_lake(lake)
        variables = {
            f"PYICEBERG_CATALOG__LAKE__{key.upper().replace('.', '__')}": value
            for key, value in properties.items()
        }
        command = [sys.executable, "-m", "hatwisted", "pipeline", "land", str(store.root), NAME, "--json"]
        with patch.dict(os.environ, variables):
            for rows in (300, 0):
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
                assert json.loads(done.stdout)["rows"] == rows
        assert not (tmp_path / "warehouse").exists()
        assert offsets(**properties) == store.offsets


def test_the_program_of_the_page(store: GrowingStore, tmp_path: Path) -> None:
    store.append(20)
    page = (DOCS / "pipeline" / "iceberg.md").read_text()
    found = re.search(r"<!-- run by \S+/test_iceberg\.py -->\n\n```python\n(.*?)```", page, re.DOTALL)
    assert found is not None
    code = put_in(found[1], {"/data/broker-a/store": store.root, "/lake": tmp_path})
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[:2] == ["20 rows landed", "5 orders"]
    assert "hatwisted.tail.broker-a" in done.stdout

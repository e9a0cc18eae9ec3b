"""Typed columns and dead letters through kills: a landing is killed again and again where it matters.

That's when a batch's files are written, when the table has the batch, and when the table beside has its dead
letters, or at any moment. What both tables have then is compared with the log as Python's own JSON reads it.
`make soak` draws many kills.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from hatwisted.pipeline.delta.deadletters import dead_letter_table
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.schemas.topicschemas import parse_schemas
from tests.support.icebergcatalog import iceberg_catalog
from tests.support.logbuilder import LogBuilder
from tests.support.moments import wait_for_another
from tests.support.processgroup import process_group
from tests.support.soak import times

pytestmark = pytest.mark.timeout(900)
KILLS = times(3)
APPENDED = 600
"""Records that a landing which is killed finds, in some fifteen batches."""
BATCH_BYTES = 10_000
LONGEST_LIFE = 5.0
"""Seconds from a landing's first batch to its end."""
SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["id"],
}
PROGRAM = f"""
import sys
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.schemas.topicschemas import parse_schemas
schemas = parse_schemas([sys.argv[3]])
how = LandOptions(engine="local", max_bytes_per_trigger={BATCH_BYTES}, compact_below=None, schemas=schemas)
land([sys.argv[1]], sys.argv[2], how, progress=lambda *at: print("landed", flush=True))
"""


def body(number: int, chance: random.Random) -> bytes:
    """One that fits, or not."""
    good = {"id": number, "note": "x" * chance.randrange(60)}
    return chance.choice([json.dumps(good).encode()] * 4 + [b"", b"no", b'{"id": "%d"}' % number, b"{}"])


def expected(text: bytes) -> dict[str, Any] | None:
    """The column's value, by another reader of JSON; None of what doesn't fit."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return {"id": found["id"], "note": found.get("note")} if isinstance(found.get("id"), int) else None


class DeltaTables:
    """The table, and the one beside."""

    def __init__(self, folder: Path) -> None:
        self.name = str(folder / "table")
        self.beside = dead_letter_table(self.name)

    def commits(self, table: str) -> Iterable[Path]:
        """A file for each."""
        return Path(table).glob("_delta_log/*.json")

    def files(self, table: str) -> Iterable[Path]:
        """Of data, hidden or not."""
        return Path(table).glob("topic=*/*/*")

    def rows(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._read(table).sort_by("physical_offset").to_pylist()
        return found

    def left_over(self) -> set[str]:
        """Files that no version mentions."""
        both = (self.name, self.beside)
        there = {path.name for table in both for path in self.files(table)}
        return there - {name for table in both for name in self._mentioned(table)}

    def _read(self, table: str) -> pa.Table:
        return DeltaTable(table).to_pyarrow_table()

    def _mentioned(self, table: str) -> Iterable[str]:
        actions = chain.from_iterable(map(str.splitlines, (path.read_text() for path in self.commits(table))))
        return (json.loads(line).get("add", {}).get("path", "").rpartition("/")[2] for line in actions)


class IcebergTables(DeltaTables):
    def __init__(self, folder: Path) -> None:
        self.name = "iceberg:lake.rocketmq.messages"
        self.beside = dead_letter_table(self.name)
        self._folder = folder / "warehouse" / "rocketmq"

    def commits(self, table: str) -> Iterable[Path]:
        return self._within(table).glob("metadata/*.metadata.json")

    def files(self, table: str) -> Iterable[Path]:
        return (path for path in self._within(table).glob("data/**/*") if path.is_file())

    def _within(self, table: str) -> Path:
        return self._folder / table.rpartition(".")[2]

    def _table(self, table: str) -> Any:
        return load_catalog("lake").load_table(("rocketmq", table.rpartition(".")[2]))

    def _read(self, table: str) -> pa.Table:
        return self._table(table).scan().to_arrow()

    def _mentioned(self, table: str) -> Iterable[str]:
        files = self._table(table).inspect.all_data_files()["file_path"].to_pylist()
        return (path.rpartition("/")[2] for path in files)


def moments(tables: DeltaTables, chance: random.Random) -> list[Callable[[], None]]:
    """Waits for when to kill a landing; they are taken in turn."""
    return [
        lambda: wait_for_another(lambda: tables.commits(tables.name), LONGEST_LIFE),
        lambda: wait_for_another(lambda: tables.files(tables.beside), LONGEST_LIFE),
        lambda: wait_for_another(lambda: tables.commits(tables.beside), chance.uniform(0, LONGEST_LIFE)),
    ]


@pytest.mark.parametrize("kind", [DeltaTables, IcebergTables])
def test_each_row_and_each_dead_letter_once_through_kills(kind: type[DeltaTables], tmp_path: Path) -> None:
    with iceberg_catalog(tmp_path) as environment:
        each_row_and_each_dead_letter_once(kind(tmp_path), tmp_path, {**os.environ, **environment})


def each_row_and_each_dead_letter_once(
    tables: DeltaTables, folder: Path, environment: dict[str, str]
) -> None:
    store, schema = folder / "broker-a", folder / "orders.json"
    schema.write_text(json.dumps(SCHEMA))
    declared = f"Orders=json:{schema}"
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    waits, log, bodies = moments(tables, chance), LogBuilder(), []
    killed = 0
    for number in range(KILLS):
        for _ in range(APPENDED):
            bodies.append(body(len(bodies), chance))
            log.add("Orders", len(bodies) % 2, bodies[-1])
        log.save(store)
        command = (sys.executable, "-c", PROGRAM, str(store), tables.name, declared)
        with process_group(*command, stdout=subprocess.PIPE, env=environment) as process:
            assert process.stdout is not None
            assert process.stdout.readline(), "the landing ended by itself"
            waits[number % len(waits)]()
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        seen = [row["physical_offset"] for row in tables.rows(tables.name)]
        assert seen == log.offsets[: len(seen)]
    assert killed
    land([str(store)], tables.name, LandOptions(engine="local", schemas=parse_schemas([declared])))
    values, found = [expected(text) for text in bodies], tables.rows(tables.name)
    assert [row["physical_offset"] for row in found] == log.offsets
    assert [row["Orders"] for row in found] == values
    dead = [(at, text) for at, text, value in zip(log.offsets, bodies, values, strict=True) if value is None]
    assert [(row["physical_offset"], row["body"]) for row in tables.rows(tables.beside)] == dead
    assert not tables.left_over()

"""Typed columns and dead letters through kills: a landing is killed again and again where it matters.

That's when a batch's files are written, when the table has the batch, and when the table beside has its dead
letters, or at any moment. What both tables have then is compared with the log as Python's own JSON reads it.
`make soak` draws many kills.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from hatwisted.pipeline.delta.deadletters import dead_letter_table
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.schemas.topicschemas import parse_schemas
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


def moments(table: Path, chance: random.Random) -> list[Callable[[], None]]:
    """Waits for when to kill a landing; they are taken in turn."""
    beside = Path(dead_letter_table(str(table)))
    commits, more = (lambda: table.glob("_delta_log/*.json")), (lambda: beside.glob("_delta_log/*.json"))
    return [
        lambda: wait_for_another(commits, LONGEST_LIFE),
        lambda: wait_for_another(lambda: beside.glob("topic=*/*/*"), LONGEST_LIFE),
        lambda: wait_for_another(more, chance.uniform(0, LONGEST_LIFE)),
    ]


def rows(table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(table).to_pyarrow_table().sort_by("physical_offset").to_pylist()
    return found


def left_over(table: str) -> set[str]:
    """Files that no version mentions."""
    mentioned = "".join(entry.read_text() for entry in Path(table).glob("_delta_log/*.json"))
    return {path.name for path in Path(table).glob("topic=*/*/*") if path.name not in mentioned}


def test_each_row_and_each_dead_letter_once_through_kills(tmp_path: Path) -> None:
    store, table, schema = tmp_path / "broker-a", tmp_path / "table", tmp_path / "orders.json"
    beside = dead_letter_table(str(table))
    schema.write_text(json.dumps(SCHEMA))
    declared = f"Orders=json:{schema}"
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    waits, log, bodies = moments(table, chance), LogBuilder(), []
    killed = 0
    for number in range(KILLS):
        for _ in range(APPENDED):
            bodies.append(body(len(bodies), chance))
            log.add("Orders", len(bodies) % 2, bodies[-1])
        log.save(store)
        command = (sys.executable, "-c", PROGRAM, str(store), str(table), declared)
        with process_group(*command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline(), "the landing ended by itself"
            waits[number % len(waits)]()
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        seen = [row["physical_offset"] for row in rows(str(table))]
        assert seen == log.offsets[: len(seen)]
    assert killed
    land([str(store)], str(table), LandOptions(engine="local", schemas=parse_schemas([declared])))
    values = [expected(text) for text in bodies]
    assert [row["physical_offset"] for row in rows(str(table))] == log.offsets
    assert [row["Orders"] for row in rows(str(table))] == values
    dead = [(at, text) for at, text, value in zip(log.offsets, bodies, values, strict=True) if value is None]
    assert [(row["physical_offset"], row["body"]) for row in rows(beside)] == dead
    assert not left_over(str(table)) | left_over(beside)

"""Landings of two brokers that are ended at any step, again and again: the table is always what the logs say.

The logs are read by a decoder that shares no line with the one that lands, and Delta's log by another reader
than the one that writes it. Lives are killed at a step or by the clock, or stopped there until another landing
has taken over. `make soak` draws hundreds, and plants faults, each of which this has to notice.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog

from hatwisted.pipeline.delta.deadletters import dead_letter_table
from testbed.storefiles import read_log
from tests.support import growing, landingfaults, letterfaults
from tests.support.growing import GrowingStore
from tests.support.icebergcatalog import iceberg_catalog
from tests.support.landinglives import Life, Lives, drawn, lives
from tests.support.soak import times

pytestmark = pytest.mark.timeout(3_600)
DELTA, ICEBERG = "delta", "iceberg"
KILLS = 3 if times(1) == 1 else times(15)
"""By format."""
BROKERS = ("broker-a", "broker-b")
APPENDED = 260
"""Records of a broker that a life finds, in a few batches."""
UNDISTURBED = 4
"""Lives after which files have been compacted, too."""
LONGEST_LIFE = 2.0
"""Seconds within which the clock kills."""
MOST_LIVES = 400
"""Within which a planted fault has to be noticed; the rarest took 19."""
AT_ONCE = {(DELTA, "half-appended"), (ICEBERG, "appended-twice")}
"""Faults that need no kill: `make test` tries these."""
ROWS = pa.schema(
    [
        *(("broker", pa.string()), ("physical_offset", pa.int64()), ("size", pa.int32())),
        *(("topic", pa.string()), ("queue_id", pa.int32()), ("queue_offset", pa.int64())),
        *(("body", pa.binary()), ("tags", pa.string()), ("unique_key", pa.string())),
        *(("keys", pa.list_(pa.string())), ("store_date", pa.string())),
    ]
)
"""What is compared."""
LETTER = ["broker", "physical_offset", "topic", "body"]
"""The same of dead letters."""
TYPED = "orders"
"""A topic."""
MESSAGES = "messages"
LETTERS = dead_letter_table(MESSAGES)


class Lake:
    """Two stores, a table, and what is wrong with it."""

    def __init__(
        self, folder: Path, table: str, landed: Lives, chance: random.Random, typed: str | None = None
    ) -> None:
        """typed: a topic with a schema that none of its bodies fits."""
        self._typed = typed
        self.stores = [GrowingStore(folder / broker, seed=number) for number, broker in enumerate(BROKERS)]
        self.table = table
        self._folder = folder
        self._lives = landed
        self._chance = chance
        self._steps: dict[str, int] = {}
        self._undisturbed = 0
        self._rivals = 0
        self._decoded: list[pa.Table] = []

    def grow(self) -> None:
        for store in self.stores:
            store.append(APPENDED)

    def live(self, fault: str | None = None) -> Life:
        """One life: the first ones to their ends, by which steps are known, then ended in one of three ways."""
        self.grow()
        if self._undisturbed < UNDISTURBED:
            self._undisturbed += 1
            life = self._lives.live(fault)
            self._steps = {**self._steps, **life.steps}
            return life
        way = self._chance.random()
        if way < 0.6:
            return self._lives.live(fault, end=drawn(self._steps, self._chance, near=fault))
        if way < 0.75:
            return self._lives.live(fault, after=self._chance.uniform(0, LONGEST_LIFE))
        life = self._lives.live(fault, end=drawn(self._steps, self._chance, signal.SIGSTOP, fault))
        if life.became != "stopped":
            return life
        self._rivals += 1
        # The stopped one has the lock of the usual folder.
        place = None if self.table.startswith(ICEBERG) else str(self._folder / f"rival-{self._rivals}")
        rival = self._lives.live(fault, checkpoint=place)
        stopped = self._lives.go_on(life)
        if stopped.became == "refused" and "took over" in stopped.said:
            return rival
        return stopped if rival.became == "ended" else rival

    def last(self, fault: str | None = None) -> Life:
        return self._lives.live(fault)

    def logs(self) -> pa.Table:
        """The rows that there should be, as far as the logs go now."""
        for broker in BROKERS:
            known = sum(piece["broker"][0].as_py() == broker and len(piece) for piece in self._decoded)
            if new := list(_rows(broker, self._folder / broker, known)):
                self._decoded.append(pa.Table.from_pylist(new, ROWS))
        return pa.concat_tables(self._decoded)

    def trouble(self, whole: bool) -> str | None:
        """What is wrong with it, or the one beside. whole: it should have all of the logs, and no other files."""
        try:
            found = self._read()
            letters = None if self._typed is None else self._read(beside=True)
        except (OSError, pa.ArrowException) as error:
            return f"can't be read: {error}"
        expected = self.logs()
        for broker in BROKERS:
            rows, wanted = _of(found, broker), _of(expected, broker)
            if not rows.equals(wanted.slice(0, len(rows))):
                pairs = zip_longest(rows.to_pylist(), wanted.to_pylist())
                at = next(number for number, (one, other) in enumerate(pairs) if one != other)
                return f"{broker}: row {at} of {len(rows)} is {rows.slice(at, 1).to_pylist()}"
            if whole and len(rows) < len(wanted):
                return f"{broker}: {len(rows)} rows of {len(wanted)}"
        if letters is not None and (wrong := self._dead_letters(found, letters, whole)):
            return wrong
        return self._left_over() if whole else None

    def _dead_letters(self, found: pa.Table, letters: pa.Table, whole: bool) -> str | None:
        """What is wrong with the table beside.

        - found: the table's rows
        - letters: its own
        - whole: they should all be there
        """
        for broker in BROKERS:
            typed = found.filter(pc.equal(found["topic"], self._typed))
            dead, wanted = (_of(rows, broker).select(LETTER) for rows in (letters, typed))
            if not dead.equals(wanted if whole else wanted.slice(0, len(dead))):
                return f"{broker}: {len(dead)} dead letters of {len(wanted)}"
        return None

    def _read(self, beside: bool = False) -> pa.Table:
        """The table's rows, as ROWS, or the dead letters' with null in what they lack."""
        raise NotImplementedError

    def _left_over(self) -> str | None:
        raise NotImplementedError


class DeltaLake(Lake):
    def _read(self, beside: bool = False) -> pa.Table:
        found, table = [ROWS.empty_table()], dead_letter_table(self.table) if beside else self.table
        for add in self._active(table).values():
            rows = pq.ParquetFile(Path(table, unquote(add["path"]))).read()
            stats, offsets = json.loads(add["stats"]), rows["physical_offset"].to_pylist()
            told = (stats["numRecords"], stats["maxValues"]["physical_offset"])
            if told != (len(offsets), max(offsets)):
                raise OSError(f"{add['path']} has other rows than its statistics say: {told}")
            for name, value in add["partitionValues"].items():
                rows = rows.append_column(name, pa.array([value] * len(rows), pa.string()))
            found.append(_as_rows(rows))
        return pa.concat_tables(found)

    def _actions(self, table: str) -> Iterator[dict[str, Any]]:
        for commit in sorted(Path(table, "_delta_log").glob("*.json")):
            yield from map(json.loads, commit.read_text().splitlines())

    def _active(self, table: str) -> dict[str, dict[str, Any]]:
        """Delta's log as its specification has it: what was added and not removed."""
        found = {}
        for action in self._actions(table):
            if "add" in action:
                found[action["add"]["path"]] = action["add"]
            elif "remove" in action:
                found.pop(action["remove"]["path"], None)
        return found

    def _left_over(self) -> str | None:
        for table in (self.table, dead_letter_table(self.table)):
            mentioned = {
                Path(unquote(action[kind]["path"])).name
                for action in self._actions(table)
                for kind in ("add", "remove")
                if kind in action
            }
            left = {path.name for path in Path(table).glob("topic=*/*/*")} - mentioned
            if left:
                return f"no version has {sorted(left)}"
        return None


class IcebergLake(Lake):
    def _table(self, name: str) -> Any:
        return load_catalog("lake").load_table(("rocketmq", name))

    def _read(self, beside: bool = False) -> pa.Table:
        return _as_rows(self._table(LETTERS if beside else MESSAGES).scan().to_arrow())

    def _left_over(self) -> str | None:
        """Files of the last run and of the one that it ended; those of runs before it may be left."""
        claims, mentioned = [], set[str]()
        for name in (MESSAGES, LETTERS) if self._typed else (MESSAGES,):
            table = self._table(name)
            claims += [
                claim
                for snapshot in table.snapshots()
                if (claim := snapshot.summary.additional_properties.get("hatwisted.claim"))
            ]
            mentioned |= set(table.inspect.all_data_files()["file_path"].to_pylist())
        for path in (self._folder / "warehouse").rglob("data/**/*"):
            if path.is_file() and f"file://{path}" not in mentioned:
                run = "".join(path.stem.split("-")[-5:])[:12]
                if run in claims[-2:]:
                    return f"no snapshot has {path.name}"
        return None


def _as_rows(found: pa.Table) -> pa.Table:
    """As ROWS, with null in what isn't there."""
    columns = [found[name] if name in found.column_names else pa.nulls(len(found)) for name in ROWS.names]
    return pa.table(columns, ROWS.names).cast(ROWS)


def _of(rows: pa.Table, broker: str) -> pa.Table:
    """A broker's, in the order of its log."""
    return rows.filter(pc.equal(rows["broker"], broker)).sort_by("physical_offset")


def _rows(broker: str, store: Path, known: int) -> Iterator[dict[str, Any]]:
    """Of all records but the first ones, which are known."""
    for number, message in islice(enumerate(read_log(store)), known, None):
        stored = datetime.fromtimestamp((growing.FIRST_TIME + growing.STEP * number) / 1000, UTC)
        keys = message.property("KEYS")
        yield {
            "broker": broker,
            "physical_offset": message.offset,
            "size": message.size,
            "topic": message.topic,
            "queue_id": message.queue_id,
            "queue_offset": message.queue_offset,
            "body": message.body,
            "tags": message.property("TAGS"),
            "unique_key": message.property("UNIQ_KEY"),
            "keys": keys.split() if keys else [],
            "store_date": stored.date().isoformat(),
        }


@contextmanager
def a_lake(form: str, folder: Path, seed: int, typed: str | None = None) -> Iterator[Lake]:
    """One with nothing in it yet. typed: a topic with a schema that none of its bodies fits."""
    folder.mkdir()
    (folder / "schema.json").write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    schemas = [] if typed is None else [f"{typed}=json:{folder / 'schema.json'}"]
    stores = [str(folder / broker) for broker in BROKERS]
    with iceberg_catalog(folder) as environment:
        table = str(folder / "table") if form == DELTA else f"iceberg:lake.rocketmq.{MESSAGES}"
        with lives(stores, table, folder, environment, schemas) as landed:
            kind = DeltaLake if form == DELTA else IcebergLake
            yield kind(folder, table, landed, random.Random(seed), typed)


@pytest.mark.parametrize("typed", [TYPED, None])
@pytest.mark.parametrize("form", [DELTA, ICEBERG])
def test_the_table_is_what_the_logs_say_wherever_landings_end(
    form: str, typed: str | None, tmp_path: Path
) -> None:
    """So are the dead letters beside, if a topic has a schema."""
    if typed is None and times(1) == 1:
        pytest.skip("all of it is done with dead letters, too: `make soak` tries it without")
    seed = random.randrange(1 << 32)
    print("seed", seed)
    ends = 0
    with a_lake(form, tmp_path / "lake", seed, typed) as lake:
        while ends < KILLS:
            life = lake.live()
            assert life.became in ("ended", "killed"), str(life)
            assert lake.trouble(whole=False) is None
            ends += life.became == "killed"
        last = lake.last()
        assert last.became == "ended", str(last)
        assert lake.trouble(whole=True) is None
    print(ends, "kills")


FAULTS = [
    *((DELTA, name) for name in sorted(landingfaults.BOTH | landingfaults.DELTA)),
    *((ICEBERG, name) for name in sorted(landingfaults.BOTH | landingfaults.ICEBERG)),
]


def told(life: Life) -> str | None:
    """Why it ended otherwise than it should; not that the planted code itself has failed."""
    assert life.became in ("ended", "killed", "stopped", "refused", "failed"), str(life)
    own = any(code.__file__ in life.said for code in (landingfaults, letterfaults))
    return life.said if life.became == "refused" or (life.became == "failed" and not own) else None


@pytest.mark.parametrize("form, fault", FAULTS)
def test_a_planted_fault_is_noticed(form: str, fault: str, tmp_path: Path) -> None:
    if times(1) == 1 and (form, fault) not in AT_ONCE:
        pytest.skip("takes many lives: `make soak` tries it")
    typed = TYPED if fault.startswith(letterfaults.LETTERS) else None
    with a_lake(form, tmp_path / "lake", random.randrange(1 << 32), typed) as lake:
        for number in range(MOST_LIVES):
            noticed = told(lake.live(fault)) or lake.trouble(whole=False)
            if noticed is None and number % 2:
                last = lake.last(fault)
                noticed = told(last) or lake.trouble(whole=last.became == "ended")
            if noticed is not None:
                print(f"{form} {fault}: {number + 1} lives: {noticed.splitlines()[-1][:200]}")
                return
    raise AssertionError(f"{form}: {fault} went unnoticed in {MOST_LIVES} lives")

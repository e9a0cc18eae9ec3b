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
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog

from testbed.storefiles import read_log
from tests.support import growing, landingfaults
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
LONGEST_LIFE = 2.0
"""Seconds within which the clock kills."""
MOST_LIVES = 400
"""Within which a planted fault has to be noticed; the rarest took 19."""
AT_ONCE = {(DELTA, "half-appended"), (ICEBERG, "appended-twice")}
"""Faults that need no kill: `make test` tries these."""
COLUMNS = (
    *("broker", "physical_offset", "size", "topic", "queue_id", "queue_offset"),
    *("body", "tags", "unique_key", "keys", "store_date"),
)


class Lake:
    """Two stores, a table, and what is wrong with it."""

    def __init__(self, folder: Path, table: str, landed: Lives, chance: random.Random) -> None:
        self.stores = [GrowingStore(folder / broker, seed=number) for number, broker in enumerate(BROKERS)]
        self.table = table
        self._folder = folder
        self._lives = landed
        self._chance = chance
        self._steps: dict[str, int] = {}
        self._rivals = 0

    def grow(self) -> None:
        for store in self.stores:
            store.append(APPENDED)

    def live(self, fault: str | None = None) -> Life:
        """One life: to its end if it's the first, else ended in one of three ways."""
        self.grow()
        if not self._steps:
            life = self._lives.live(fault)
            # The first one makes the table: its steps and those of a second one.
            self.grow()
            second = self._lives.live(fault)
            self._steps = life.steps | second.steps
            return second if life.became == "ended" else life
        way = self._chance.random()
        if way < 0.6:
            return self._lives.live(fault, end=drawn(self._steps, self._chance))
        if way < 0.75:
            return self._lives.live(fault, after=self._chance.uniform(0, LONGEST_LIFE))
        life = self._lives.live(fault, end=drawn(self._steps, self._chance, signal.SIGSTOP))
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

    def logs(self) -> dict[str, list[dict[str, Any]]]:
        """The rows that there should be, of each broker."""
        return {broker: list(_rows(broker, self._folder / broker)) for broker in BROKERS}

    def trouble(self, whole: bool) -> str | None:
        """What is wrong with the table. whole: it should have all of the logs, and no file but its own."""
        try:
            found = self._read()
        except (OSError, pa.ArrowException) as error:
            return f"can't be read: {error}"
        expected = self.logs()
        for broker, wanted in expected.items():
            rows = sorted(
                (row for row in found if row["broker"] == broker), key=lambda row: row["physical_offset"]
            )
            for number, row in enumerate(rows):
                if number >= len(wanted) or row != wanted[number]:
                    return f"{broker}: row {number} of {len(rows)} is {row}"
            if whole and len(rows) < len(wanted):
                return f"{broker}: {len(rows)} rows of {len(wanted)}"
        return self._left_over() if whole else None

    def _read(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def _left_over(self) -> str | None:
        raise NotImplementedError


class DeltaLake(Lake):
    def _read(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for add in self._active().values():
            file = pq.ParquetFile(Path(self.table, unquote(add["path"]))).read()
            stats, offsets = json.loads(add["stats"]), file["physical_offset"].to_pylist()
            told = (stats["numRecords"], stats["maxValues"]["physical_offset"])
            if told != (len(offsets), max(offsets)):
                raise OSError(f"{add['path']} has other rows than its statistics say: {told}")
            partition = add["partitionValues"]
            found += [
                {name: partition[name] if name in partition else row[name] for name in COLUMNS}
                for row in file.to_pylist()
            ]
        return found

    def _actions(self) -> Iterator[dict[str, Any]]:
        for commit in sorted(Path(self.table, "_delta_log").glob("*.json")):
            yield from map(json.loads, commit.read_text().splitlines())

    def _active(self) -> dict[str, dict[str, Any]]:
        """Delta's log as its specification has it: what was added and not removed."""
        found = {}
        for action in self._actions():
            if "add" in action:
                found[action["add"]["path"]] = action["add"]
            elif "remove" in action:
                found.pop(action["remove"]["path"], None)
        return found

    def _left_over(self) -> str | None:
        mentioned = {
            Path(unquote(action[kind]["path"])).name
            for action in self._actions()
            for kind in ("add", "remove")
            if kind in action
        }
        # What a killed compaction wrote, delta-rs names so; it is left to Delta's vacuum.
        names = {path.name for path in Path(self.table).glob("topic=*/*/*") if path.name[:6] != "part-0"}
        left = {name for name in names - mentioned if "-c000.zstd" not in name}
        return f"no version has {sorted(left)}" if left else None


class IcebergLake(Lake):
    def _table(self) -> Any:
        return load_catalog("lake").load_table(("rocketmq", "messages"))

    def _read(self) -> list[dict[str, Any]]:
        rows = self._table().scan(selected_fields=COLUMNS).to_arrow().to_pylist()
        return [
            {name: row[name] for name in COLUMNS} | {"store_date": str(row["store_date"])} for row in rows
        ]

    def _left_over(self) -> str | None:
        """Files of the last run and of the one that it ended; those of runs before it may be left."""
        table = self._table()
        claims = [
            claim
            for snapshot in table.snapshots()
            if (claim := snapshot.summary.additional_properties.get("hatwisted.claim"))
        ]
        mentioned = set(table.inspect.all_data_files()["file_path"].to_pylist())
        for path in (self._folder / "warehouse").rglob("*.parquet"):
            if path.name.split("-", 1)[-1] and f"file://{path}" not in mentioned:
                run = "".join(path.name.removesuffix(".parquet").split("-")[-5:])[:12]
                if run in claims[-2:]:
                    return f"no snapshot has {path.name}"
        return None


def _rows(broker: str, store: Path) -> Iterator[dict[str, Any]]:
    for number, message in enumerate(read_log(store)):
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
def a_lake(form: str, folder: Path, seed: int) -> Iterator[Lake]:
    """One with nothing in it yet."""
    folder.mkdir()
    stores = [str(folder / broker) for broker in BROKERS]
    with iceberg_catalog(folder) as environment:
        table = str(folder / "table") if form == DELTA else "iceberg:lake.rocketmq.messages"
        with lives(stores, table, folder, environment) as landed:
            kind = DeltaLake if form == DELTA else IcebergLake
            yield kind(folder, table, landed, random.Random(seed))


@pytest.mark.parametrize("form", [DELTA, ICEBERG])
def test_the_table_is_what_the_logs_say_wherever_landings_end(form: str, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    ends = 0
    with a_lake(form, tmp_path / "lake", seed) as lake:
        while ends < KILLS:
            life = lake.live()
            assert life.became in ("ended", "killed"), life.said
            assert lake.trouble(whole=False) is None
            ends += life.became == "killed"
        assert lake.last().became == "ended"
        assert lake.trouble(whole=True) is None
    print(ends, "kills")


FAULTS = [
    *((DELTA, name) for name in sorted(landingfaults.BOTH | landingfaults.DELTA)),
    *((ICEBERG, name) for name in sorted(landingfaults.BOTH | landingfaults.ICEBERG)),
]


@pytest.mark.parametrize("form, fault", FAULTS)
def test_a_planted_fault_is_noticed(form: str, fault: str, tmp_path: Path) -> None:
    if times(1) == 1 and (form, fault) not in AT_ONCE:
        pytest.skip("takes many lives: `make soak` tries it")
    with a_lake(form, tmp_path / "lake", random.randrange(1 << 32)) as lake:
        for number in range(MOST_LIVES):
            life = lake.live(fault)
            assert life.became != "failed" or landingfaults.__file__ not in life.said.splitlines()[-3], (
                life.said
            )
            noticed = life.said if life.became in ("refused", "failed") else lake.trouble(whole=False)
            if noticed is None and number % 2:
                last = lake.last(fault)
                noticed = last.said if last.became != "ended" else lake.trouble(whole=True)
            if noticed is not None:
                print(f"{form} {fault}: {number + 1} lives: {noticed.splitlines()[-1][:200]}")
                return
    raise AssertionError(f"{form}: {fault} went unnoticed in {MOST_LIVES} lives")

"""Merges of last messages that are ended at any step: the keyed table never has anything but what has landed.

Lives are killed at a step of the packages that write tables, drawn by lot, or by the clock. What they wrote goes
with the next merge. `make soak` draws many.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from tests.support.icebergcatalog import iceberg_catalog
from tests.support.landinglives import Lives, lives
from tests.support.latestcase import COLUMNS, KeyedStore, Last
from tests.support.lifesteps import drawn
from tests.support.soak import in_soak, times

pytestmark = pytest.mark.timeout(1_800)
DELTA, ICEBERG = "delta", "iceberg"
KEYS, PLACE = "keys", "physical_offset"
"""By the one, files are written again; by the other, they become many, and compactions make them few."""
KILLS = 4 if times(1) == 1 else times(20)
TRIED = "it takes most of a minute, and each kind of table and each key is tried"
APPENDED = 40
"""Records that a merge finds."""
LONGEST_LIFE = 0.6
"""Seconds within which the clock kills."""
UNDISTURBED = {KEYS: 3, PLACE: 9}
"""Merges after which each step has been taken."""


class Keyed:
    """A store, where it lands, and the table of its last messages."""

    def __init__(self, folder: Path, form: str, key: str, landed: Lives) -> None:
        self._folder, self._form, self._key, self._lives = folder, form, key, landed
        self._store = KeyedStore(folder / "broker-a")
        self._into = table_name(form, folder, "last")

    def grow(self) -> None:
        self._store.append(APPENDED)
        assert self._lives.live().became == "ended"

    def merge(self, **more: object) -> tuple[str, dict[str, int]]:
        """(what became of it and what it said, its steps)."""
        life = self._lives.live(into=self._into, key=self._key, **more)
        assert life.became in ("ended", "killed"), str(life)
        return life.became, life.steps

    def expected(self) -> Last:
        return {
            (record.topic, key, self._store.root.name): (record.physical_offset, record.body or None)
            for record in self._store.records
            if (key := record.properties.get("KEYS") if self._key == KEYS else str(record.physical_offset))
        }

    def rows(self) -> Last:
        if self._form == DELTA:
            if not DeltaTable.is_deltatable(self._into):
                return {}
            found = DeltaTable(self._into).to_pyarrow_table(columns=list(COLUMNS))
        else:
            catalog = load_catalog("lake")
            if not catalog.table_exists(("rocketmq", "last")):
                return {}
            found = catalog.load_table(("rocketmq", "last")).scan(selected_fields=COLUMNS).to_arrow()
        rows = [tuple(row[name] for name in COLUMNS) for row in found.to_pylist()]
        there = {row[:3]: row[3:] for row in rows}
        assert len(there) == len(rows), "a key is there twice"
        return there

    def left_over(self) -> set[str]:
        """Data files, hidden or not, that no version has."""
        if self._form == DELTA:
            mentioned = "".join(entry.read_text() for entry in Path(self._into).glob("_delta_log/*.json"))
            return {path.name for path in Path(self._into).glob("topic=*/*") if path.name not in mentioned}
        table = load_catalog("lake").load_table(("rocketmq", "last"))
        files = {path.rpartition("/")[2] for path in table.inspect.all_data_files()["file_path"].to_pylist()}
        there = (self._folder / "warehouse" / "rocketmq" / "last" / "data").rglob("*")
        return {path.name for path in there if path.is_file()} - files


def table_name(form: str, folder: Path, name: str) -> str:
    return str(folder / name) if form == DELTA else f"iceberg:lake.rocketmq.{name}"


@contextmanager
def keyed(form: str, folder: Path, key: str) -> Iterator[Keyed]:
    with iceberg_catalog(folder) as environment:
        table = table_name(form, folder, "messages")
        with lives([str(folder / "broker-a")], table, folder, environment) as landed:
            yield Keyed(folder, form, key, landed)


@pytest.mark.parametrize(
    "form, key",
    [
        (DELTA, KEYS),
        in_soak(ICEBERG, PLACE, why=TRIED),
        in_soak(DELTA, PLACE, why=TRIED),
        in_soak(ICEBERG, KEYS, why=TRIED),
    ],
)
def test_the_table_is_what_has_landed_wherever_merges_end(form: str, key: str, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance, steps, kills, left = random.Random(seed), dict[str, int](), 0, set[str]()
    with keyed(form, tmp_path, key) as last:
        for _ in range(UNDISTURBED[key]):
            last.grow()
            steps |= last.merge()[1]
        while kills < KILLS:
            last.grow()
            by_clock = chance.random() < 0.3
            became, _ = last.merge(
                **{"after": chance.uniform(0, LONGEST_LIFE)} if by_clock else {"end": drawn(steps, chance)}
            )
            kills += became == "killed"
            left |= last.left_over()
            found = last.rows()
            for known_by, (offset, _) in last.expected().items():
                assert found.get(known_by, (offset,))[0] <= offset
        last.grow()
        assert last.merge()[0] == "ended"
        assert last.rows() == last.expected()
        assert last.left_over() == set()
    print(kills, "kills,", len(left), "files were left")

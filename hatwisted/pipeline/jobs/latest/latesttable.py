"""A table that has the last message of each key: what a landing has brought since the last run is merged in.

A key's message without a body says that there's nothing under it any more. Its row stays, with null for the body:
files that a compaction of the landed table has written again are merged again, with rows that were long replaced,
which would come back. So the table is determined by the rows of the other one alone, in whatever order they are
merged, and a killed run is made up for by the next one.

Each run says up to which version of the landed table it has merged (mergednotes.py). Only files that this version
has and that one hadn't are read.

Either table is Delta's or Iceberg's. The job sees them as a LandedSource and a KeyedRows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from hatwisted.pipeline.delta.fulldisk import telling_full
from hatwisted.pipeline.delta.landedrows import LANDING_KEYS, STORE_DATE
from hatwisted.pipeline.delta.tablefolder import table_path
from hatwisted.pipeline.errors import WrongSchema
from hatwisted.pipeline.iceberg.catalogs import is_iceberg
from hatwisted.pipeline.jobs.latest.deltakeyed import DeltaKeyed
from hatwisted.pipeline.jobs.latest.deltasource import DeltaSource
from hatwisted.pipeline.jobs.latest.lastrows import KEY, KEYS, check_key, last_rows, with_key
from hatwisted.pipeline.jobs.latest.mergednotes import KeyedRows, LandedSource, Merged

MERGE_BYTES: Final = 64 << 20
"""Of rows, in memory, that are merged at a time. Each merge reads the rows of their topics' keys, so few are
quicker."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class LatestResult:
    """`rows` read, of which `without_key` have none; keys `inserted`, as new ones, and `updated`; `version` of the
    landed table that `into` is of now."""

    table: str
    into: str
    version: int
    rows: int
    without_key: int
    inserted: int
    updated: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def latest(
    table: str,
    into: str,
    *,
    key: str = KEYS,
    topics: Sequence[str] = (),
    progress: Progress | None = None,
    seconds: Callable[[], float] = time.monotonic,
) -> LatestResult:
    """Merge what is new in a landed table into one with a row for each topic, key and broker: the last
    message.

    - table: landed; a folder, an object store's address, or `iceberg:CATALOG.NAMESPACE.TABLE`
    - into: the keyed table, likewise; made if there's none
    - key: the column that is the key: texts, integers, or `keys`, whose texts are joined by blanks
    - topics: only of these; none: of all
    - progress: called with (bytes done, bytes in all)
    - seconds: the clock that durations are taken from

    Raises PipelineError: WrongTable, WrongSchema naming the column, NoRoom.
    """
    begun, path, target = seconds(), _path(table), _path(into)
    source = _source(path, tuple(sorted(set(topics))))
    _check(path, source.columns, key)
    keyed = [pa.field(KEY, pa.string()), *(item for item in source.columns if item.name != STORE_DATE)]
    what = {"of": source.id, "key": key, "topics": list(source.topics)}
    run = _Run(source, _keyed(target, what), key, progress or _silent)
    with telling_full(target):
        run.merge(pa.schema(keyed))
    return LatestResult(
        table=path,
        into=target,
        version=source.version,
        **asdict(run.done),
        seconds=seconds() - begun,
    )


def _path(table: str) -> str:
    return table if is_iceberg(table) else table_path(table)


def _source(path: str, topics: tuple[str, ...]) -> LandedSource:
    if not is_iceberg(path):
        return DeltaSource(path, topics)
    from hatwisted.pipeline.jobs.latest.icebergsource import IcebergSource

    return IcebergSource(path, topics)


def _keyed(path: str, what: Mapping[str, Any]) -> KeyedRows:
    if not is_iceberg(path):
        return DeltaKeyed(path, what)
    from hatwisted.pipeline.jobs.latest.icebergkeyed import IcebergKeyed

    return IcebergKeyed(path, what)


def _check(path: str, there: pa.Schema, key: str) -> None:
    for name in LANDING_KEYS:
        if name not in there.names:
            raise WrongSchema(f"{path}: has no column {name}: give a landed table")
    if KEY in there.names:
        raise WrongSchema(f"{path}: has a column {KEY}, which is the keyed table's own: rename it")
    try:
        check_key(key, there)
    except WrongSchema as error:
        raise WrongSchema(f"{path}: {error}") from None


@dataclass
class _Done:
    rows: int = 0
    without_key: int = 0
    inserted: int = 0
    updated: int = 0


class _Run:
    """One run.

    - source: the landed table
    - target: the keyed one
    - key: column
    - progress: called with (bytes done, bytes in all)
    """

    def __init__(self, source: LandedSource, target: KeyedRows, key: str, progress: Progress) -> None:
        self._source = source
        self._target = target
        self._key = key
        self._progress = progress
        self.done = _Done()

    def merge(self, columns: pa.Schema) -> None:
        """What is new. columns: of the keyed table's rows."""
        types = self._target.prepare(columns)
        files = self._source.files_since(self._target.merged())
        waiting: list[pa.Table] = []
        for rows in self._keyed(files):
            waiting.append(rows)
            if sum(each.nbytes for each in waiting) >= MERGE_BYTES:
                self._merge(waiting, types, None)
                waiting = []
        if files:
            self._merge(waiting, types, self._source.reached())
            self._target.tidy()

    def _keyed(self, files: list[tuple[Any, int]]) -> Iterator[pa.Table]:
        done, total = 0, sum(size for _, size in files)
        for file, size in files:
            for rows in self._source.rows(file):
                keyed = with_key(rows, self._key)
                self.done.rows += len(rows)
                self.done.without_key += len(rows) - len(keyed)
                if len(keyed):
                    yield keyed
            done += size
            self._progress(done, total)

    def _merge(self, waiting: list[pa.Table], types: pa.Schema, reached: Merged | None) -> None:
        rows = types.empty_table()
        if waiting:
            rows = last_rows(pa.concat_tables(waiting)).select(types.names).cast(types)
        inserted, updated = self._target.merge(rows, reached)
        self.done.inserted += inserted
        self.done.updated += updated


def _silent(done: int, total: int) -> None:
    pass

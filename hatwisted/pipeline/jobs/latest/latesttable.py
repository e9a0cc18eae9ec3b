"""A table that has the last message of each key: what a landing has brought since the last run is merged in.

A key's message without a body says that there's nothing under it any more. Its row stays, with null for the body:
files that a compaction of the landed table has written again are merged again, with rows that were long replaced,
which would come back. So the table is determined by the rows of the other one alone, in whatever order they are
merged, and a killed run is made up for by the next one.

Each run says up to which version of the landed table it has merged (keyedtable.py). Only files that this version
has and that one hadn't are read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as pads
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from hatwisted.pipeline.delta.deltatable import is_table, one_line, open_table, table_rows
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.fulldisk import telling_full
from hatwisted.pipeline.delta.landedrows import LANDING_KEYS, STORE_DATE
from hatwisted.pipeline.delta.tablefolder import table_path
from hatwisted.pipeline.errors import WrongSchema
from hatwisted.pipeline.jobs.latest.keyedtable import KeyedTable, Merged
from hatwisted.pipeline.jobs.latest.lastrows import KEY, KEYS, check_key, last_rows, with_key

MERGE_BYTES: Final = 64 << 20
"""Of rows, in memory, that are merged at a time. Each merge reads the rows of their topics' keys, so few are
quicker."""
BATCH_ROWS: Final = 8192
"""Rows that are looked at together."""

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

    - table: landed; a folder, or an object store's address
    - into: the keyed table, likewise; made if there's none
    - key: the column that is the key: texts, integers, or `keys`, whose texts are joined by blanks
    - topics: only of these; none: of all
    - progress: called with (bytes done, bytes in all)
    - seconds: the clock that durations are taken from

    Raises PipelineError: WrongTable, WrongSchema naming the column, NoRoom.
    """
    begun, path, target = seconds(), table_path(table), table_path(into)
    if not is_table(path):
        raise WrongTable(f"{path}: there's no table; give the folder of a landed one")
    source = _Source(path, tuple(sorted(set(topics))))
    _check(path, source.columns, key)
    keyed = [pa.field(KEY, pa.string()), *(item for item in source.columns if item.name != STORE_DATE)]
    what = {"of": source.id, "key": key, "topics": list(source.topics)}
    run = _Run(source, KeyedTable(target, what), key, progress or _silent)
    with telling_full(target):
        run.merge(pa.schema(keyed))
    return LatestResult(
        table=path,
        into=target,
        version=source.version,
        **asdict(run.done),
        seconds=seconds() - begun,
    )


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


class _Source:
    """A landed table's newest version. path: of the table; topics: only these; none: all."""

    def __init__(self, path: str, topics: tuple[str, ...]) -> None:
        self._path = path
        self._table = open_table(path)
        self._rows = self._opened(self._table)
        self._sizes = _sizes(self._table)
        self.topics = topics
        self.columns = self._rows.schema
        self.version: int = self._table.version()
        self.id = str(self._table.metadata().id)

    def reached(self) -> Merged:
        """What is merged once all its files are."""
        return Merged.of(self.version, self._sizes)

    def files_since(self, merged: Merged | None) -> list[tuple[Any, int]]:
        """Files, as Arrow reads them, with their bytes. merged: without its files."""
        known = self._known(merged)
        chosen = pads.field("topic").cast(pa.string()).isin(pa.array(self.topics, pa.string()))
        fragments = self._rows.get_fragments(filter=chosen if self.topics else None)
        return [(each, self._sizes.get(each.path, 0)) for each in fragments if each.path not in known]

    def rows(self, file: Any) -> Iterator[pa.Table]:
        """A file's, a few at a time."""
        try:
            # No batch is read ahead: sixteen are by default, each of as many bytes as a merge takes.
            for batch in file.to_batches(schema=self.columns, batch_size=BATCH_ROWS, batch_readahead=1):
                yield pa.Table.from_batches([batch])
        except FileNotFoundError:
            raise WrongTable(
                f"{self._path}: its file {file.path} has just been removed, as by a vacuum; try again"
            ) from None

    def _known(self, merged: Merged | None) -> dict[str, int]:
        if merged is None:
            return {}
        try:
            found = _sizes(DeltaTable(self._path, version=merged.version))
        except (DeltaError, OSError):
            return {}  # that version's log has expired: all again, which changes nothing of what is there
        return found if Merged.of(merged.version, found) == merged else {}

    def _opened(self, table: DeltaTable) -> pads.Dataset:
        try:
            return table_rows(table, self._path)
        except DeltaError as error:
            raise WrongTable(f"{self._path}: can't be read: {one_line(error)}") from error


def _sizes(table: DeltaTable) -> dict[str, int]:
    """Bytes of a version's files by their paths."""
    found = pa.table(table.get_add_actions())
    paths = map(unquote, found.column("path").to_pylist())
    return dict(zip(paths, found.column("size_bytes").to_pylist(), strict=True))


class _Run:
    """One run.

    - source: the landed table
    - target: the keyed one
    - key: column
    - progress: called with (bytes done, bytes in all)
    """

    def __init__(self, source: _Source, target: KeyedTable, key: str, progress: Progress) -> None:
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
            self._target.compact()

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

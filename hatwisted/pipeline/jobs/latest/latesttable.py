"""A table that has the last message of each key: what a landing has brought since the last run is merged in.

A key's message without a body says that there's nothing under it any more. Its row stays, with null for the body:
files that a compaction of the landed table has written again are merged again, with rows that were long replaced,
which would come back. So the table is determined by the rows of the other one alone, in whatever order they are
merged, and a killed run is made up for by the next one.

Each run's last merge says which version of the landed table it's of. Only files that this version has and the one
before hadn't are read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError

from hatwisted.pipeline.delta.deltatable import (
    ATTEMPTS,
    is_table,
    one_line,
    open_table,
    prepare_table,
    table_rows,
)
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.landedrows import LANDING_KEYS, STORE_DATE
from hatwisted.pipeline.delta.queuetails import NOTE, commit_notes
from hatwisted.pipeline.delta.tablefolder import table_path
from hatwisted.pipeline.errors import WrongSchema
from hatwisted.pipeline.jobs.latest.lastrows import KEY, KEYS, LATER, check_key, last_rows, with_key

PARTITION_BY: Final = ("topic",)
APPLICATION: Final = "hatwisted.latest/"
"""Prefix of the application id, whose number is the landed table's version."""
LATEST: Final = "latest"
"""Within a commit's note: of what the table is."""
MERGE_BYTES: Final = 256 << 20
"""Of rows, in memory, that are merged at a time."""

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
    - progress: called with (files done, files in all)
    - seconds: the clock that durations are taken from

    Raises PipelineError: WrongTable, WrongSchema naming the column.
    """
    begun, path, target = seconds(), table_path(table), table_path(into)
    if not is_table(path):
        raise WrongTable(f"{path}: there's no table; give the folder of a landed one")
    source = open_table(path)
    rows = pa.schema(source.schema().to_arrow())
    _check(path, rows, key)
    keyed = pa.schema([pa.field(KEY, pa.string()), *(item for item in rows if item.name != STORE_DATE)])
    run = _Run(source, path, target, key, tuple(sorted(topics)))
    types = prepare_table(target, keyed, PARTITION_BY)
    run.check()
    run.merge(types, progress or _silent)
    return LatestResult(
        table=path,
        into=target,
        version=source.version(),
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


class _Run:
    """One run.

    - source: the landed table's version
    - path: of that table
    - target: path of the keyed one
    - key: column
    - topics: only these; none: all
    """

    def __init__(self, source: DeltaTable, path: str, target: str, key: str, topics: tuple[str, ...]) -> None:
        self._source = source
        self._path = path
        self._target = target
        self._key = key
        self._topics = topics
        self._what = {"of": str(source.metadata().id), "key": key, "topics": list(topics)}
        digest = sha256(repr(sorted(self._what.items())).encode()).hexdigest()[:16]
        self._application = APPLICATION + digest
        self.done = _Done()

    def check(self) -> None:
        """Raises WrongTable if the keyed table is of another one, or by another key."""
        notes = (note[LATEST] for note in commit_notes(open_table(self._target)) if LATEST in note)
        found = next(notes, self._what)
        if found != self._what:
            raise WrongTable(
                f"{self._target}: has the last messages of another table, or by another key or of other topics"
                f" (key {found.get('key')}, topics {', '.join(found.get('topics') or ()) or 'all'});"
                " give the same, or a new folder"
            )

    def merge(self, types: pa.Schema, progress: Progress) -> None:
        """What is new.

        - types: the keyed table's columns
        - progress: called with (files done, files in all)
        """
        waiting: list[pa.Table] = []
        for rows, is_last in self._batches(progress):
            if rows is not None:
                waiting.append(rows)
            if is_last or sum(each.nbytes for each in waiting) >= MERGE_BYTES:
                if waiting:
                    self._merge(last_rows(pa.concat_tables(waiting)), types, is_last)
                waiting = []

    def _batches(self, progress: Progress) -> Iterator[tuple[pa.Table | None, bool]]:
        """(rows with a key, is it the end?)."""
        files = self._new_files()
        for number, fragment in enumerate(files, 1):
            for batch in fragment.to_batches(schema=self._schema):
                rows = pa.Table.from_batches([batch])
                if self._topics:
                    rows = rows.filter(
                        pc.is_in(rows.column("topic").cast(pa.string()), pa.array(self._topics))
                    )
                keyed = with_key(rows, self._key)
                self.done.rows += len(rows)
                self.done.without_key += len(rows) - len(keyed)
                if len(keyed):
                    yield keyed, False
            progress(number, len(files))
        yield None, True

    def _new_files(self) -> list[Any]:
        """Those that this version has and the merged one hadn't."""
        found = table_rows(self._source, self._path)
        self._schema = found.schema
        files = list(found.get_fragments())
        merged = open_table(self._target).transaction_version(self._application)
        if merged is None:
            return files
        try:
            before = DeltaTable(self._path, version=merged)
            known = {fragment.path for fragment in table_rows(before, self._path).get_fragments()}
        except (DeltaError, OSError):
            return files  # that version's log has expired: all again, which changes nothing of what is there
        return [file for file in files if file.path not in known]

    def _merge(self, rows: pa.Table, types: pa.Schema, is_last: bool) -> None:
        rows = rows.select(types.names).cast(types)
        note: dict[str, Any] = {NOTE: {LATEST: self._what}}
        reached = [Transaction(self._application, self._source.version())] if is_last else []
        refusal: Exception | None = None
        for _ in range(ATTEMPTS):
            properties = CommitProperties(app_transactions=reached, custom_metadata=note)
            merge = open_table(self._target).merge(
                rows,
                f"t.topic = s.topic AND t.{KEY} = s.{KEY} AND t.broker = s.broker",
                source_alias="s",
                target_alias="t",
                commit_properties=properties,
            )
            try:
                did = merge.when_matched_update_all(LATER).when_not_matched_insert_all().execute()
            except CommitFailedError as error:
                refusal = error
                continue
            except DeltaError as error:
                raise WrongTable(f"{self._target}: can't be merged into: {one_line(error)}") from error
            self.done.inserted += did["num_target_rows_inserted"]
            self.done.updated += did["num_target_rows_updated"]
            return
        raise WrongTable(
            f"{self._target}: no merge after {ATTEMPTS} attempts: {refusal};"
            " try again when fewer writers are active"
        )


def _silent(done: int, total: int) -> None:
    pass

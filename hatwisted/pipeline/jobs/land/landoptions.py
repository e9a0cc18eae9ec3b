"""How to land, and what a landing did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, runtime_checkable

import pyarrow as pa

from hatwisted.pipeline.delta.landedfiles import columns_to_read, typed_schema
from hatwisted.pipeline.delta.landedrows import LANDING_KEYS, STORE_DATE
from hatwisted.pipeline.errors import WrongSchema
from hatwisted.pipeline.schemas.topicschemas import TopicSchema, check_schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Mode = Literal["once", "continuous"]
Engine = Literal["spark", "local", "auto"]
ChosenEngine = Literal["spark", "local"]
Progress = Callable[[int, int], None]


@runtime_checkable
class Watcher(Protocol):
    """A progress that wants to know what is waited for until bytes are done, too."""

    def waits_for(self, what: str) -> None:
        """From here on this is waited for."""


def tell(progress: object, what: str) -> None:
    """Tell a progress what is waited for from here on, if it wants to know."""
    if isinstance(progress, Watcher):
        progress.waits_for(what)


READING, SPARK = "reading the table", "Spark's start"
CLAIMING, LOOKING = "claiming its brokers", "looking for new records"
FIRST_BATCH, TASKS = "Spark's first batch", "Spark's tasks"
"""What a landing waits for, in this order."""

MAX_BYTES_PER_TRIGGER: Final = 4 << 30
"""Bytes of log per commit: seconds of work to repeat after a kill, and few large files."""
COMPACT_BELOW: Final = 128 << 20
"""Bytes of a Parquet file that small ones are made into."""
COMPACT_EVERY: Final = 60.0
"""Seconds between two looks for small files while a landing goes on."""


@dataclass(frozen=True, kw_only=True)
class LandOptions:
    """How to land.

    - engine: `spark`; `local`, in this process and without Java; `auto`: `local` for what it takes no longer for
      than Spark for its start, if it can do it
    - mode: `once` ends when everything there is now has landed; `continuous` follows the logs until Ctrl-C or
      `stop`
    - every: seconds between two triggers of `continuous`
    - checkpoint: folder for the progress; None: next to the table
    - columns: to land; None: all
    - partitions: tasks of a full trigger; None: by size and cores
    - max_bytes_per_trigger: of log
    - compact_below: bytes of the files that small ones are merged into; None: leave them
    - vacuum: how long files that were replaced stay for readers of older versions; None: until Delta's own vacuum
    - schemas: of topics' bodies, which become columns (`parse_schemas`)
    - transform: from the rows of a landed table to those that are to land, which keep LANDING_KEYS and the
      date; with it, rows pass through Spark's JVM, which takes about three times as long
    """

    engine: Engine = "auto"
    mode: Mode = "once"
    every: float = 5.0
    checkpoint: str | None = None
    columns: Sequence[str] | None = None
    partitions: int | None = None
    max_bytes_per_trigger: int = MAX_BYTES_PER_TRIGGER
    compact_below: int | None = COMPACT_BELOW
    vacuum: timedelta | None = None
    transform: Callable[[DataFrame], DataFrame] | None = None
    schemas: Sequence[TopicSchema] = ()

    def schema(self, path: str, session: Callable[[], SparkSession]) -> pa.Schema:
        """The columns that are to land; WrongSchema if the transformation drops one that's needed, BadSchema.

        - path: of the table, for errors
        - session: the one that a transformation needs
        """
        check_schemas(self.schemas)
        rows = typed_schema(self.columns, self.schemas)
        if self.transform is not None and self.schemas:
            raise WrongSchema(f"{path}: schemas and a transformation can't be had together: leave one out")
        if self.transform is None:
            return rows
        from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

        shape = from_arrow_schema(rows)
        changed = self.transform(session().createDataFrame([], shape)).schema
        for name in (*LANDING_KEYS, STORE_DATE):
            if name not in changed.fieldNames():
                raise WrongSchema(f"{path}: the transformation must keep column {name}")
        return to_arrow_schema(changed, timezone="UTC")

    def read_options(self) -> dict[str, str]:
        options = {
            "columns": ",".join(columns_to_read(self.columns, self.schemas)),
            "maxBytesPerTrigger": str(self.max_bytes_per_trigger),
        }
        return options

    def trigger(self) -> dict[str, Any]:
        if self.mode == "once":
            return {"availableNow": True}
        return {"processingTime": f"{self.every} seconds"}


DEFAULTS: Final = LandOptions()


@dataclass(frozen=True, kw_only=True)
class LandResult:
    """What a landing did: sums over the commits it made itself.

    `engine` that landed them, `bytes` of Parquet, `log_bytes` of records, `versions` of the table it made with
    rows, `removed` files an earlier run had left without a commit, `compacted` small files replaced, `vacuumed`
    files replaced long ago and removed now, `put_off` compactions that lost against another writer, `dead_letters`
    rows that don't fit their topic's schema, by reason, `damages` ranges of the log recorded in the source's
    `damagePath`, `stopped` before its end by Ctrl-C.
    """

    table: str
    engine: ChosenEngine
    rows: int
    bytes: int
    log_bytes: int
    files: int
    versions: tuple[int, ...]
    seconds: float
    removed: int
    compacted: int
    vacuumed: int = 0
    put_off: tuple[str, ...]
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    damages: int
    stopped: bool

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

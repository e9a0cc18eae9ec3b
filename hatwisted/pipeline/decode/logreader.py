"""Log files into record batches: one split, or whole stores.

A split is read in chunks of some megabytes into one buffer; what a task needs in memory is that buffer and the
batch made of it, however large the log.

A log ends where `LogStore.end` says, before a record that is being written and before what a crash left: that
isn't damage, and no split reaches into it. The blank that fills a full file ends a read. Anything else that
isn't a record is damage, and `mode` says what to do about it:

* `failfast`: DamagedLogRange, with file, offset and reason.
* `skip-and-report`: `damages` is called with the range, and reading continues after it.
* `permissive`: the same, and a row stands for the range: its columns are null but for broker, file,
  physical_offset (the start of the range), size (its length) and body (its bytes, at most DAMAGE_BYTES of them).

A record is read whether or not its body's checksum is right: the column body_crc_ok tells. A compressed body that
can't be decompressed is damage, found when the column body is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, get_args

import pyarrow as pa

from hatwisted.kernel import plain_columns
from hatwisted.logcodec.recordsearch import RecordSearch
from hatwisted.logcodec.scan import Records, Stop
from hatwisted.logcodec.window import BREAKS, READ_SIZE, LogWindow
from hatwisted.pipeline.decode.arrowschema import arrow_schema
from hatwisted.pipeline.decode.batches import BATCH_ROWS, BatchBuilder
from hatwisted.pipeline.decode.conditions import Condition
from hatwisted.pipeline.decode.filebytes import FileBytes
from hatwisted.pipeline.decode.storebytes import LogBytes, open_file, read
from hatwisted.pipeline.decode.storefolder import LogStore, Split
from hatwisted.pipeline.errors import DamagedLogRange, PipelineError, WrongLogFile

Mode = Literal["failfast", "skip-and-report", "permissive"]
MODES: Final[tuple[str, ...]] = get_args(Mode)

DAMAGE_BYTES: Final = 1 << 20
"""Bytes of a damaged range that a row of permissive mode holds."""
DAMAGE_COLUMNS: Final = ("broker", "file", "physical_offset", "size", "body")
"""What such a row has; its other columns are null."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes [begin, end) (physical offsets) of a broker's log file that aren't records, and why."""

    broker: str
    file: str
    begin: int
    end: int
    reason: str


DamageListener = Callable[[Damage], None]


def read_split(
    split: Split,
    columns: Sequence[str] | None = None,
    *,
    where: Sequence[Condition] = (),
    mode: Mode = "failfast",
    damages: DamageListener | None = None,
    batch_rows: int = BATCH_ROWS,
    read_size: int = READ_SIZE,
) -> Iterator[pa.RecordBatch]:
    """The records that start in a split, in log order, as batches, none of them empty. A damaged range
    belongs to the split in which it begins.

    - split: a range of one file
    - columns: which; None: all
    - where: conditions that rows must meet
    - mode: what to do about damage, one of MODES
    - damages: gets the ranges left out
    - batch_rows: rows of a batch at most
    - read_size: bytes read at once
    """
    if mode not in MODES:
        raise PipelineError(f"no mode {mode!r}; there are: {', '.join(MODES)}")
    builder = BatchBuilder(split.broker, columns, where, batch_rows)
    with open_file(split.path) as file:
        if file.size != split.file_size:
            raise WrongLogFile(
                f"{split.path}: has {file.size} bytes, {split.file_size} when the store was listed: "
                f"was it cut?"
            )
        yield from _SplitReader(split, file, builder, mode, damages, read_size).batches()


class _SplitReader:
    def __init__(
        self,
        split: Split,
        file: LogBytes,
        builder: BatchBuilder,
        mode: Mode,
        damages: DamageListener | None,
        read_size: int,
    ) -> None:
        self._split = split
        self._file = file
        self._builder = builder
        self._mode = mode
        self._damages = damages
        self._name = split.path.rpartition("/")[2]
        log = FileBytes(file, split.base, split.file_size)
        self._search = RecordSearch(log, split.base, split.limit)
        self._window = LogWindow(log.fill, split.file_size, read_size, plain=plain_columns)

    def batches(self) -> Iterator[pa.RecordBatch]:
        split = self._split
        at = split.begin if split.aligned else self._search.at_or_after(split.begin)
        while at < split.end:
            records = self._window.records(at, split.end)
            at, end = records.end_offset, records.end
            yield from self._built(records)
            if end.stop is Stop.BLANK:
                return
            if end.stop in BREAKS:
                following = self._behind(at)
                yield from self._damaged(at, following, end.reason or end.stop.value)
                at = following

    def _built(self, records: Records) -> Iterator[pa.RecordBatch]:
        if not len(records):
            return
        bad: list[tuple[int, int, str]] = []
        yield from self._builder.batches(records, self._name, lambda *found: bad.append(found))
        for begin, end, reason in bad:
            yield from self._damaged(begin, end, reason)

    def _behind(self, offset: int) -> int:
        """Where reading continues after damage: at a record, or at the end of the log or file."""
        split = self._split
        limit = split.base + split.file_size if split.limit is None else split.limit
        following = self._search.after_damage(offset, limit)
        return limit if following is None else following

    def _damaged(self, begin: int, end: int, reason: str) -> Iterator[pa.RecordBatch]:
        if self._mode == "failfast":
            raise DamagedLogRange(
                f"{self._split.path}: no valid record at offset {begin} (byte {begin - self._split.base}): "
                f"{reason}; the log continues at {end}. Read with mode=skip-and-report to leave this "
                f"range out"
            )
        if self._damages is not None:
            self._damages(Damage(self._split.broker, self._name, begin, end, reason))
        if self._mode == "permissive":
            batch = self._builder.rows(self._row_of(begin, end))
            if batch.num_rows:
                yield batch

    def _row_of(self, begin: int, end: int) -> pa.RecordBatch:
        row = {
            "physical_offset": begin,
            "size": min(end - begin, (1 << 31) - 1),
            "body": read(self._file, begin - self._split.base, min(end - begin, DAMAGE_BYTES)),
            "broker": self._split.broker,
            "file": self._name,
        }
        return pa.RecordBatch.from_pylist([row], schema=arrow_schema())


def read_arrow(
    paths: Sequence[str] | str,
    columns: Sequence[str] | None = None,
    where: Sequence[Condition] = (),
    *,
    mode: Mode = "failfast",
    begin: int | None = None,
    end: int | None = None,
    damages: DamageListener | None = None,
) -> pa.RecordBatchReader:
    """Stores as one stream of record batches, one store after the other: for pandas (`.read_pandas()`),
    polars (`polars.from_arrow`), and whatever takes Arrow streams.

    - paths: store folders
    - columns: which; None: all
    - where: conditions that rows must meet
    - mode: what to do about damage, one of MODES
    - begin: physical offset, in each store; None: its first
    - end: physical offset, in each store; None: its current end
    - damages: gets the ranges left out
    """
    stores = [LogStore.open(path) for path in ([paths] if isinstance(paths, str) else paths)]
    schema = arrow_schema(columns)
    one = partial(read_split, columns=columns, where=where, mode=mode, damages=damages)
    batches = (batch for store in stores for split in store.splits(begin, end) for batch in one(split))
    return pa.RecordBatchReader.from_batches(schema, batches)

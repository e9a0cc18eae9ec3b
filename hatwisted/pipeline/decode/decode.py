"""Records already in memory, such as a broker's answer to a pull, as record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from hatwisted.kernel import plain_columns
from hatwisted.logcodec.octets import Buffer
from hatwisted.logcodec.plaincolumns import plain_records
from hatwisted.logcodec.scan import NO_LIMIT, Records, Stop, gather, walk
from hatwisted.pipeline.decode.arrowschema import arrow_schema
from hatwisted.pipeline.decode.batches import BatchBuilder
from hatwisted.pipeline.decode.conditions import Condition
from hatwisted.pipeline.decode.filebytes import PREFIX, new_buffer
from hatwisted.pipeline.errors import DamagedLogRange


def decode_buffer(
    data: bytes | bytearray | memoryview,
    columns: Sequence[str] | None = None,
    *,
    base: int | None = None,
    broker: str,
    file: str,
    where: Sequence[Condition] = (),
) -> pa.RecordBatch:
    """Whole records, one after the other, as one batch, which has to hold all of their bodies. Raises
    DamagedLogRange if some bytes aren't a whole record, or a body can't be decompressed.

    - data: their bytes
    - columns: which; None: all
    - base: physical offset of the first byte, which the records are checked against; None for records that
      didn't follow one another in the log
    - broker: for the column and errors
    - file: for the column and errors
    - where: conditions that rows must meet
    """
    batches = list(decode_batches(data, columns, base=base, broker=broker, file=file, where=where))
    return (
        pa.concat_batches(batches)
        if batches
        else pa.RecordBatch.from_pylist([], schema=arrow_schema(columns))
    )


def decode_batches(
    data: bytes | bytearray | memoryview,
    columns: Sequence[str] | None = None,
    *,
    base: int | None = None,
    broker: str,
    file: str,
    where: Sequence[Condition] = (),
) -> Iterator[pa.RecordBatch]:
    """The same as batches of which none is empty: one, unless decompressed bodies are too much for one.

    - data: their bytes
    - columns: which; None: all
    - base: as above
    - broker: for the column and errors
    - file: for the column and errors
    - where: conditions that rows must meet
    """
    octets = new_buffer(len(data))
    octets[PREFIX:] = np.frombuffer(data, np.uint8)
    begin = base or 0
    records = _records(octets.data, begin - PREFIX, base is not None)
    if records.end.stop is not Stop.LIMIT:
        raise DamagedLogRange(
            f"{broker}, {file}: no whole record at byte {records.end_offset - begin} of {len(data)}, after "
            f"{len(records)} records: {records.end.reason or records.end.stop.value}"
        )

    def fail(at: int, stop: int, reason: str) -> None:
        raise DamagedLogRange(f"{broker}, {file}: record at byte {at - begin}: {reason}")

    builder = BatchBuilder(broker, columns, where, rows=max(len(records), 1))
    yield from builder.batches(records, file, fail)


def _records(buf: Buffer, base: int, placed: bool) -> Records:
    """All that follow the prefix; base, placed: as `gather` takes them."""
    if plain_columns is not None:
        plain = plain_records(plain_columns, buf, base, range(PREFIX, len(buf)), placed=placed, room=len(buf))
        if plain is not None:
            return plain
    positions, end = walk(buf, PREFIX, NO_LIMIT, len(buf))
    return gather(buf, base, positions, end, placed=placed)

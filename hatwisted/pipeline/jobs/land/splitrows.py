"""A piece of a log as rows of a landed table, for either engine."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa

from hatwisted.pipeline.decode.logreader import read_split
from hatwisted.pipeline.decode.storefolder import Split
from hatwisted.pipeline.delta.landedrows import with_store_date
from hatwisted.pipeline.errors import LostRange, WrongLogFile

_log = logging.getLogger(__name__)


def split_rows(split: Split, columns: Sequence[str], lossy: bool = False) -> Iterator[pa.RecordBatch]:
    """The rows, with their date. Raises LostRange if the file has expired since the pieces were planned.

    - split: the piece
    - columns: of the log
    - lossy: that is no error
    """
    try:
        yield from map(with_store_date, read_split(split, columns))
    except WrongLogFile as error:
        if not isinstance(error.__context__, FileNotFoundError):
            raise
        lost(split.store, split.broker, split.begin, split.end, lossy)


def lost(store: str, broker: str, begin: int, end: int, lossy: bool) -> None:
    """What is said of records that can't land any more. Raises LostRange.

    - store: its folder
    - broker: whose log
    - begin: physical offset of the first
    - end: and of what follows the last
    - lossy: that is no error
    """
    what = f"{store}: broker {broker}: offsets {begin} to {end} were deleted before they were read"
    if not lossy:
        raise LostRange(f"{what}: set failOnDataLoss=false to continue with what is left")
    _log.warning("%s", what)

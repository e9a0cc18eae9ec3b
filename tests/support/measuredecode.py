"""How fast the decoder is on one core, from the page cache: messages and bytes a second by what is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from hatwisted.pipeline.decode.arrowschema import COLUMNS
from hatwisted.pipeline.decode.logreader import read_split
from hatwisted.pipeline.decode.storefolder import LogStore

PROPERTIES = ("tags", "keys", "unique_key", "properties")
FIELDS = tuple(
    name for name in COLUMNS if name not in (*PROPERTIES, "store_host", "born_host", "body_crc_ok")
)
COLUMN_SETS: dict[str, tuple[str, ...]] = {
    "one column (topic)": ("topic",),
    "fixed fields, topic": tuple(name for name in FIELDS if name != "body"),
    "and the body": FIELDS,
    "and hosts": (*FIELDS, "store_host", "born_host"),
    "and tags, keys, unique key": (*FIELDS, "store_host", "born_host", "tags", "keys", "unique_key"),
    "and the map of properties": tuple(name for name in COLUMNS if name != "body_crc_ok"),
    "all, checksums too": COLUMNS,
}


@dataclass(frozen=True)
class DecodeRate:
    """Of one set of columns: messages and bytes of log a second."""

    columns: str
    messages: float
    bytes: float


def measure_decode(
    store_path: str, repeats: int = 3, sets: dict[str, Sequence[str]] | None = None
) -> Iterator[DecodeRate]:
    """The best of `repeats` for each set of columns, after a pass that fills the page cache."""
    store = LogStore.open(store_path)
    splits = store.splits()
    size = store.end() - store.min_offset
    for batch in (batch for split in splits for batch in read_split(split, ("queue_id",))):
        batch.num_rows  # noqa: B018
    for name, columns in (sets or COLUMN_SETS).items():
        best = float("inf")
        for _ in range(repeats):
            begun = perf_counter()
            rows = sum(batch.num_rows for split in splits for batch in read_split(split, columns))
            best = min(best, perf_counter() - begun)
        yield DecodeRate(name, rows / best, size / best)


if __name__ == "__main__":
    for path in sys.argv[1:]:
        for rate in measure_decode(path):
            print(
                f"{path}  {rate.columns:30} {rate.messages / 1e6:6.2f} M msg/s {rate.bytes / 1e6:7.0f} MB/s"
            )

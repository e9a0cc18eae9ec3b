"""What of some stores is to be landed now, in pieces: in each log's order, from where the table's rows end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from hatwisted.pipeline.decode.storefolder import Split
from hatwisted.pipeline.jobs.land.landingsources import Stores
from hatwisted.pipeline.jobs.land.splitrows import lost


def log_splits(
    source: Stores, brokers: Collection[str], begins: Mapping[str, int], split_bytes: int
) -> Iterator[Split]:
    """The pieces. Raises LostRange if some of it isn't there any more.

    - source: the stores
    - brokers: whose; a store that has appeared since these were claimed waits, as where its rows end isn't known
    - begins: where it goes on, by broker; else at the log's first record
    - split_bytes: of a piece
    """
    # A store that comes later may lose files while those before it land: where it began is noted now.
    stores = {broker: store for broker, store in source.stores().items() if broker in brokers}
    at = {broker: begins.get(broker, store.min_offset) for broker, store in stores.items()}
    for broker, store in stores.items():
        begin = at[broker]
        splits = store.splits(begin, None, split_bytes)
        if begin < store.min_offset:  # as of this very listing
            lost(store.path, broker, begin, store.min_offset, is_lossy(source))
        for split in splits:
            yield replace(split, aligned=split.aligned or split.begin == begin)


def batches(splits: Iterable[Split], most: int) -> Iterator[list[Split]]:
    """Splits that together have at most `most` bytes, or a single one: those of one commit."""
    batch: list[Split] = []
    for split in splits:
        if batch and size_of([*batch, split]) > most:
            yield batch
            batch = []
        batch.append(split)
    if batch:
        yield batch


def size_of(splits: Iterable[Split]) -> int:
    """Bytes of log."""
    return sum(split.end - split.begin for split in splits)


def is_lossy(source: Stores) -> bool:
    """Does it go on with what is left where some of a log is gone?"""
    given = {name.lower(): value.lower() for name, value in source.more.items()}
    return given.get("failondataloss") == "false"

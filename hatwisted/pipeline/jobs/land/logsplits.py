"""What of some stores is to be landed now, in pieces: in each log's order, from where the table's rows end."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from hatwisted.pipeline.decode.storefolder import LogStore, Split
from hatwisted.pipeline.errors import LostRange
from hatwisted.pipeline.jobs.land.landingsources import Stores

_log = logging.getLogger(__name__)


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
            _lost(source, store, begin)
        for split in splits:
            yield replace(split, aligned=split.aligned or split.begin == begin)


def _lost(source: Stores, store: LogStore, begin: int) -> None:
    what = f"{store.path}: broker {store.broker}: offsets {begin} to {store.min_offset} were deleted before"
    given = {name.lower(): value.lower() for name, value in source.more.items()}
    if given.get("failondataloss") != "false":
        raise LostRange(f"{what} they were read: set failOnDataLoss=false to continue with what is left")
    _log.warning("%s they were read", what)

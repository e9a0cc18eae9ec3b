"""Which stores are read: folders and patterns from the options, one store per broker.

The folders are listed again whenever they are asked for, so that a stream over a pattern takes in a broker whose
folder appears while it runs. A store that was there before is kept, because it knows where its log ended.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from hatwisted.pipeline.decode.storebytes import address_parts, is_remote, remote_filesystem
from hatwisted.pipeline.decode.storefolder import LogStore
from hatwisted.pipeline.errors import NotAStore
from hatwisted.pipeline.spark.readoptions import CONDITION_OPTIONS, BadOption, Options

LOG_OPTIONS: Final = (
    *("path", "paths", "broker"),
    *CONDITION_OPTIONS,
    *("columns", "mode", "damagePath", "splitBytes", "batchRows"),
    *("startingOffsets", "maxBytesPerTrigger", "maxRecordsPerTrigger", "failOnDataLoss"),
)
"""All that a read of stores takes; those of the last line concern streams."""
_PATTERN: Final = frozenset("*?[")


@dataclass(slots=True)
class StoreList:
    """Folders or patterns (`/data/*/store`), and what their brokers are called in place of the folders' names."""

    places: tuple[str, ...]
    names: tuple[str, ...] = ()
    _opened: dict[str, LogStore] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, options: Options) -> StoreList:
        """From the options `path` (what `load` is given), `paths` and `broker`."""
        places = options.items("path") + options.items("paths")
        if not places:
            raise BadOption("commitlog: no store is given: .load(folder), or the option paths")
        return cls(places, options.items("broker"))

    def stores(self) -> dict[str, LogStore]:
        """The stores there are, by broker; raises NotAStore and WrongLogFile."""
        folders = [folder for place in self.places for folder in _expanded(place)]
        if self.names and len(self.names) != len(folders):
            raise BadOption(
                f"commitlog: option broker names {len(self.names)} brokers, but there are {len(folders)} "
                f"store folders: {', '.join(folders)}"
            )
        found: dict[str, LogStore] = {}
        for index, folder in enumerate(folders):
            store = self._store(folder, self.names[index] if self.names else None)
            if store.broker in found:
                raise BadOption(
                    f"commitlog: {found[store.broker].path} and {folder} would both be broker "
                    f"{store.broker!r}: read one of them, or name their brokers by the option broker"
                )
            found[store.broker] = store
        return found

    def _store(self, folder: str, name: str | None) -> LogStore:
        if folder not in self._opened:
            self._opened[folder] = LogStore.open(folder, name)
        return self._opened[folder]


def _expanded(place: str) -> Iterator[str]:
    """The folders a place stands for, in order; the place itself if it is no pattern. Absolute: a task runs in
    another folder than the program that asked."""
    place = place if is_remote(place) else os.path.abspath(place)
    if not _PATTERN.intersection(place):
        yield place
        return
    found = _remote(place) if is_remote(place) else sorted(glob.glob(place))
    if not found:
        raise NotAStore(f"{place}: no folder has that name")
    yield from found


def _remote(pattern: str) -> list[str]:
    files, path = remote_filesystem(pattern)
    # It may have cached an earlier listing.
    files.invalidate_cache()
    found = sorted(files.glob(path))
    scheme, place, below = address_parts(pattern.rstrip("/"))
    if _PATTERN.intersection(place) or not path.endswith(below):
        return [files.unstrip_protocol(each) for each in found]
    # The address has what the file system doesn't tell again, as Azure's account, and its own name for the scheme.
    start = len(path) - len(below)
    return [f"{scheme}://{place}/{each[start:]}" for each in found]

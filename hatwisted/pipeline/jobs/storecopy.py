"""One store as an audit or a rebuild sees it: its log files, and which part of them is records."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from hatwisted.logcodec.recordsearch import written_end
from hatwisted.pipeline.decode.storefolder import LogFile, LogStore
from hatwisted.pipeline.errors import NotAStore
from hatwisted.pipeline.jobs.locallog import LocalLog


@dataclass(frozen=True, slots=True)
class StoreCopy:
    """What a task has to know of a store; picklable.

    - name: the folder as it was given
    - min_offset, end: of its records
    - torn_bytes: written after the end
    """

    name: str
    broker: str
    files: tuple[LogFile, ...]
    min_offset: int
    end: int
    torn_bytes: int

    @classmethod
    def open(cls, path: str) -> StoreCopy:
        """The store in a folder. NotAStore, WrongLogFile."""
        store = LogStore.open(path)
        if not store.files:
            raise NotAStore(f"{path}: its log has no files yet")
        files, end = tuple(store.files), store.end()
        with closing(LocalLog(files)) as log:
            torn = written_end(log, end) - end
        return cls(path, store.broker, files, store.min_offset, end, torn)

    @property
    def file_size(self) -> int:
        """Bytes of each log file."""
        return self.files[0].size

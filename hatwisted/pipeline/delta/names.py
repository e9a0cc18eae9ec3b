"""Names of a landed table's folders and files, and what they tell after a crash.

    topic=%25RETRY%25group/store_date=2026-11-20/part-3f2a9c01-000007-<uuid>.zstd.parquet

Folders carry percent-encoded partition values as Hive's do; they are for people and for tools that read bare
folders. Delta's own readers take the values from Delta's log, where they aren't encoded, so a topic such as
`%RETRY%group` comes back exactly, whatever its folder is called.

A file's name carries its writer and the epoch of its run (see commits.py): a file of an earlier epoch of
the same writer can't be committed any more, which makes it safe to remove at once when no version mentions it.
A name by task and attempt, as Spark's own sinks have it, was rejected: a repeated batch would write to a name
that the first attempt may have committed.

A merge, or a compaction of a table that has no claims, takes place right after the version that it has looked at,
or not at all. Its files carry `BY_VERSION` instead of a writer and that version instead of an epoch: once there is
a later one, nobody can commit them any more.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

SUFFIX: Final = ".zstd.parquet"
UNFINISHED: Final = ".unfinished-"
"""Prefix of a file that is being written: hidden from Spark, pyarrow and every reader of bare folders."""
NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"
FOLDER_MAX: Final = 200
"""Bytes of an encoded folder name; file systems take 255, and `%` alone grows threefold."""
WRITER_DIGITS: Final = 8
EPOCH_DIGITS: Final = 6
BY_VERSION: Final = "0" * WRITER_DIGITS
"""In place of a writer's digest, in front of the version that the file is committed right after."""

_HALF_CODE: Final = re.compile("%[0-9A-F]?$")
_FILE: Final = re.compile(
    rf"(?:{re.escape(UNFINISHED)})?part-([0-9a-f]{{{WRITER_DIGITS}}})-(\d{{{EPOCH_DIGITS},}})-[0-9a-f]{{32}}{re.escape(SUFFIX)}"
)


@dataclass(frozen=True)
class Writer:
    """Who writes: the brokers whose logs one landing follows."""

    brokers: tuple[str, ...]

    @classmethod
    def of(cls, brokers: Iterable[str]) -> Writer:
        return cls(tuple(sorted(set(brokers))))

    @property
    def digest(self) -> str:
        """What stands for the writer in a file's name."""
        return hashlib.sha256("\n".join(self.brokers).encode()).hexdigest()[:WRITER_DIGITS]


def partition_folder(values: Mapping[str, str | None]) -> str:
    """The folder of one partition, relative to the table."""
    return "/".join(_folder(column, value) for column, value in values.items())


def _folder(column: str, value: str | None) -> str:
    name = f"{quote(column, safe='')}={NULL_FOLDER if value is None else quote(value, safe='')}"
    if len(name) <= FOLDER_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    # Not in the middle of a percent-encoded byte.
    return f"{_HALF_CODE.sub('', name[: FOLDER_MAX - 17])}-{digest}"


def new_file_name(writer: str, epoch: int) -> str:
    """A name that was never used before, for a file of run `epoch` of the writer with digest `writer`."""
    return f"part-{writer}-{epoch:0{EPOCH_DIGITS}d}-{uuid.uuid4().hex}{SUFFIX}"


def written_by(name: str) -> tuple[str, int] | None:
    """Writer digest and epoch of a file's writer; None if the name isn't of ours."""
    found = _FILE.fullmatch(name)
    return (found[1], int(found[2])) if found else None

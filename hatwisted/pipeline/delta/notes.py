"""What a table's commits say of themselves: how landings know what those before them have done.

The notes are read from the files of Delta's log, the newest first, as far back as somebody needs them, and once
for all who ask of a version. There's no bound on how far back: a landing's own commits end each of its searches
but the first, the log's retention that one; and what lies beyond a bound might forbid what is to be done (that a
version was restored, or a broker is landed by queue). So the reading is cheap: 3,000 commits of others take some
70 ms of a local folder, while delta-rs takes 1.4 s to open a table with as many since its checkpoint.

Rejected: delta-rs's own history. It parses each commit, which takes four times as long, and it tells also of the
commits that have come since the table was opened, and numbers them all down from the version that was opened (seen
with 1.6.6).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from deltalake import DeltaTable

from hatwisted.pipeline.decode.storebytes import is_remote
from hatwisted.pipeline.delta.deltatable import open_table
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.tablefolder import TableFolder
from hatwisted.pipeline.errors import said

NOTE: Final = "hatwisted"
"""Key of what a commit says about itself in Delta's commit information."""
RESTORE: Final = "RESTORE"
AT_ONCE: Final = 16
"""Commits that are read at a time from an object store, where each one is waited for; after the newest one, which
is mostly enough."""


class CommitNote(NamedTuple):
    """What a commit says of itself. version: the commit's; holds: False if one before it was restored since."""

    version: int
    said: Mapping[str, Any]
    holds: bool


class Notes:
    """Those of the commits up to a version.

    - path: of the table
    - table: a version of it; None: the newest

    Reading raises WrongTable if the log can't be read.
    """

    def __init__(self, path: str, table: DeltaTable | None = None) -> None:
        self.path = path
        self.table = open_table(path) if table is None else table
        self._next = self.table.version()
        self._newest = self._next
        self._found: list[CommitNote] = []
        self._restored = math.inf
        self.restored_by: int | None = None
        """The newest version, of those that were read, that is an earlier one restored."""

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """What the commits say, the newest first, but for those that were taken back by restoring an earlier
        version."""
        return (note.said for note in self.all() if note.holds)

    def all(self) -> Iterator[CommitNote]:
        """The newest first, as far back as the log reaches."""
        at = 0
        while at < len(self._found) or self._next >= 0:
            if at == len(self._found):
                self._read_on()
                continue
            yield self._found[at]
            at += 1

    def was_taken_back(self, application: str, claim: Mapping[str, Any] | None = None) -> bool:
        """Has somebody restored a version from before the last batch of a landing?

        - application: the landing's name
        - claim: what its run has noted of its claim; None: that may be taken back
        """
        for _, note, holds in self.all():
            if note.get("application") == application:
                return not holds
            if claim is not None and note.items() >= claim.items():
                return not holds
        return False

    def _read_on(self) -> None:
        count = AT_ONCE if is_remote(self.path) and self._next < self._newest else 1
        versions = range(self._next, max(self._next - count, -1), -1)
        self._next = versions[-1] - 1
        for version, commit in zip(versions, self._commits(versions), strict=True):
            if commit is None:
                self._next = -1  # what was before has expired
                return
            self._look(version, commit)

    def _commits(self, versions: range) -> list[bytes | None]:
        if len(versions) == 1:
            return [self._commit(versions[0])]
        with ThreadPoolExecutor(len(versions)) as pool:
            return list(pool.map(self._commit, versions))

    def _commit(self, version: int) -> bytes | None:
        """None: it's gone."""
        try:
            return TableFolder(self.path).commit(version)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise WrongTable(f"{self.path}: its history can't be read: {said(error)}") from error

    def _look(self, version: int, commit: bytes) -> None:
        try:
            entry = _information(commit)
        except (ValueError, RecursionError) as error:
            raise WrongTable(
                f"{self.path}: its history can't be read: commit {version} isn't JSON: {said(error)}"
            ) from error
        holds = version <= self._restored
        if holds and entry.get("operation") == RESTORE:
            self._restored = _restored(entry)
            self.restored_by = version if self.restored_by is None else self.restored_by
        elif isinstance(note := entry.get(NOTE), dict):
            self._found.append(CommitNote(version, note, holds))


def _information(commit: bytes) -> Mapping[str, Any]:
    """What a commit says of itself, if it's worth looking at. commit: an action per line; ValueError if it has
    others"""
    if NOTE.encode() not in commit and RESTORE.encode() not in commit:
        return {}
    for line in commit.splitlines():
        if b'"commitInfo"' in line:
            action = json.loads(line)
            found = action.get("commitInfo") if isinstance(action, dict) else None
            if isinstance(found, dict):
                return found
    return {}


def _restored(entry: Mapping[str, Any]) -> int:
    """Which version was restored; -1 if that isn't said, but a time: nothing of before is relied on then."""
    try:
        return int(entry["operationParameters"]["version"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return -1

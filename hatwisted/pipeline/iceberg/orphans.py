"""Data files that no snapshot mentions: those of killed runs, and those that expired snapshots alone mentioned.

A run's files carry its name and are numbered (`FileIds`), and each commit says up to where they are settled. So
what a killed run left is known by its name: files of the run that a claim has just ended, with higher numbers than
its last commit's. It can't commit them any more, whatever it still does. They are looked up in all snapshots
nevertheless, which is done only if there are any. Lists of dead letters (deadletters.py) have such names, too.
What a run leaves whose successor is killed before it comes to remove that stays, for tools such as Spark's
`remove_orphan_files`.

Merges of last messages claim nothing, and a claim doesn't end a compaction that has begun after it. Each of their
files is for one snapshot, right after the one that was looked at, and has its number in its name: once the table
has come to that number, the file is mentioned, or nobody can commit it any more.

Where old snapshots expire, the files that compactions and deletions replaced go with them, as in Iceberg's own
expiry. That is done where it's plain which those are: one line of snapshots, of which the oldest expire. Where
there are branches or tags beside it, or `gc.enabled` is false, all files stay. Files outside the table's own
folder stay, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyarrow import fs
from pyiceberg.io.pyarrow import PyArrowFileIO

from hatwisted.pipeline.iceberg.catalogs import plainly
from hatwisted.pipeline.iceberg.fileids import RUN_LETTERS, FileIds
from hatwisted.pipeline.iceberg.snapshots import CLAIM, summary_of

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

AT_A_TIME: Final = 16
"""Manifests that are read, or files that are removed, at once: an object store takes a while for each."""
DATA_PATH: Final = "write.data.path"
GC: Final = "gc.enabled"
_OURS: Final = re.compile(
    r"([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})([0-9a-f]{8})\.(?:parquet|avro)$"
)
Item = TypeVar("Item")
Result = TypeVar("Result")


def remove_left(table: Table, name: str, ended: Iterable[str]) -> list[str]:
    """Remove what runs left that have just ended by a claim; the files' addresses.

    - table: as of the claim or later
    - name: of the table, for errors
    - ended: names of the runs
    """
    with plainly(name):
        settled = {run: _settled(table, run) for run in ended}
        left = [path for path in _data_files(table) if _is_left(path, settled)] if settled else []
    return remove_unmentioned(table, name, left, since=_claimed(table, settled))


def remove_passed(table: Table, name: str) -> list[str]:
    """Remove files that a snapshot's number in their names says can't be committed any more; their addresses.

    - table: as it is now, or was before
    - name: of the table, for errors
    """
    with plainly(name):
        following = table.metadata.next_sequence_number()
        left = [path for path in _data_files(table) if 0 < _sequence(path) < following]
    return remove_unmentioned(table, name, left)


def remove_unmentioned(table: Table, name: str, files: Sequence[str], since: int = 0) -> list[str]:
    """Remove files that no snapshot mentions, and return them. The caller makes sure that they won't be committed.

    - table: which
    - name: of the table, for errors
    - files: their addresses
    - since: number of a snapshot that there was before these files; what was written before it isn't read
    """
    if not files:
        return []
    with plainly(name):
        table.refresh()
        manifests = _manifests(table, table.snapshots()).values()
        mentioned = _files_in(table, [each for each in manifests if each.sequence_number >= since])
        gone = sorted({*files} - mentioned)
        _remove(table, gone)
    return gone


def expired_files(table: Table, expiring: Sequence[int]) -> list[str]:
    """Files that are garbage once these snapshots are gone: data, and their own metadata.

    - table: before
    - expiring: the snapshots' numbers
    """
    line = _line(table)
    first = len(expiring)
    plain = len(line) == len(table.snapshots()) and {each.snapshot_id for each in line[:first]} == {*expiring}
    if not plain or table.properties.get(GC, "true") != "true":
        return []
    before = _manifests(table, line[:first])
    kept = _manifests(table, [line[first], line[-1]])
    dropped = [manifest for path, manifest in before.items() if path not in kept]
    data = _files_in(table, dropped) - _files_in(table, kept.values()) if dropped else set()
    own = [f"{table.location()}/", data_location(table)]
    lists = [snapshot.manifest_list for snapshot in line[:first]]
    found = [*data, *(manifest.manifest_path for manifest in dropped), *lists]
    return sorted(path for path in found if path.startswith(tuple(own)))


def remove_files(table: Table, files: Sequence[str]) -> None:
    """Remove files that nothing mentions any more; what can't be removed stays."""
    with suppress(OSError):
        _remove(table, files)


# ---- which


def _settled(table: Table, run: str) -> int:
    """The highest number of a run's files that a commit settled; -1, if no snapshot says."""
    numbers = (FileIds.settled(snapshot, run) for snapshot in table.snapshots())
    return max((number for number in numbers if number is not None), default=-1)


def _claimed(table: Table, runs: Collection[str]) -> int:
    """Number of the first snapshot that a file of these runs can be in; 0: of any."""
    begins = {
        run: snapshot.sequence_number or 0
        for snapshot in table.snapshots()
        if (run := summary_of(snapshot).get(CLAIM)) in runs
    }
    return min(begins.values()) if begins.keys() == {*runs} and begins else 0


def _is_left(path: str, settled: dict[str, int]) -> bool:
    found = _OURS.search(path)
    if found is None:
        return False
    run, number = found[1] + found[2], int(found[6], 16)
    assert len(run) == RUN_LETTERS
    return run in settled and number > settled[run]


def _sequence(path: str) -> int:
    """Number of the snapshot that alone may bring it; 0: it's another one's, or any may."""
    found = _OURS.search(path)
    return 0 if found is None else int(found[3] + found[4] + found[5], 16)


def _line(table: Table) -> list[Snapshot]:
    """The present snapshot and those before it, the oldest first."""
    found: list[Snapshot] = []
    snapshot = table.current_snapshot()
    while snapshot is not None:
        found.append(snapshot)
        before = snapshot.parent_snapshot_id
        snapshot = None if before is None else table.snapshot_by_id(before)
    return found[::-1]


def _manifests(table: Table, snapshots: Sequence[Snapshot]) -> dict[str, ManifestFile]:
    """By their addresses."""
    lists = _each(snapshots, lambda snapshot: snapshot.manifests(table.io))
    return {manifest.manifest_path: manifest for manifests in lists for manifest in manifests}


def _files_in(table: Table, manifests: Iterable[ManifestFile]) -> set[str]:
    """What they have, but for what they say is deleted."""
    entries = _each(list(manifests), lambda manifest: manifest.fetch_manifest_entry(table.io))
    return {entry.data_file.file_path for found in entries for entry in found}


# ---- where they are


def data_location(table: Table) -> str:
    """The folder of its data, with a slash at its end."""
    return str(table.properties.get(DATA_PATH, f"{table.location()}/data")).rstrip("/") + "/"


def _data_files(table: Table) -> list[str]:
    """The addresses of all files there, whoever wrote them. pyiceberg's own ways to files don't list any."""
    location = data_location(table).rstrip("/")
    files = table.io if isinstance(table.io, PyArrowFileIO) else PyArrowFileIO(table.io.properties)
    scheme, place, path = files.parse_location(location, files.properties)
    selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
    found: list[Any] = files.fs_by_scheme(scheme, place).get_file_info(selector)
    return [location + item.path[len(path) :] for item in found if item.type is fs.FileType.File]


def _remove(table: Table, files: Sequence[str]) -> None:
    def remove(path: str) -> None:
        with suppress(FileNotFoundError):
            table.io.delete(path)

    _each(files, remove)


def _each(items: Sequence[Item], do: Callable[[Item], Result]) -> list[Result]:
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return list(pool.map(do, items))

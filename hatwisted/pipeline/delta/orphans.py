"""Files that no commit mentions: what killed runs leave behind, removed as soon as that is safe.

A reader of the Delta table never sees such files; a reader of the bare folder would, and they take space. A file
may go when nobody can commit it any more and no version of the table that can still be read mentions it:

- It was written by this landing's writer in an earlier epoch. The present run's claim is in the log, so a
  commit of an earlier epoch is refused (commits.py). Its age doesn't matter.
- Or its name says that it's committed right after a version (names.py), and there is a later one.
- It's neither a file of the newest version nor in any commit still in the log. What a compaction replaced is in
  the commit that did so; when that commit has expired from the log, so have the versions before it.

Files of other writers are never touched; Delta's vacuum is for them. Vacuum with no retention was rejected: it
removes what readers of older versions still read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from hatwisted.pipeline.delta.commits import Claim
from hatwisted.pipeline.delta.deltatable import open_table
from hatwisted.pipeline.delta.names import BY_VERSION, SUFFIX, written_by
from hatwisted.pipeline.delta.tablefolder import TableFolder

_NAME: Final = re.compile(rf'[^"/\\]+{re.escape(SUFFIX)}')
"""Of a file, at the end of a path in JSON, which may be within a text of JSON."""


def remove_orphans(path: str, held: Claim | None = None) -> list[str]:
    """Remove the files that killed runs left without a commit; their paths within the table.

    - path: of the table
    - held: a landing's claim: those of its writer's earlier runs, too
    """
    later = {BY_VERSION: open_table(path).version()}
    if held is not None:
        later[held.writer.digest] = held.epoch
    suspects = [found for found in TableFolder(path).data_files() if _is_dead(found, later)]
    return remove_unmentioned(path, suspects) if suspects else []


def remove_unmentioned(path: str, files: Iterable[str], beside: str | None = None) -> list[str]:
    """Remove files that no version mentions, and return them. The caller makes sure that they won't be committed.

    - path: of the table
    - files: their paths within it
    - beside: another table whose commits may mention them, too
    """
    names = {found.rpartition("/")[2]: found for found in files}
    elsewhere = set() if beside is None else _mentioned(beside, set(names))
    for name in _active_names(path) | _mentioned(path, set(names)) | elsewhere:
        names.pop(name, None)
    for found in names.values():
        TableFolder(path).delete(found)
    return sorted(names.values())


def _is_dead(path: str, later: Mapping[str, int]) -> bool:
    """Was it written before its writer's epoch? later: that, by writer."""
    writer = written_by(path.rpartition("/")[2])
    return writer is not None and writer[1] < later.get(writer[0], 0)


def _active_names(path: str) -> set[str]:
    """Names of the files of the newest version."""
    paths = pa.table(open_table(path).get_add_actions()).column("path").to_pylist()
    return {found.rpartition("/")[2] for found in paths}


def _mentioned(path: str, names: set[str]) -> set[str]:
    """Those of `names` that a commit in the log adds, removes, or promises to another table."""
    found = set()
    for commit in TableFolder(path).commits():
        found |= names.intersection(_NAME.findall(commit))
    return found

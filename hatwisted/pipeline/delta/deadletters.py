"""Dead letters: rows that don't fit their topic's schema, in a table beside, once, whatever is killed when.

    /lake/messages         every row; a column of its schema is null in one that doesn't fit
    /lake/messages__dlq    those rows again: place, raw body, reason

Delta has no commit over two tables. So the commit of a batch in the first names the files that belong into the
second, whole by then, and that commit decides: the second one follows, and if it doesn't come to that, whoever
lands next makes up for it before he begins (`settle`). It carries the batch's number, so it happens once even if
two make up for it at the same time. The reverse order was rejected: dead letters of a batch that never happened
would have to be found and taken back.

How far back to look: a claim says up to which version its run had looked before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa

from hatwisted.pipeline.delta.commits import DEAD_LETTERS, SETTLED, commit_files
from hatwisted.pipeline.delta.datafiles import DataFile
from hatwisted.pipeline.delta.deltatable import is_table, open_table
from hatwisted.pipeline.delta.landedrows import landed_schema
from hatwisted.pipeline.delta.notes import Notes
from hatwisted.pipeline.delta.tablefolder import TableFolder
from hatwisted.pipeline.schemas.typedcolumns import WHY

SUFFIX: Final = "__dlq"

_log = logging.getLogger(__name__)


def dead_letter_table(path: str) -> str:
    """The table beside."""
    return path.rstrip("/") + SUFFIX


def dead_letter_schema() -> pa.Schema:
    """Its columns: what a landed table can't be without, the raw body, and why it doesn't fit."""
    return pa.schema([*landed_schema(("body",)), *WHY])


def dead_letter_note(files: Sequence[DataFile], counts: Mapping[str, int]) -> dict[str, Any]:
    """What the commit of a batch says about its dead letters.

    - files: of the table beside, whole
    - counts: by reason
    """
    if not files:
        return {}
    return {DEAD_LETTERS: {"counts": dict(counts), "files": [asdict(file) for file in files]}}


def settle(path: str) -> int | None:
    """Make up for dead letters that the last one was killed before committing; the version up to which that's
    done. path: of the first table.
    """
    if not is_table(path):
        return None
    version, beside = open_table(path).version(), dead_letter_table(path)
    if not is_table(beside):
        return version
    for note in reversed(list(_unsettled(path))):
        files = [DataFile(**file) for file in note[DEAD_LETTERS]["files"]]
        application, number = str(note["application"]), int(note["batch"])
        there = set(TableFolder(beside).data_files())
        if not all(file.path in there for file in files):
            if _is_missing(beside, application, number):
                _log.warning("%s: the dead letters of batch %d of %s are gone", beside, number, application)
            continue
        commit_files(beside, files, application=application, number=number, held=None)
    return version


def _is_missing(beside: str, application: str, number: int) -> bool:
    last = open_table(beside).transaction_version(application)
    return last is None or last < number


def _unsettled(path: str) -> Iterator[Mapping[str, Any]]:
    """The notes of batches with dead letters that nobody has looked at yet, the latest first; of each landing its
    last one, since those before it were done when it committed that."""
    settled, seen = -1, set[str]()
    for version, note, _ in Notes(path).all():
        if version <= settled:
            return
        if isinstance(note.get(SETTLED), int):
            settled = max(settled, note[SETTLED])
        if DEAD_LETTERS in note and (application := str(note["application"])) not in seen:
            seen.add(application)
            yield note

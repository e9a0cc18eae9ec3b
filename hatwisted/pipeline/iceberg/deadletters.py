"""Dead letters of an Iceberg table: rows that don't fit their topic's schema, in a table beside, once, whatever is
killed when. They are in the same namespace: `rocketmq.messages` and `rocketmq.messages__dlq`.

As beside a Delta table (delta/deadletters.py): no commit takes in two tables, so that of a batch in the first one
decides, and promises the second one its files, which are whole by then. What isn't kept of that, since a run was
killed between the two, whoever lands next makes up for before he begins (`settle`).

    hatwisted.dead-letters   {"run": "5f0c...", "number": 17, "list": "s3://.../dead-letters-5f0c....avro", ...}

Catalogs bound what a summary may have, and a batch's files are as many as its topics and days. So the promise
names a list of them, written before as a manifest of Iceberg's own, with all that is known of them, and gone when
they are in the table. They are there if a snapshot of that one says that the run's files are settled up to the
promise's number (icebergfiles.py); so it happens once, even if two make up for it at the same time.

How far back to look: a claim says up to which snapshot its run had looked before.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.manifest import (
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
)

from hatwisted.pipeline.iceberg.catalogs import IcebergName, plainly
from hatwisted.pipeline.iceberg.fileids import WRITTEN, FileIds
from hatwisted.pipeline.iceberg.orphans import data_location, remove_left, remove_passed, remove_unmentioned
from hatwisted.pipeline.iceberg.snapshots import SETTLED, append_once, line, summary_of

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

PROMISE: Final = "hatwisted.dead-letters"
"""Key of a snapshot's summary."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Promise:
    """What a batch's snapshot says of its dead letters.

    - run: whose files they are
    - number: of the last of them
    - list: address of the manifest that has them
    - counts: by reason
    """

    run: str
    number: int
    list: str
    counts: Mapping[str, int]

    @property
    def note(self) -> dict[str, str]:
        """For the snapshot's summary."""
        return {PROMISE: json.dumps(asdict(self), separators=(",", ":"))}

    def is_kept(self, beside: Table) -> bool:
        """Does a snapshot say so? beside: as it was loaded."""
        settled = (FileIds.settled(snapshot, self.run) for snapshot in line(beside))
        return any(number is not None and number >= self.number for number in settled)


def promise(
    beside: Table, name: str, files: Sequence[DataFile], ids: FileIds, counts: Mapping[str, int]
) -> Promise:
    """Write the list of a batch's dead letters.

    - beside: the table beside
    - name: of it, for errors
    - files: its new ones; at least one
    - ids: names of the run's files
    - counts: of dead letters by reason
    """
    spec, form = beside.spec(), beside.metadata.format_version
    address = f"{data_location(beside)}dead-letters-{ids.next()}.avro"
    with plainly(name):
        new = beside.io.new_output(address)
        # Its snapshot's number is that of none: the commit to come writes entries of its own.
        with write_manifest(form, spec, beside.schema(), new, -1, "deflate") as manifest:
            for file in files:
                manifest.add(
                    ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=-1, data_file=file)
                )
    return Promise(ids.run, ids.number, address, dict(counts))


def keep(beside: Table, name: str, promised: Promise) -> None:
    """Dead letters into the table beside, unless they are there.

    - beside: that one
    - name: of it, for errors
    - promised: what the first table says
    """
    listed = _listed(beside, promised)
    if listed is not None:

        def checked() -> dict[str, str] | None:
            return None if promised.is_kept(beside) else {}

        note = {WRITTEN: f"{promised.run} {promised.number}"}
        append_once(beside, name, listed, held=None, checked=checked, note=note)
        with plainly(name), suppress(FileNotFoundError):
            beside.io.delete(promised.list)
        return
    with plainly(name):  # whoever has deleted the list has kept the promise first
        beside.refresh()
    if not promised.is_kept(beside):
        _log.warning("%s: %d dead letters are gone: %s", name, sum(promised.counts.values()), promised.list)


def settle(table: Table, name: IcebergName) -> int | None:
    """Make up for dead letters that the last one was killed before committing; the snapshot up to which that's
    done, None if there is none.

    - table: the first one
    - name: of it
    """
    with plainly(str(name)):
        table.refresh()
    unkept = list(_promises(table))
    beside = name.beside.load_if_any() if unkept else None
    for each in reversed(unkept):
        if beside is not None:
            keep(beside, str(name.beside), each)
    snapshot = table.current_snapshot()
    return None if snapshot is None else snapshot.snapshot_id


def remove_unpromised(
    table: Table, beside: Table, name: str, promised: Promise, files: Iterable[str]
) -> None:
    """Remove a batch's dead letters, unless the first table promises them. The caller makes sure that it won't.

    - table: the first one, as it is now
    - beside: the other one
    - name: of that, for errors
    - promised: the batch's promise
    - files: addresses of the batch's files
    """
    said = (_promise_of(snapshot) for snapshot in table.snapshots())
    if any(each is not None and each.list == promised.list for each in said):
        return
    remove_unmentioned(beside, name, [*files])
    with plainly(name), suppress(FileNotFoundError):
        beside.io.delete(promised.list)


def remove_left_beside(name: IcebergName, ended: Iterable[str]) -> list[str]:
    """Remove what runs left beside that have ended by a claim, once what was promised is settled.

    - name: of the first table
    - ended: names of the runs
    """
    beside = name.beside.load_if_any() if ended else None
    if beside is None:
        return []
    return remove_left(beside, str(name.beside), ended) + remove_passed(beside, str(name.beside))


def _promises(table: Table) -> Iterator[Promise]:
    """Those that nobody has looked at yet, the latest first; of each run its last one, since it has kept those
    before that."""
    settled: set[int] = set()
    runs: set[str] = set()
    for snapshot in line(table):
        if snapshot.snapshot_id in settled:
            return
        summary = summary_of(snapshot)
        if SETTLED in summary:
            settled.add(int(summary[SETTLED]))
        found = _promise_of(snapshot)
        if found is not None and found.run not in runs:
            runs.add(found.run)
            yield found


def _promise_of(snapshot: Snapshot) -> Promise | None:
    text = summary_of(snapshot).get(PROMISE)
    return None if text is None else Promise(**json.loads(text))


def _listed(beside: Table, promised: Promise) -> list[DataFile] | None:
    """The files of a promise; None if the list is gone."""
    length: Any = 0  # which nobody asks for
    manifest = ManifestFile.from_args(
        manifest_path=promised.list,
        manifest_length=length,
        partition_spec_id=beside.spec().spec_id,
        content=ManifestContent.DATA,
        sequence_number=0,
    )
    try:
        with plainly(promised.list, but=(FileNotFoundError,)):
            return [entry.data_file for entry in manifest.fetch_manifest_entry(beside.io)]
    except FileNotFoundError:
        return None

"""Files that compactions, and whoever else changes a table, have replaced: removed once no reader needs them.

Delta's own vacuum says which these are, and holds to what the table says of how long they have to stay. Only files
that landings have written are removed, those of other writers are left to their own vacuum. Nothing is
committed, as no version changes.
"""

from __future__ import annotations

from datetime import timedelta

from deltalake.exceptions import DeltaError

from hatwisted.pipeline.delta.deltatable import open_table
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.names import written_by
from hatwisted.pipeline.delta.tablefolder import TableFolder
from hatwisted.pipeline.errors import said

HOUR = timedelta(hours=1)


def remove_replaced(path: str, keep: timedelta) -> list[str]:
    """Remove landed files that no version of this time back mentions; their paths within the table.

    - path: of the table
    - keep: for how long what was replaced stays, in whole hours; a part of one counts as one

    Raises WrongTable if the table says that they have to stay for longer.
    """
    try:
        replaced = open_table(path).vacuum(retention_hours=-(-keep // HOUR), dry_run=True)
    except DeltaError as error:
        raise WrongTable(f"{path}: {said(error)}") from error
    ours, folder = (
        {file for file in replaced if written_by(file.rpartition("/")[2]) is not None},
        TableFolder(path),
    )
    # Delta's log names them for a while after they are gone.
    there = sorted(ours.intersection(folder.data_files())) if ours else []
    for file in there:
        folder.delete(file)
    return there

"""Rows that a table's log says don't count any more, though their files have them: deletion vectors.

Spark's Delta writes them. delta-rs gives Arrow no dataset of a table that may have some, but reads it by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError

from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.errors import said

if TYPE_CHECKING:
    from deltalake import DeltaTable

FEATURE: Final = "deletionVectors"
"""Of a table whose files may have some."""
_NAME: Final = "landed"


def may_have_deleted(table: DeltaTable) -> bool:
    """Is it a table of those that Arrow gets no dataset of? table: open."""
    return FEATURE in (table.protocol().reader_features or ())


def has_deleted(table: DeltaTable) -> bool:
    """Has a file of it rows that don't count? table: open."""
    return may_have_deleted(table) and any(
        pa.record_batch(found).num_rows for found in table.deletion_vectors()
    )


def deleted_rows(table: DeltaTable, path: str) -> Mapping[str, tuple[int, ...]]:
    """The numbers of rows that don't count, by their files, as actions name these.

    - table: open
    - path: of the table, for errors
    """
    if not may_have_deleted(table):
        return {}
    names = pa.table(table.get_add_actions()).column("path").to_pylist()
    by_file = {name.rpartition("/")[2]: name for name in names}
    found = {}
    for batch in map(pa.record_batch, table.deletion_vectors()):
        for at, uri in enumerate(batch.column("filepath").to_pylist()):
            name = by_file.get(uri.rpartition("/")[2])
            if name is None or not uri.endswith(f"/{name}"):
                raise WrongTable(f"{path}: has deleted rows of {uri}, which isn't one of its files")
            kept = batch.column("selection_vector")[at].values
            found[name] = tuple(np.flatnonzero(~np.asarray(kept)).tolist())
    return found


def counting_rows(table: DeltaTable, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows that count, in delta-rs' types. Raises WrongTable if it can't read them.

    - table: open
    - path: of the table, for errors
    - columns: of it
    """
    chosen = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
    with _plainly(path):
        query = iter(QueryBuilder().register(_NAME, table).execute(f"SELECT {chosen} FROM {_NAME}"))
    while True:
        with _plainly(path):
            batch = next(query, None)
        if batch is None:
            return
        yield pa.record_batch(batch)


@contextmanager
def _plainly(path: str) -> Iterator[None]:
    """What delta-rs can't read, as a broken file, is told with the table's name: it raises a bare Exception as it
    comes to it."""
    try:
        yield
    except Exception as error:
        if type(error) is not Exception and not isinstance(error, DeltaError):
            raise
        raise WrongTable(f"{path}: can't be read by delta-rs: {said(error)}") from error

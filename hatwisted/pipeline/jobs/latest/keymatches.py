"""Which rows of a keyed table are replaced by rows that come, and which of those are news.

One that is later takes the place of the other; or the same one, with a value that it got since: bodies that didn't
fit their schema have null until that is mended.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.pipeline.decode.arrowschema import COLUMNS
from hatwisted.pipeline.jobs.latest.lastrows import KEY

OFFSET: Final = "physical_offset"
Chosen = npt.NDArray[np.bool_]


class KeyMatches:
    """Look at every row of a table that may have their keys (`look`), then `news` is what it lacks.

    - rows: the last ones of their keys
    """

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self._own = [name for name in rows.column_names if name not in (KEY, *COLUMNS)]
        self._ids = _ids(rows)
        self._offsets = rows.column(OFFSET).to_numpy()
        self._valued = {name: _is_there(rows.column(name)) for name in self._own}
        self._known = np.zeros(len(rows), np.bool_)
        self._later = np.zeros(len(rows), np.bool_)

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of a table that have to be looked at."""
        return ("topic", "broker", KEY, OFFSET, *self._own)

    def replaced(self, there: pa.Table) -> Chosen:
        """Which of some rows of the table are replaced. there: with `columns`, and perhaps others."""
        return self._compared(there)[2]

    def look(self, there: pa.Table) -> int:
        """The same as a number, remembered. there: with `columns`."""
        at, same, later = self._compared(there)
        self._known[at[same]] = True
        self._later[at[later]] = True
        return int(later.sum())

    @property
    def inserted(self) -> int:
        """Keys that the table hasn't."""
        return int((~self._known).sum())

    @property
    def updated(self) -> int:
        """Keys that have another row now."""
        return int(self._later.sum())

    @property
    def news(self) -> pa.Table:
        """The rows that are to be added."""
        return self._rows.filter(pa.array(~self._known | self._later))

    def _compared(self, there: pa.Table) -> tuple[npt.NDArray[np.int64], Chosen, Chosen]:
        """(for each row of the table the row that has its key, whether there's one, whether that's later)."""
        found = pc.index_in(_ids(there), value_set=self._ids)
        same = _is_there(found)
        at = pc.fill_null(found, 0).to_numpy().astype(np.int64)
        if not len(self._rows) or not len(there):
            return at, same, same
        theirs = pc.fill_null(there.column(OFFSET), -1).to_numpy()
        later = self._offsets[at] > theirs
        gained = np.zeros(len(there), np.bool_)
        for name in self._own:
            gained |= self._valued[name][at] & ~_is_there(there.column(name))
        return at, same, same & (later | (self._offsets[at] == theirs) & gained)


def _ids(rows: pa.Table) -> pa.ChunkedArray:
    """What each row is known by, as one text: the first two parts with their lengths before them."""
    topic, broker, key = (rows.column(name).cast(pa.large_string()) for name in ("topic", "broker", KEY))
    sizes = [pc.binary_length(each).cast(pa.large_string()) for each in (topic, broker)]
    space = pa.scalar(" ", pa.large_string())
    return pc.binary_join_element_wise(*sizes, topic, broker, key, space)


def _is_there(column: pa.ChunkedArray) -> Chosen:
    return np.asarray(column.is_valid().to_numpy(), np.bool_)

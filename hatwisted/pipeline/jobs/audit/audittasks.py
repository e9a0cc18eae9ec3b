"""What an audit's tasks do and are given. Kept apart from the audit itself: a worker loads this and no more."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hatwisted.pipeline.jobs.locallog import LocalLog
from hatwisted.pipeline.jobs.rangecompare import Part, PartFindings, compare_part
from hatwisted.pipeline.jobs.storecopy import StoreCopy

if TYPE_CHECKING:
    from hatwisted.pipeline.jobs.audit.tablecopy import TableCopy


@dataclass(frozen=True, slots=True)
class Copies:
    """All copies; their numbers are those of the stores, then those of the tables."""

    stores: tuple[StoreCopy, ...]
    tables: tuple[TableCopy, ...]


@dataclass(frozen=True, slots=True)
class PartWork:
    """One task: a part of the log, in all copies."""

    part: Part
    copies: Copies
    check_crc: bool

    def run(self) -> PartFindings:
        """Compare them."""
        found = self._of_stores()
        if self.copies.tables:
            self._add_tables(found)
        return found

    def _add_tables(self, found: PartFindings) -> None:
        # A task without tables has no need to load Parquet, which takes longer than the task.
        from hatwisted.pipeline.jobs.audit.tablecompare import RowComparison

        store = None if self.part.reference is None else self.copies.stores[self.part.reference]
        first = len(self.copies.stores)
        for number, table in enumerate(self.copies.tables, first):
            rows = RowComparison(self.part.reference or 0, number, table)
            differences = rows.of_part(store, found.begin, found.end)
            for difference in sorted(differences, key=lambda each: each.begin):
                found.add(difference)
            for row in rows.damage_rows:
                found.add_damage_row(row)
            found.without_row[number] += rows.without_row

    def _of_stores(self) -> PartFindings:
        if self.part.reference is None:
            return PartFindings(self.part.begin, self.part.end)
        with ExitStack() as stack:
            logs = [stack.enter_context(closing(LocalLog(copy.files))) for copy in self.copies.stores]
            return compare_part(self.part, logs, check_crc=self.check_crc)

"""Dead letters of Iceberg tables looked at, and landed once their schema is mended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from hatwisted.pipeline.iceberg.catalogs import IcebergName
from hatwisted.pipeline.iceberg.fileids import FileIds
from hatwisted.pipeline.iceberg.upkeep import compact
from hatwisted.pipeline.jobs.land import icebergletters
from hatwisted.pipeline.jobs.land.icebergletters import IcebergLetters
from tests.tables.iceberg.test_landschemas import IcebergSchemas
from tests.tables.jobs import test_deadletterjob


class DeadLetterTests(IcebergSchemas, test_deadletterjob.DeadLetterTests):
    kind = IcebergLetters

    def between(self, do: Callable[[str], object]) -> AbstractContextManager[Any]:
        swap, left = icebergletters.swap_files, [self.beside, self.table]

        def swapped(table: Any, name: str, *given: Any) -> bool:
            if left and name == left[-1]:
                do(left.pop())
            return swap(table, name, *given)

        return patch.object(icebergletters, "swap_files", swapped)

    def compact(self, table: str) -> int:
        with self.merging(2):
            return compact(IcebergName.parse(table).load(), table, 1 << 20, FileIds("c" * 12)).removed

    def test_what_a_change_that_has_lost_wrote_is_removed(self) -> None:
        self.append(*test_deadletterjob.BAD)
        self.land()
        before, lost = self.on_disk(), iter([False, False])
        swap = icebergletters.swap_files
        with patch.object(
            icebergletters, "swap_files", lambda *given: next(lost, None) is None and swap(*given)
        ):
            self.assertEqual(self.look(test_deadletterjob.MENDED).landed, 1)
        self.assertEqual(self.on_disk() - before, self.files(self.table) | self.files(self.beside))

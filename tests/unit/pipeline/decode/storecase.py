"""Tests on stores that hypothesis lays out: each example writes one of its own."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import TestCase

from hatwisted.pipeline.decode.storefolder import LogStore
from tests.support.logdrafts import Log


class StoreCase(TestCase):
    """`store` writes a log into the case's folder and opens it."""

    def setUp(self) -> None:
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.made = 0

    def store(self, log: Log) -> LogStore:
        self.made += 1
        return LogStore.open(str(log.write(self.folder / f"store{self.made}")), "b")

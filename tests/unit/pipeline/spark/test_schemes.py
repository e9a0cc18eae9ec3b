"""Stores that fsspec opens, as a stream reads them: the log grows, and file systems remember their listings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem
from pyspark.sql.streaming.datasource import ReadAllAvailable
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.pipeline.spark.commitlogsource import CommitLogSource
from hatwisted.pipeline.spark.sourcecolumns import spark_schema
from tests.support.growing import GrowingStore


class Remembering(LocalFileSystem):
    """Lists a folder once, as those of object stores do."""

    protocol = "remembering"

    @classmethod
    def _strip_protocol(cls, path: str) -> Any:
        return super()._strip_protocol(path.removeprefix("remembering://"))

    def ls(self, path: str, detail: bool = False, **more: Any) -> list[Any]:
        path = self._strip_protocol(path)
        if path not in self.dircache:
            self.dircache[path] = super().ls(path, detail=True, **more)
        found = self.dircache[path]
        return list(found) if detail else [entry["name"] for entry in found]

    def invalidate_cache(self, path: str | None = None) -> None:
        self.dircache.clear()


class SchemeTests(SynchronousTestCase):
    def setUp(self) -> None:
        fsspec.register_implementation("remembering", Remembering, clobber=True)
        self.addCleanup(Remembering.clear_instance_cache)

    def test_a_growing_log_is_read_once(self) -> None:
        folder = Path(self.mktemp()).absolute()
        log = GrowingStore(folder / "broker-a")
        schema = spark_schema(("physical_offset",))
        paths = json.dumps([f"remembering://{folder}/broker-*"])
        reader = CommitLogSource({"paths": paths, "columns": "physical_offset"}).streamReader(schema)
        seen: list[int] = []
        at = reader.initialOffset()
        for _ in range(12):
            log.append(500)
            end = reader.latestOffset(at, ReadAllAvailable())
            for part in reader.partitions(at, end):
                seen += [offset for batch in reader.read(part) for offset in batch[0].to_pylist()]
            at = end
        self.assertGreater(len(list(log.root.glob("commitlog/*"))), 2)
        self.assertEqual(seen, log.offsets)

"""Stores that fsspec opens, as a stream reads them: the log grows, and file systems remember their listings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("fsspec")

import fsspec
from fsspec.implementations.local import LocalFileSystem
from pyspark.sql.streaming.datasource import ReadAllAvailable

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


@pytest.fixture
def scheme() -> Iterator[str]:
    fsspec.register_implementation("remembering", Remembering, clobber=True)
    yield "remembering"
    Remembering.clear_instance_cache()


def test_a_growing_log_is_read_once(scheme: str, tmp_path: Path) -> None:
    log = GrowingStore(tmp_path / "broker-a")
    schema = spark_schema(("physical_offset",))
    paths = json.dumps([f"{scheme}://{tmp_path}/broker-*"])
    reader = CommitLogSource({"paths": paths, "columns": "physical_offset"}).streamReader(schema)
    seen: list[int] = []
    at = reader.initialOffset()
    for _ in range(12):
        log.append(500)
        end = reader.latestOffset(at, ReadAllAvailable())
        for part in reader.partitions(at, end):
            seen += [offset for batch in reader.read(part) for offset in batch[0].to_pylist()]
        at = end
    assert len(list(log.root.glob("commitlog/*"))) > 2
    assert seen == log.offsets

"""Audit and reindex as Spark tasks: what they find and build is what they do without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hatwisted.pipeline.errors import DamagedLogRange, PipelineError
from hatwisted.pipeline.jobs.audit.auditing import AuditOptions, audit
from hatwisted.pipeline.jobs.land.landing import land
from hatwisted.pipeline.jobs.reindex.reindexing import Layout, ReindexOptions, reindex
from tests.support.copies import copy_store, files_of, flip, write_store
from tests.support.golden import GOLDEN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SMALL = AuditOptions(split_bytes=8000)


def test_an_audit_finds_the_changed_byte(spark: SparkSession, tmp_path: Path) -> None:
    records = write_store(tmp_path / "master", 200)
    copy_store(tmp_path / "master", tmp_path / "slave")
    stores = [str(tmp_path / "master"), str(tmp_path / "slave")]
    told: list[tuple[int, int]] = []
    result = audit(spark, stores, options=SMALL, progress=lambda done, total: told.append((done, total)))
    assert result.identical
    assert told[-1] == (result.end, result.end)
    offset = records[120].physical_offset + 93
    flip(tmp_path / "slave", offset)
    (found,) = audit(spark, stores, options=SMALL).differences
    assert found.first_byte == offset
    assert found.record is not None
    assert found.record.queue_offset == records[120].queue_offset


def test_reindex_builds_the_golden_store_byte_for_byte(spark: SparkSession, tmp_path: Path) -> None:
    result = reindex(spark, str(GOLDEN / "master"), str(tmp_path / "new"), ReindexOptions(split_bytes=9000))
    assert files_of(tmp_path / "new" / "consumequeue") == files_of(GOLDEN / "master" / "consumequeue")
    built, golden = (files_of(store / "index") for store in (tmp_path / "new", GOLDEN / "master"))
    assert list(built.values()) == list(golden.values())
    assert result.exit_code == 0


def test_what_fails_in_a_task_is_one_line_of_ours(spark: SparkSession, tmp_path: Path) -> None:
    records = write_store(tmp_path / "store", 50)
    flip(tmp_path / "store", records[20].physical_offset + 4)
    options = ReindexOptions(layout=Layout(slots=10, items=1000))
    with pytest.raises(DamagedLogRange, match=f"no valid record from offset {records[20].physical_offset}"):
        reindex(spark, str(tmp_path / "store"), str(tmp_path / "new"), options)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    with pytest.raises(PipelineError, match="2 different|at least two"):
        audit(spark, [str(tmp_path / "store")])


def test_what_a_landing_has_landed_is_the_log(spark: SparkSession, tmp_path: Path) -> None:
    store, table = tmp_path / "broker-a", tmp_path / "table"
    records = write_store(store, 150)
    land([str(store)], str(table), spark=spark)
    result = audit(spark, [str(store)], [str(table)], SMALL)
    assert result.identical, result.verdict
    assert (result.records, result.copies[1].end) == (150, result.end)
    offset = records[100].physical_offset + 93
    flip(store, offset)
    result = audit(spark, [str(store)], [str(table)], SMALL)
    assert not result.identical
    assert result.identical_up_to == records[100].physical_offset

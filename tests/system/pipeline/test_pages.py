"""Blocks of the pipeline's pages that need no Spark: one page after the other, over one world."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from pyarrow import fs

from tests.support.clistores import write_log
from tests.support.icebergcatalog import settings
from tests.support.pages import DOCS, put_in, run_block, to_run
from tests.support.s3server import s3_server

pytestmark = pytest.mark.timeout(600)
ORDERS = 30
SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer"}}}
REST = "http://catalog:8181"
PROGRAM = re.compile(r"<!-- run by \S+/test_pages\.py -->\n\n```python\n(.*?)```", re.DOTALL)


@pytest.fixture
def stores(tmp_path: Path) -> dict[str, object]:
    """What stands for the pages' folders."""
    bodies = [json.dumps({"amount": number}).encode() for number in range(ORDERS)]
    for name in ("broker-a", "broker-b"):
        write_log(tmp_path / name / "store", bodies, topic="Orders")
    (tmp_path / "orders.json").write_text(json.dumps(SCHEMA))
    return {f"/data/{name}/store": tmp_path / name / "store" for name in ("broker-a", "broker-b")}


def said(page: str, replaced: dict[str, object], folder: Path, **environment: str) -> str:
    """What a page's blocks print; each ends with 0."""
    text = ""
    for code in to_run(DOCS / "pipeline" / f"{page}.md"):
        done = run_block(put_in(code, replaced), folder, environment)
        assert done.returncode == 0, (code, done.stdout, done.stderr)
        text += done.stdout
    return text


def test_landing_into_tables_of_both_kinds_and_their_dead_letters(
    stores: dict[str, object], tmp_path: Path
) -> None:
    catalog = settings(tmp_path)
    replaced = stores | {"/lake": tmp_path / "lake", REST: catalog.pop("PYICEBERG_CATALOG__LAKE__URI")}
    first, engine, second, _ = said("land", replaced, tmp_path).splitlines()
    assert first.startswith(f"{ORDERS} rows landed in {tmp_path}/lake/messages")
    assert engine == "landed without Spark"
    assert second.startswith(f"{ORDERS} rows landed in")
    assert f"{ORDERS} rows landed in iceberg:lake.rocketmq" in said("iceberg", replaced, tmp_path, **catalog)
    catalog["PYICEBERG_CATALOG__LAKE__URI"] = str(replaced[REST])
    found = said("schemas", replaced, tmp_path, **catalog)
    assert found.startswith("0 rows landed in ")
    assert found.count("has no dead letters") == 3


def test_object_stores(stores: dict[str, object], tmp_path: Path) -> None:
    with s3_server("lake") as environment, patch.dict(os.environ, environment):
        files, _ = fs.FileSystem.from_uri("s3://lake?allow_bucket_creation=true")
        files.create_dir("backup")
        for name in ("broker-a", "broker-b"):
            store = str(stores[f"/data/{name}/store"])
            fs.copy_files(store, f"backup/stores/{name}", destination_filesystem=files)
        first, _, second, _ = said("objectstores", stores, tmp_path).splitlines()
        assert first.startswith(f"{ORDERS} rows landed in s3://lake/messages")
        assert second.startswith(f"{ORDERS} rows landed in s3://lake/messages")
        (code,) = PROGRAM.findall((DOCS / "pipeline" / "objectstores.md").read_text())
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == f"{ORDERS} rows landed\n{ORDERS} rows in table and log\n"

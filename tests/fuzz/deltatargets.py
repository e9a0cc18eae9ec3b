"""Delta's log, which other writers of a table write as well."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from hatwisted.pipeline.delta.commits import landed_since
from hatwisted.pipeline.delta.notes import NOTE
from hatwisted.pipeline.errors import PipelineError
from tests.fuzz.target import Target

LOG = "_delta_log"


@cache
def first_commit() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write_deltalake(folder, pa.table({"topic": ["T"]}))
        return (Path(folder) / LOG / f"{0:020}.json").read_bytes()


def delta_log(data: bytes) -> None:
    """The second commit of a table."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / LOG
        log.mkdir()
        (log / f"{0:020}.json").write_bytes(first_commit())
        (log / f"{1:020}.json").write_bytes(data)
        landed_since(folder, 0, "a")


def commit() -> bytes:
    note = {"application": "a", "batch": 1, "rows": 1, "files": 1, "bytes": 1, "log_bytes": 1}
    info = {"commitInfo": {"timestamp": 1, "operation": "WRITE", NOTE: note}}
    return json.dumps(info).encode() + b'\n{"txn":{"appId":"a","version":1}}\n'


DELTA = {"delta-log": Target(delta_log, (PipelineError,), lambda: [commit(), first_commit()], tries=60)}

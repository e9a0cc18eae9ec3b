"""Logs as tables: decode commit logs into Arrow, read them with Spark, land, audit, rebuild and report on them.

Read `decode` (files into record batches), `schemas` (bodies into typed columns), `spark` (the data sources
`commitlog` and `rocketmq`), `remote` (clusters over the network), `delta` and `iceberg` (tables that take each
batch once) and `jobs` (what is done with all that). `read_arrow` is the entry point for pandas, polars and
anything else that takes Arrow, `register` for Spark sessions that don't find the formats, `union_read` for one
query over a landed table and what is still only in the log.

Nothing in here imports Twisted or writes to a store that a broker runs on; importing the package itself
imports neither PySpark nor pyarrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hatwisted.pipeline.decode.logreader import read_arrow
    from hatwisted.pipeline.jobs.union.unionread import union_arrow, union_read
    from hatwisted.pipeline.spark.registration import register

__all__ = ["read_arrow", "register", "union_arrow", "union_read"]

_FROM: Final = {
    "read_arrow": "hatwisted.pipeline.decode.logreader",
    "register": "hatwisted.pipeline.spark.registration",
    "union_arrow": "hatwisted.pipeline.jobs.union.unionread",
    "union_read": "hatwisted.pipeline.jobs.union.unionread",
}


def __getattr__(name: str) -> Any:
    """Import pyarrow and numpy only when something is used."""
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_FROM[name]), name)

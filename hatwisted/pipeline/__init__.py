"""Logs as tables: decode commit logs into Arrow, read them with Spark, land, audit, rebuild and report on them.

Read `decode` (files into record batches), `schemas` (bodies into typed columns), `spark` (the data sources
`commitlog` and `rocketmq`), `remote` (clusters over the network), `delta` and `iceberg` (tables that take each
batch once) and `jobs` (what is done with all that). `read_arrow` is the entry point for pandas, polars and
anything else that takes Arrow.

Nothing in here imports Twisted or writes to a store that a broker runs on; importing the package itself
imports neither PySpark nor pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hatwisted.pipeline.decode.logreader import read_arrow

__all__ = ["read_arrow"]


def __getattr__(name: str) -> Any:
    """Import pyarrow and numpy only when `read_arrow` is used."""
    if name != "read_arrow":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hatwisted.pipeline.decode.logreader import read_arrow

    return read_arrow

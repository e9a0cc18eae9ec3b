"""Logs as tables: decode commit logs into Arrow, read them with Spark, land, audit, rebuild and report on them.

Read `decode` (files into record batches), `spark` (the data sources `commitlog` and `rocketmq`), `remote`
(clusters over the network), `delta` (tables that each batch reaches once) and `jobs` (what is done with all
that). `read_arrow` is the way in for pandas, polars and whatever else takes Arrow.

Nothing in here imports Twisted or writes to a store that a broker runs on; importing the package itself
imports neither PySpark nor pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hatwisted.pipeline.decode.logreader import read_arrow

__all__ = ["read_arrow"]


def __getattr__(name: str) -> Any:
    """Import pyarrow and numpy only when somebody reads."""
    if name != "read_arrow":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hatwisted.pipeline.decode.logreader import read_arrow

    return read_arrow

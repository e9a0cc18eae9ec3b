"""Logs as tables: decode commit logs into Arrow, read them with Spark, land, audit, rebuild and report on them.

Nothing in here imports Twisted; importing the package itself imports neither PySpark nor pyarrow.
`read_arrow` is the way in for pandas, polars and whatever else takes Arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hatwisted.pipeline.decode.reader import read_arrow

__all__ = ["read_arrow"]


def __getattr__(name: str) -> Any:
    """Import pyarrow and numpy only when somebody reads."""
    if name != "read_arrow":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hatwisted.pipeline.decode.reader import read_arrow

    return read_arrow

"""How far Spark's checkpoint says that a landing is, and whether the table is further.

A table can have been landed into from several places: from one broker and then from two, by a pattern over which
brokers come and go, with checkpoints of their own. Each continues from the rows that there are when it's new; one
that is used again later would repeat what others have landed since. So a checkpoint that lies behind the table
isn't followed: the table's own rows say where to go on.

    spark/offsets/N   what batch N reaches: two lines about the query, then the source's offsets as JSON
    spark/commits/N   batch N is done, as Spark sees it
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hatwisted.pipeline.errors import PipelineError


def reached(spark_folder: str, is_committed: Callable[[int], bool]) -> Mapping[str, Any] | None:
    """Up to which offsets the checkpoint's batches are in the table, as the source writes them: nothing, if the
    first was begun and not committed. None if no batch was ever begun.

    - spark_folder: the checkpoint
    - is_committed: is a batch in the table?

    Raises PipelineError if it can't be read.
    """
    folder = Path(spark_folder, "offsets")
    batches = sorted(int(file.name) for file in folder.glob("[0-9]*"))
    if not batches:
        return None
    last = batches[-1]
    if is_committed(last) or Path(spark_folder, "commits", str(last)).exists():
        return _offsets(folder / str(last))
    before = folder / str(last - 1)
    return _offsets(before) if before.exists() else {}


def _offsets(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text().splitlines()[2])
    except (OSError, ValueError, IndexError) as error:
        raise PipelineError(
            f"{file}: can't be read as Spark's offsets: {error}; give a new checkpoint"
        ) from None
    if not isinstance(found, dict):
        raise PipelineError(f"{file}: has no offsets by broker or topic; give a new checkpoint")
    return found

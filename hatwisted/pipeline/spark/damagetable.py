"""The side table of a read that skips damage: which ranges of which log weren't turned into rows, and why.

One file of JSON lines for each task that met damage, named by the range of the log that the task read. A task
that Spark repeats, and a batch that is replayed after a crash, replaces its own file: a range is never listed
twice. A file appears whole or not at all, and only after the task has read its range to the end. Appending to
one file was rejected for all of these reasons.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from hatwisted.pipeline.decode.logreader import Damage
from hatwisted.pipeline.decode.storebytes import is_remote, remote_filesystem
from hatwisted.pipeline.decode.storefolder import Split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUFFIX: Final = ".jsonl"
DAMAGE_SCHEMA: Final = "broker string, file string, begin bigint, end bigint, reason string"
"""`begin` and `end` are physical offsets, `end` the first byte after the damage."""


def read_damages(spark: SparkSession, folder: str) -> DataFrame:
    """The ranges that reads with `damagePath=folder` have skipped; no row if they met no damage."""
    if is_remote(folder):
        # Spark calls schemes by other names than fsspec, if it knows them at all.
        return spark.createDataFrame(_remote_rows(folder), DAMAGE_SCHEMA)
    os.makedirs(folder, exist_ok=True)
    return spark.read.schema(DAMAGE_SCHEMA).json(folder)


def count_damages(folder: str) -> int:
    """How many ranges the folder lists."""
    if is_remote(folder):
        return len(_remote_rows(folder))
    return sum(path.read_bytes().count(b"\n") for path in Path(folder).glob(f"[!.]*{SUFFIX}"))


def listed_damages(options: Mapping[str, str]) -> int:
    """The same of a read's folder, if it has one. options: of the read."""
    folder = {name.lower(): value for name, value in options.items()}.get("damagepath")
    return 0 if folder is None else count_damages(folder)


def _remote_rows(folder: str) -> list[tuple[object, ...]]:
    files, inner = remote_filesystem(folder)
    files.invalidate_cache(inner)
    names = files.ls(inner, detail=False) if files.isdir(inner) else []
    whole = (name for name in names if name.endswith(SUFFIX))
    lines = (line for name in whole for line in files.cat_file(name).splitlines())
    return [tuple(json.loads(line).values()) for line in lines]


def write_damages(folder: str, split: Split, damages: Sequence[Damage]) -> None:
    """Record what reading a split has skipped.

    - folder: of the table of damage
    - split: which
    - damages: the ranges; none: nothing is written
    """
    name = f"{quote(split.broker, safe='')}-{split.begin:020d}-{split.end:020d}{SUFFIX}"
    lines = "".join(json.dumps(_row(damage)) + "\n" for damage in damages)
    if is_remote(folder):
        _replace_remote(f"{folder.rstrip('/')}/{name}", lines)
    else:
        _replace_local(folder, name, lines)


def _row(damage: Damage) -> dict[str, object]:
    return {
        "broker": damage.broker,
        "file": damage.file,
        "begin": damage.begin,
        "end": damage.end,
        "reason": damage.reason,
    }


def _replace_local(folder: str, name: str, lines: str) -> None:
    path = os.path.join(folder, name)
    if not lines:
        # What an earlier read found has been repaired since.
        if os.path.exists(path):
            os.unlink(path)
        return
    os.makedirs(folder, exist_ok=True)
    # Spark doesn't look at names that begin with a dot.
    draft = os.path.join(folder, f".{name}.{uuid.uuid4().hex}")
    with open(draft, "w", encoding="utf-8") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def _replace_remote(url: str, lines: str) -> None:
    """An object store's put is whole or not at all (and so is Hadoop's by hadoopfiles.py)."""
    files, path = remote_filesystem(url)
    if lines:
        files.makedirs(files._parent(path), exist_ok=True)
        files.pipe_file(path, lines.encode())
    elif files.exists(path):
        files.rm_file(path)

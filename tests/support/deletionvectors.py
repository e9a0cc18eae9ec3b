"""Deletion vectors of Delta tables, as Spark's Delta writes them: rows of a file that don't count any more, in the
table's log. delta-rs, which reads them, writes none."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, TableFeatures

MAGIC = 1681511377
"""Of Delta's portable bitmaps."""
COOKIE = 12346
"""Of a 32-bit roaring bitmap without runs."""
B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def delete_rows(table: str, path: str, rows: Collection[int]) -> None:
    """Rows of a file of a table.

    - table: its folder
    - path: of the file, as `get_add_actions` names it
    - rows: their numbers within the file, below 65,536
    """
    opened = DeltaTable(table)
    opened.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    version, log = DeltaTable(table).version(), Path(table, "_delta_log")
    added = _added(log, path)
    data = _bitmap(sorted(rows))
    removed = {key: added[key] for key in ("path", "partitionValues", "size")} | {"dataChange": True}
    vector = {
        "storageType": "i",
        "pathOrInlineDv": base64.b85encode(data).decode().translate(str.maketrans(B85, Z85)),
        "sizeInBytes": len(data),
        "cardinality": len(rows),
    }
    removed |= {"deletionTimestamp": added["modificationTime"], "extendedFileMetadata": True}
    actions = [{"remove": removed}, {"add": added | {"deletionVector": vector}}]
    (log / f"{version + 1:020}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")


def paths(table: str) -> list[str]:
    """Of a table's files, as its log names them."""
    found: list[str] = pa.table(DeltaTable(table).get_add_actions()).column("path").to_pylist()
    return sorted(found)


def _added(log: Path, path: str) -> dict[str, Any]:
    """What the log says of a file."""
    for commit in sorted(log.glob("*.json")):
        for line in commit.read_text().splitlines():
            added: dict[str, Any] = json.loads(line).get("add", {})
            if added.get("path") == path:
                return added
    raise LookupError(path)


def _bitmap(rows: list[int]) -> bytes:
    """One container of 16-bit numbers in one bitmap of 32-bit ones, padded as Z85 needs it."""
    head = struct.pack("<IIHHI", COOKIE, 1, 0, len(rows) - 1, 16)
    data = struct.pack("<IQI", MAGIC, 1, 0) + head + struct.pack(f"<{len(rows)}H", *rows)
    return data + bytes(-len(data) % 4)

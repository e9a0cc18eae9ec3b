"""Delta tables whose files have other names for a column, as Spark's Delta makes them where users rename one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

PREFIX = "delta.columnMapping."


def rename(table: str, column: str, name: str) -> None:
    """By the log alone: files stay as they are.

    - table: its folder
    - column: which
    - name: the new one
    """
    version, log = DeltaTable(table).version(), Path(table, "_delta_log")
    metadata = _metadata(log)
    schema = json.loads(metadata["schemaString"])
    for number, field in enumerate(schema["fields"], 1):
        field["metadata"] = {f"{PREFIX}id": number, f"{PREFIX}physicalName": field["name"]}
        field["name"] = name if field["name"] == column else field["name"]
    mapped = {f"{PREFIX}mode": "name", f"{PREFIX}maxColumnId": str(len(schema["fields"]))}
    metadata |= {"schemaString": json.dumps(schema), "configuration": mapped}
    actions = [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": metadata}]
    (log / f"{version + 1:020}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")


def _metadata(log: Path) -> dict[str, Any]:
    """What the log says of the table at last."""
    commits = sorted(log.glob("*.json"))
    actions = [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]
    found: dict[str, Any] = [action["metaData"] for action in actions if "metaData" in action][-1]
    return found

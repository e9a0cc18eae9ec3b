"""What users switch on for a Delta table with Spark, and whether landed files comply with it.

Appends comply with a change data feed, `appendOnly` and the like as they are. What Delta asks of a writer besides,
such as row ids, values of generated columns or proofs of constraints, files here don't have. delta-rs knows most
of it by the table's features, and refuses the commit; what it takes all the same the columns' metadata tells.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from hatwisted.pipeline.delta.errors import WrongTable

if TYPE_CHECKING:
    from deltalake import DeltaTable

MAPPING: Final = "delta.columnMapping.mode"
"""Property of a table; other than `none`: its files may have other names for its columns."""
COMPLIED: Final = frozenset(
    {
        *("appendOnly", "changeDataFeed", "deletionVectors", "timestampNtz", "v2Checkpoint"),
        *("variantType", "variantType-preview"),
        # These by themselves forbid nothing: columns and properties say what there is.
        *("checkConstraints", "columnMapping", "generatedColumns", "invariants"),
    }
)
"""Features of a table into which files may be landed."""
ARROW_READS: Final = frozenset({"timestampNtz"})
"""Features of which delta-rs gives Arrow a dataset."""
WHY: Final = {
    "rowTracking": "row ids",
    "typeWidening": "the history of its columns' types",
    "allowColumnDefaults": "its columns' defaults",
    "identityColumns": "numbers of an identity column",
    "clustering": "its clustering",
    "domainMetadata": "its domain metadata",
    "inCommitTimestamp": "times in their commits",
    "checkpointProtection": "the care that its old checkpoints need",
}
"""What landed files and their commits lack, by feature, where that can be said better than by its name."""
LASTING: Final = ("allowColumnDefaults", "identityColumns")
"""Features that Delta doesn't let anybody drop."""
COLUMNS: Final = {
    "delta.generationExpression": "is generated",
    "delta.identity.start": "is an identity column",
    "delta.invariants": "has an invariant",
}
"""Keys of a column's metadata."""


def check_features(table: DeltaTable, path: str) -> None:
    """Raises WrongTable if landed files can't comply with what the table asks of its writers.

    - table: open
    - path: of the table, for errors
    """
    for key, value in table.metadata().configuration.items():
        if key.startswith("delta.constraints.") or (key == MAPPING and value != "none"):
            raise WrongTable(
                f"{path}: has {key} set, which landed files can't comply with; land into another table"
            )
    for name, metadata in _columns(json.loads(table.schema().to_json())):
        for key in COLUMNS.keys() & metadata.keys():
            raise WrongTable(
                f"{path}: column {name} {COLUMNS[key]}, which landed files can't comply with: drop the column, or"
                " land into another table"
            )
    for feature in sorted({*(table.protocol().writer_features or ())} - COMPLIED, key=_order):
        history = " TRUNCATE HISTORY" if feature == "checkpointProtection" else ""
        lacking = WHY.get(feature, "what that asks for")
        drop = "" if feature in LASTING else f"ALTER TABLE ... DROP FEATURE {feature}{history}, or "
        raise WrongTable(
            f"{path}: has Delta's feature {feature}, and landed files lack {lacking}:"
            f" {drop}land into another table"
        )


def has_mapping(table: DeltaTable) -> bool:
    """May its files have other names for its columns? table: open."""
    return table.metadata().configuration.get(MAPPING, "none") != "none"


def arrow_reads(table: DeltaTable) -> bool:
    """Does delta-rs give Arrow a dataset of the table, and a right one? table: open."""
    return not has_mapping(table) and {*(table.protocol().reader_features or ())} <= ARROW_READS


def _order(feature: str) -> tuple[bool, bool, str]:
    """What others bring along comes last: Spark makes domain metadata for row ids and for a clustering."""
    return feature == "checkpointProtection", feature == "domainMetadata", feature


def _columns(kind: Any, before: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(names of columns and of fields in them, their metadata). kind: as Delta's JSON has it"""
    if not isinstance(kind, Mapping):
        return
    fields: Iterable[Mapping[str, Any]] = kind.get("fields", ())
    for field in fields:
        yield before + field["name"], field.get("metadata", {})
        yield from _columns(field["type"], f"{before}{field['name']}.")
    for part in ("elementType", "keyType", "valueType"):
        yield from _columns(kind.get(part), before)

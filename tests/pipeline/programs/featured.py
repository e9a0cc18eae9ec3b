"""Delta's features as Spark's own Delta switches them on, for a landed table: `python -m ... FOLDER JARS`. It ends
with 0 if a landing after each goes on exactly, or refuses it in a line that names it, and what that says helps.
"""

from __future__ import annotations

import sys
from pathlib import Path

from deltalake import DeltaTable

from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from tests.pipeline.programs.maintained import SEEN, Maintained

KEPT = (
    "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "ALTER TABLE {} SET TBLPROPERTIES ('delta.appendOnly' = 'false')",
    "ALTER TABLE {} ALTER COLUMN tags COMMENT 'by producers'",
)
"""After which landings go on."""
REFUSED = (
    ("rowTracking", "SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')"),
    ("delta.constraints.positive", "ADD CONSTRAINT positive CHECK (size > 0)"),
    ("typeWidening", "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"),
)


class Featured(Maintained):
    def refused(self, what: str, statement: str) -> None:
        """By both engines, until what they say is done. statement: without `ALTER TABLE`"""
        self._alter(statement)
        for options in self.ways:
            try:
                self._land_by(options)
            except WrongTable as error:
                assert what in str(error), error
            else:
                raise AssertionError(f"landed with {what}")
        if what != "typeWidening":  # which delta-rs doesn't read either
            self.check(f"refused for {what}")

    def helped(self, statement: str) -> None:
        """What a refusal says. statement: as above"""
        self._alter(statement)

    def _alter(self, statement: str) -> None:
        self.spark.sql(f"ALTER TABLE delta.`{self.table}` {statement}").collect()

    def _land_by(self, options: LandOptions) -> None:
        land([self.log], self.table, options, spark=self._session(options))

    def feed(self) -> None:
        """The landed rows are in the change feed that was switched on, each once."""
        changes = self.spark.read.format("delta").option("readChangeFeed", "true")
        changes = changes.option("startingVersion", self.fed)
        found = (
            changes.option("startingVersion", self.fed)
            .load(self.table)
            .select("_change_type", *SEEN)
            .collect()
        )
        offsets = sorted(row.physical_offset for row in found)
        assert offsets and offsets == self.store.offsets[-len(offsets) :], offsets
        assert {row._change_type for row in found} == {"insert"}

    fed = 0


def main(folder: str, jars: str) -> None:
    table = Featured(Path(folder), jars)
    table.land()
    table.fed = DeltaTable(table.table).version() + 1
    for statement in KEPT:
        table.done(statement)
    table.feed()
    for what, statement in REFUSED:
        table.refused(what, statement)
        if what.startswith("delta.constraints"):
            table.helped("DROP CONSTRAINT positive")
        else:
            if what == "rowTracking":
                table.helped("SET TBLPROPERTIES ('delta.enableRowTracking' = 'false')")
            if what == "typeWidening":  # Delta protects checkpoints of before for a day
                table.refused(
                    "DROP FEATURE checkpointProtection TRUNCATE HISTORY", "DROP FEATURE typeWidening"
                )
                break
            table.helped(f"DROP FEATURE {what}")
            if what == "rowTracking":  # which Spark brought along
                table.helped("DROP FEATURE domainMetadata")
        table.land()
        table.check(f"a landing without {what}")
    print("all of it")


if __name__ == "__main__":
    main(*sys.argv[1:])

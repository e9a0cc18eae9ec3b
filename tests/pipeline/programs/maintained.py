"""A table that its users maintain with Spark's own Delta while landings go on, without Spark and with it:
`python -m ... FOLDER JARS PROPERTIES`, with Delta's jars and table properties as JSON. It ends with 0 if the table
was always what it should be, as delta-rs, Spark's Delta, unions and audits see it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from hatwisted.pipeline import union_arrow, union_read
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.jobs.audit.auditing import audit
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.jobs.rangecompare import Kind
from hatwisted.pipeline.spark.sparksession import spark_session
from tests.support.growing import TOPICS, GrowingStore

BROKER = "broker-of-a-name-that-is-longer-than-Spark-takes"
SESSION = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # Otherwise 50 tasks read Delta's log, for each version again, and a vacuum has up to 10,000.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}
APPENDED = 20
"""Records between two landings."""
SEEN = ["physical_offset", "tags"]
Rows = list[tuple[int, str]]


class Maintained:
    """The table, and its rows as they should be: tags by offset."""

    def __init__(self, folder: Path, jars: str) -> None:
        self.spark = spark_session(**SESSION, **{"spark.jars": jars})
        self.store = GrowingStore(folder / BROKER)
        self.log, self.table = str(self.store.root), str(folder / "table")
        self.ways = (
            LandOptions(engine="local"),
            LandOptions(engine="spark", checkpoint=str(folder / "state")),
        )
        self._rows: dict[int, str] = {}

    def land(self) -> None:
        """More of the log twice, by each engine."""
        for options in self.ways:
            before = len(self.store.offsets)
            self.store.append(APPENDED)
            new = self.store.offsets[before:]
            assert land([self.log], self.table, options, spark=self._session(options)).rows == APPENDED
            self._rows |= {at: f"t{number % 3}" for number, at in enumerate(new, before)}

    def _session(self, options: LandOptions) -> SparkSession | None:
        return self.spark if options.engine == "spark" else None

    def done(self, statement: str, changes: bool = True) -> None:
        """By Spark's Delta. statement: with `{}` for the table; changes: does it make a version?"""
        before = DeltaTable(self.table).version()
        self.spark.sql(statement.format(f"delta.`{self.table}`")).collect()
        assert (DeltaTable(self.table).version() > before) is changes, statement
        self.land()
        self.check(f"landings after {statement}")

    def delete(self, *numbers: int) -> None:
        """Records of the log."""
        gone = [self.store.offsets[number] for number in numbers]
        for at in gone:
            del self._rows[at]
        self.done(f"DELETE FROM {{}} WHERE physical_offset IN ({', '.join(map(str, gone))})")

    def update(self, topic: str, tags: str) -> None:
        """All rows of a topic."""
        of_topic = self.store.offsets[TOPICS.index(topic) :: len(TOPICS)]
        self._rows |= {at: tags for at in of_topic if at in self._rows}
        self.done(f"UPDATE {{}} SET tags = '{tags}' WHERE topic = '{topic}'")

    def merge(self, gone: int, changed: int, tags: str) -> None:
        """One record less and one with other tags, by number."""
        del self._rows[self.store.offsets[gone]]
        self._rows[self.store.offsets[changed]] = tags
        both = f"({self.store.offsets[gone]}, NULL), ({self.store.offsets[changed]}, '{tags}')"
        self.done(
            f"MERGE INTO {{}} t USING (SELECT * FROM VALUES {both} AS s(at, tags)) s ON t.physical_offset = s.at"
            " WHEN MATCHED AND s.tags IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET tags = s.tags"
        )

    def restore(self) -> None:
        """What an earlier version lacks is landed again."""
        before, known = DeltaTable(self.table).version(), len(self._rows)
        self.land()
        self.spark.sql(f"RESTORE TABLE delta.`{self.table}` TO VERSION AS OF {before}").collect()
        found = land([self.log], self.table, LandOptions(engine="local"))
        assert found.rows == len(self._rows) - known
        self.check("a landing after RESTORE")

    def rename(self, column: str, name: str) -> None:
        """For that Delta maps the columns, which landings refuse in a line and readers bear."""
        for statement in (
            "ALTER TABLE {} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            f"ALTER TABLE {{}} RENAME COLUMN {column} TO {name}",
        ):
            self.spark.sql(statement.format(f"delta.`{self.table}`")).collect()
        for options in self.ways:
            try:
                land([self.log], self.table, options, spark=self._session(options))
            except WrongTable as error:
                assert "delta.columnMapping.mode" in str(error), error
            else:
                raise AssertionError("landed")
        self.check("a renamed column")

    def check(self, when: str) -> None:
        """Each reader finds the rows, and the audit those that aren't the log's."""
        rows = sorted(self._rows.items())
        found = QueryBuilder().register("landed", DeltaTable(self.table))
        by_delta_rs = pa.table(found.execute(f"SELECT {', '.join(SEEN)} FROM landed").read_all())
        assert as_rows(by_delta_rs) == rows, when
        by_delta = self.spark.read.format("delta").load(self.table).select(SEEN).collect()
        assert sorted(map(tuple, by_delta)) == rows, when
        united = union_read(self.spark, self.table, self.log).select(SEEN).collect()
        assert sorted(map(tuple, united)) == rows, when
        assert as_rows(union_arrow(self.table, self.log, SEEN).read_all()) == rows, when
        self._audit(when)

    def _audit(self, when: str) -> None:
        found = audit(self.spark, [self.log], [self.table])
        told: dict[Kind, set[int]] = {Kind.MISSING: set(), Kind.CHANGED: set()}
        for each in found.differences:
            told[each.kind] |= {at for at in self.store.offsets if each.begin <= at < each.end}
        logged = {at: f"t{number % 3}" for number, at in enumerate(self.store.offsets)}
        missing = logged.keys() - self._rows.keys()
        changed = {at for at, tags in self._rows.items() if tags != logged[at]}
        assert told == {Kind.MISSING: missing, Kind.CHANGED: changed}, (when, found)


def as_rows(table: pa.Table) -> Rows:
    """In the order of offsets."""
    return sorted(zip(*(table[name].to_pylist() for name in SEEN), strict=True))


def main(folder: str, jars: str, properties: str) -> None:
    table = Maintained(Path(folder), jars)
    table.land()
    for name, value in json.loads(properties).items():
        table.done(f"ALTER TABLE {{}} SET TBLPROPERTIES ('{name}' = '{value}')")
    table.done("OPTIMIZE {}")
    table.done("OPTIMIZE {} ZORDER BY (queue_offset)")
    table.delete(3, 4, 41)
    table.update("logs", "seen")
    table.merge(gone=50, changed=52, tags="merged")
    vectors = "deletionVectors" in (DeltaTable(table.table).protocol().reader_features or ())
    table.done("REORG TABLE {} APPLY (PURGE)", changes=vectors)
    table.done("ALTER TABLE {} ADD COLUMN (note STRING)")
    table.restore()
    table.done("VACUUM {} RETAIN 0 HOURS")
    table.rename("note", "remark")
    print("all of it")


if __name__ == "__main__":
    main(*sys.argv[1:])

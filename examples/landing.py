"""Lands a store's log as a Delta table, compares the two, and queries the table.

python examples/landing.py STORE TABLE

STORE is a RocketMQ store folder, preferably a slave's: reading it costs the broker nothing. Run again, it
lands what has been added since, and nothing twice. It needs hatwisted[pipeline].
"""

from __future__ import annotations

import sys

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from hatwisted.pipeline.jobs.audit.auditing import audit
from hatwisted.pipeline.jobs.land.landing import land
from hatwisted.pipeline.spark.sparksession import spark_session


def main(store: str, table: str) -> None:
    spark = spark_session(app="landing")
    try:
        landed = land([store], table, spark=spark)
        print(f"landed: {landed.rows} rows")
        print(f"audit: {audit(spark, [store], [table]).verdict}")
    finally:
        spark.stop()

    query = (
        "SELECT topic, count(*) AS messages, sum(size) AS bytes FROM messages GROUP BY topic ORDER BY topic"
    )
    rows = QueryBuilder().register("messages", DeltaTable(table)).execute(query).read_all()
    for each in pa.table(rows).to_pylist():
        print(f"{each['topic']}: {each['messages']} messages, {each['bytes']} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])

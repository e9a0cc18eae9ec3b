"""Lands a store's log as a Delta table, compares the two, and queries the table.

python examples/landing.py STORE TABLE

STORE is a RocketMQ store folder, preferably a slave's: reading it costs the broker nothing. Run again, it
lands what has been added since, and nothing twice. It needs hatwisted[pipeline].
"""

from __future__ import annotations

import sys

from deltalake import DeltaTable

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

    messages = DeltaTable(table).to_pandas(columns=["topic", "size"])
    for topic, rows in messages.groupby("topic"):
        print(f"{topic}: {len(rows)} messages, {rows['size'].sum()} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What the demo does with Spark, in a process of its own: land the slave's log, audit the copies, write the
report.

Twisted's reactor and Spark's driver each want a process to themselves, so this one is started by the demo
(`pipelineprocess.py`). It starts Spark at once, which takes seconds, and the work when a line arrives on standard
input: by then the stores are at rest. Its reports go to standard output, one JSON object a line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hatwisted.clientcore.errors import ClientError
from hatwisted.pipeline.errors import PipelineError

TABLE = "messages"
REPORT = "report"
"""Folders, beside the stores'."""

Tell = Callable[..., None]


def main(arguments: Sequence[str]) -> int:
    """arguments: the master's store, the slave's, and where to write. 0: done, and the copies are the same."""
    master, slave, out = arguments
    try:
        return _work(master, slave, Path(out), _report)
    except (PipelineError, ClientError) as error:
        _report(failed=str(error))
        return 1


def _work(master: str, slave: str, out: Path, tell: Tell) -> int:
    from hatwisted.pipeline.jobs.audit.auditing import audit
    from hatwisted.pipeline.jobs.land.landing import land
    from hatwisted.pipeline.jobs.report.reporting import ReportOptions, report
    from hatwisted.pipeline.spark.sparksession import spark_session

    tell(doing="Spark starts")
    spark = spark_session("local[2]", "hatwisted demo")
    # The demo's data needs no more; each partition would cost some milliseconds in every job.
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    sys.stdin.readline()
    tell(doing="landing the slave's log as a Delta table")
    landed = land([slave], str(out / TABLE), spark=spark)
    tell(done=f"landed from the slave's files: {landed.rows:,} rows in {landed.table}, a Delta table")
    tell(doing="comparing master, slave and table")
    audited = audit(spark, [master, slave], tables=[str(out / TABLE)])
    if not audited.identical:
        tell(failed=f"audit: {audited.verdict}")
        return 1
    tell(done=f"audited, record by record: {audited.verdict}")
    tell(doing="writing the report")
    reported = report([master], str(out / REPORT), ReportOptions(slaves=[slave]), spark=spark)
    tell(done=f"report: {reported.page}")
    return 0


def _report(**what: str) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""docs/benchmarks.md from the results: table, notes, failures, plots, and the command that made them."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import numpy

import twisted
from bench.figures import Figure, spread
from testbed import kafkapair

Results = dict[str, Any]

INTRO = """# Benchmarks

hatwisted and Apache RocketMQ {java} side by side in the same run: the same conf files (`conf/2m-2s-sync`,
`conf/2m-2s-async`), the same load generator, one pair of master and slave at a time on the same machine. The
load generator (`bench/loadgen.py`) is a process of its own and shares the cores with the brokers. Bodies are
1 KiB. Each side is warmed up until its rate is flat; repetitions alternate, figures are medians with their
range. A ratio is ours divided by Java's. Memory is full of cached pages before each measured phase, as on a broker
that has run for days: the first touch of a page costs a virtual machine more than what the programs do with it.
The bare loops beside a row say what the machine does without any of them. The CPU time of a message (user and
system, from /proc) is a second figure, which noise hardly moves. Nothing here is a timed test: the test suite
never depends on speed. Where the time of a message goes stands in [a page of its own](performance.md).

```
{command}
```

"""
KAFKA = "kafka-"
"""Names of rows that stand in a table of their own."""
KAFKA_INTRO = """## Beside Kafka

Two brokers each, replicated before an answer or after it, in turn on the same machine with bodies of 1 KiB.
Kafka {version} is loaded by its own generator, which costs more of the machine than ours does: the brokers' CPU
time is the fairer figure.

"""
PIPELINE = ("spark-", "land-", "source-")
"""As above."""
PIPELINE_INTRO = """## The data pipeline

Spark in one process with two cores over commit logs made by `bench/logmaker.py`, read from the page cache; where a
line names a topic, over that of a running master, which has its share of the cores. A figure's first run, in
which the JVM warms up, isn't counted. "Row by row" is what one would write first: a Python loop with a dict for
each message, and Parquet written by the thousands.

"""
SPARK_KAFKA = "spark-kafka"
"""One of those, beside something else."""
SPARK_KAFKA_INTRO = """### Beside Spark's Kafka source

The same bodies of 1 KiB, read by the same Spark with the same settings: ours from a log, Spark's own source from a
topic of four partitions of a Kafka {version} broker on the same machine. Both are in the page cache as far as
memory goes, and the first run of each isn't counted. What Kafka's broker costs besides stands in the notes.

"""


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    versions = f"Twisted {twisted.__version__}, msgspec {msgspec.__version__}, numpy {numpy.__version__}"
    return {
        "processor": f"{os.cpu_count()} cores, {models[0] if models else platform.machine()}",
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}, {versions}",
        "java": _java_version(),
    }


def _java_version() -> str:
    try:
        said = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    except OSError:
        return "none"
    return said.splitlines()[-1] if said else "unknown"


def markdown(results: Results, plots: list[tuple[str, str]]) -> str:
    """The whole document; `plots` are (title, path relative to docs)."""
    rows: dict[str, Any] = results["rows"]
    text = INTRO.format(java=results["rocketmq"], command=results["command"])
    text += _table("RocketMQ", [row for name, row in rows.items() if not name.startswith((KAFKA, *PIPELINE))])
    if beside := [row for name, row in rows.items() if name.startswith(KAFKA)]:
        text += KAFKA_INTRO.format(version=kafkapair.VERSION) + _table("Kafka", beside)
    pipeline = [row for name, row in rows.items() if name.startswith(PIPELINE) and name != SPARK_KAFKA]
    if pipeline:
        text += PIPELINE_INTRO + _table("row by row", pipeline)
    if row := rows.get(SPARK_KAFKA):
        text += SPARK_KAFKA_INTRO.format(version=kafkapair.VERSION) + _table("Kafka's source", [row])
    text += "".join(f"![{title}]({path})\n\n" for title, path in plots)
    text += "## Notes\n\n"
    usual = results["machine"]["processor"]
    for row in rows.values():
        notes, processor = list(row["notes"]), row.get("processor", usual)
        if processor != usual:
            notes.append(f"measured on {processor}")
        if notes:
            text += f"**{row['title']}** ({row['seconds']:.0f} s, {row['date']})\n\n"
            text += "".join(f"- {note}\n" for note in notes) + "\n"
    text += "## Machine\n\n" + "".join(f"- {name}: {what}\n" for name, what in results["machine"].items())
    return text


def _table(other: str, rows: list[dict[str, Any]]) -> str:
    text = f"| | unit | hatwisted | {other} | ratio | target | met |\n|---|---|---:|---:|---:|---|---|\n"
    for row in rows:
        text += "".join(_line(Figure(**figure)) for figure in row["figures"])
        text += "".join(
            f"| **{kind} failed**: {_cell(why)} | | | | | | no |\n" for kind, why in row["errors"].items()
        )
    return text + "\n"


def _line(figure: Figure) -> str:
    ratio = "–" if figure.ratio is None else f"{figure.ratio:.2f}"
    met = {True: "yes", False: "**no**", None: "–"}[figure.met]
    ours, java = (spread(values, figure.digits) for values in (figure.ours, figure.java))
    return f"| {figure.label} | {figure.unit} | {ours} | {java} | {ratio} | {figure.target} | {met} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")

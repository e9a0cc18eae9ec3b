"""Export: messages of a log, in store folders or on a cluster, as NDJSON, CSV or Parquet.

A folder is written by Spark as any table is: files by partition, in the log's order when read by name. A name that
ends in .ndjson, .csv or .parquet gives one file. Both are moved into place when they are whole (exportplace.py).
`import` reads both back: a body that isn't text is written as base64 (messagefiles.py says
how), properties as they are. CSV and Parquet have a table's columns; a line of NDJSON is a message as every
command writes one (jsonrows.py).

The brokers' own topics (delayed and half messages) are left out unless they are named: their messages are in
their real topics as well, or will be.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import Any, Final, Literal

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from hatwisted.pipeline.decode.arrowschema import check_columns
from hatwisted.pipeline.decode.storefolder import LogStore
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.messages.exportplace import (
    check_free,
    data_files,
    is_movable,
    is_single,
    move_in,
    place_of,
)
from hatwisted.pipeline.jobs.messages.jsonrows import as_json_rows, is_text, with_text_bodies
from hatwisted.pipeline.jobs.messages.messagefiles import FORMATS, SUFFIXES
from hatwisted.pipeline.jobs.messageselection import EVERYTHING, Selection
from hatwisted.pipeline.jobs.sparkactions import Progress, run_action
from hatwisted.pipeline.spark.damagetable import listed_damages
from hatwisted.pipeline.spark.sparksession import spark_session
from hatwisted.wire import layout

Format = Literal["ndjson", "csv", "parquet"]

COLUMNS: Final = (
    "topic", "broker", "queue_id", "queue_offset", "physical_offset", "store_timestamp", "born_timestamp",
    "store_host", "born_host", "tags", "keys", "unique_key", "properties", "flag", "sys_flag", "reconsume_times",
    "transaction", "body",
)  # fmt: skip
"""What is exported if no columns are named: those that mean something outside the log."""

LISTED: Final = 12
"""Topics that an error names."""
TOPIC: Final = "topic_"
"""Names of observations, followed by a topic's number."""
BROKERS_OWN_TOPICS: Final = (layout.SCHEDULE_TOPIC, layout.HALF_TOPIC, layout.OP_HALF_TOPIC)

SPARK_FORMATS: Final[Mapping[str, str]] = {"ndjson": "json", "csv": "csv", "parquet": "parquet"}
OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "ndjson": {},
    # RFC 4180: quotes are doubled, nothing is trimmed.
    "csv": {
        "header": "true",
        "escape": '"',
        "ignoreLeadingWhiteSpace": "false",
        "ignoreTrailingWhiteSpace": "false",
        "emptyValue": "",
        "nullValue": "",
    },
    "parquet": {"compression": "zstd"},
}


@dataclass(frozen=True, kw_only=True)
class ExportResult:
    """messages, and the bytes of their bodies, that lie in `files` now; damages: ranges of the log that are listed
    under the source's `damagePath`."""

    out: str
    format: str
    messages: int
    bytes: int
    files: tuple[str, ...]
    seconds: float
    damages: int = 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Source:
    """What is read: format and options of a Spark source; total: bytes of log, 0 if that isn't known; name: for
    errors."""

    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    total: int = 0
    name: str = "the source"

    @classmethod
    def stores(cls, paths: Sequence[str], more: Mapping[str, str] = MappingProxyType({})) -> Source:
        """Store folders; more: options of the source `commitlog`."""
        total = sum(store.end() - store.min_offset for store in map(LogStore.open, paths))
        return cls("commitlog", {**more, "paths": json.dumps(list(paths))}, total, ", ".join(paths))

    def read(self, spark: SparkSession, columns: Sequence[str]) -> DataFrame:
        """The columns of all messages."""
        options = {**self.options, "columns": ",".join(columns)}
        return spark.read.format(self.format).options(**options).load()


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """What to export, and as what.

    - form: ndjson, csv or parquet; None: by a file's suffix, ndjson for a folder
    - columns: which; None: all
    - selection: which messages
    - own_topics: of the brokers, which are exported, too; those that the selection names are
    - overwrite: replace an earlier export
    - allow_empty: a topic that the selection names may be one that the logs don't have
    """

    form: Format | None = None
    columns: Sequence[str] | None = None
    selection: Selection = EVERYTHING
    own_topics: Sequence[str] = ()
    overwrite: bool = False
    allow_empty: bool = False


def export(
    source: Sequence[str] | Source,
    out: str,
    options: ExportOptions = ExportOptions(),
    *,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
    seconds: Callable[[], float] = time.monotonic,
) -> ExportResult:
    """Write messages to files. Raises WrongSchema for unknown columns, PipelineError if `out` exists, or a topic
    that is named doesn't.

    - source: store folders, or a Source
    - out: a folder or a file
    - options: what to export, and as what
    - spark: the session; None: one is made
    - progress: called with (bytes done, bytes in all)
    - seconds: the clock that durations are taken from
    """
    begun = seconds()
    out, single = place_of(out), is_single(out)
    found, selection = _format(out, options.form, single), options.selection
    read = source if isinstance(source, Source) else Source.stores(source)
    check_free(out, options.overwrite, json.loads(read.options.get("paths", "[]")))
    names = check_columns(COLUMNS if options.columns is None else options.columns)
    session = spark or spark_session()
    needed = tuple(dict.fromkeys((*names, *selection.columns, "topic")))
    named = (*selection.topics, *options.own_topics)
    messages = selection.of(without_brokers_own(read.read(session, needed), named))
    # Name servers know which topics there are; of a log nobody does who hasn't read it.
    sought = () if options.allow_empty or read.format != "commitlog" else selection.topics
    counts = Observation()
    rows = SHAPES[found](counted(messages, counts, sought).select(*names))
    with exact_times(session):
        if single or is_movable(out):
            files = move_in(
                out,
                lambda draft: run_action(
                    session,
                    lambda: _write(rows.coalesce(1) if single else rows, draft, found),
                    progress,
                    read.total,
                ),
                lambda: _check_topics(session, read, unseen(counts, sought)),
            )
        else:
            _check_topics(session, read, sought)
            mode = "overwrite" if options.overwrite or "://" not in out else "errorifexists"
            run_action(session, lambda: _write(rows, out, found, mode), progress, read.total)
            files = data_files(out)
    counted_rows, taken = counts.get, round(seconds() - begun, 3)
    return ExportResult(
        out=out,
        format=found,
        messages=counted_rows["messages"],
        bytes=counted_rows["bytes"] or 0,
        files=tuple(files),
        seconds=taken,
        damages=listed_damages(read.options),
    )


# ---- rows


def without_brokers_own(messages: DataFrame, named: Sequence[str]) -> DataFrame:
    """Without the messages in the brokers' own topics, but for those that are named."""
    hidden = [topic for topic in BROKERS_OWN_TOPICS if topic not in named]
    # What stands for damage has no topic.
    return messages.where(F.col("topic").isNull() | ~F.col("topic").isin(hidden)) if hidden else messages


def counted(messages: DataFrame, counts: Observation, topics: Sequence[str] = ()) -> DataFrame:
    """The same, with `messages` and `bytes` (of bodies) observed as they are written, and whose topics they are.

    - messages: to be written
    - counts: what is observed
    - topics: those to look for
    """
    size = F.sum(F.octet_length("body")) if "body" in messages.columns else F.lit(0)
    seen = [F.max(F.col("topic") == topic).alias(f"{TOPIC}{number}") for number, topic in enumerate(topics)]
    return messages.observe(counts, F.count("*").alias("messages"), size.alias("bytes"), *seen)


def unseen(counts: Observation, topics: Sequence[str]) -> list[str]:
    """The topics that none of the messages had."""
    return [topic for number, topic in enumerate(topics) if not counts.get[f"{TOPIC}{number}"]]


def _check_topics(session: SparkSession, source: Source, wanted: Sequence[str]) -> None:
    """Raises PipelineError if the logs have no message of a topic at all, of whatever time."""
    if not wanted:
        return
    there = source.read(session, ["topic"]).distinct()
    topics = {row.topic for row in run_action(session, there.collect)} - {None}
    for topic in wanted:
        if topic not in topics:
            raise PipelineError(
                f"{source.name}: no message has the topic {topic}; {_listed(topic, topics)}: correct the name, or"
                " allow topics without messages (--allow-empty)"
            )


def _listed(topic: str, topics: Collection[str]) -> str:
    """Which there are, those first that are like the one that isn't."""
    near = sorted(topics, key=lambda each: (-SequenceMatcher(None, topic, each).ratio(), each))
    if not near:
        return "there are no messages at all"
    more = f" and {len(near) - LISTED} more" if len(near) > LISTED else ""
    return f"topics are {', '.join(near[:LISTED])}{more}"


def as_csv_rows(messages: DataFrame) -> DataFrame:
    """Texts only: keys and properties as JSON; a body as base64 also if it has a NUL or a CR."""
    names = set(messages.columns)
    plain = (
        is_text(F.col("body")) & ~F.col("body").cast("string").rlike("[\\x00\\r]")
        if "body" in names
        else None
    )
    structured = [name for name in ("keys", "properties") if name in names]
    return with_text_bodies(messages, plain).withColumns({name: F.to_json(name) for name in structured})


SHAPES: Final[Mapping[str, Callable[[DataFrame], DataFrame]]] = {
    "ndjson": as_json_rows,
    "csv": as_csv_rows,
    "parquet": lambda messages: messages,
}


# ---- files


def _format(out: str, form: Format | None, single: bool) -> str:
    found = form or (SUFFIXES[os.path.splitext(out)[1].lower()] if single else "ndjson")
    if found not in FORMATS:
        raise PipelineError(f"no format {found!r}; there are {', '.join(FORMATS)}")
    return found


@contextmanager
def exact_times(session: SparkSession) -> Iterator[None]:
    """Times in Parquet as microseconds of UTC; Spark's default is a form that others read as local time."""
    name = "spark.sql.parquet.outputTimestampType"
    before = session.conf.get(name)
    session.conf.set(name, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        session.conf.set(name, str(before))


def _write(rows: DataFrame, folder: str, form: str, mode: str = "errorifexists") -> None:
    try:
        rows.write.format(SPARK_FORMATS[form]).options(**OPTIONS[form]).mode(mode).save(folder)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise PipelineError(f"{folder}: already exists; give another name, or overwrite it") from None

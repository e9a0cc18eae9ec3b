"""Exports of the golden store and of nasty messages: what comes back by `import`'s reader is what was stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Observation

from hatwisted.cli.cluster.produce import parse_line
from hatwisted.cli.log.recordformat import as_json
from hatwisted.clientcore.messagejson import NAMES, MessageFields
from hatwisted.pipeline.decode.arrowschema import arrow_schema
from hatwisted.pipeline.errors import PipelineError, WrongSchema
from hatwisted.pipeline.jobs.messages.export import (
    BROKERS_OWN_TOPICS,
    COLUMNS,
    OPTIONS,
    SHAPES,
    ExportOptions,
    Source,
    counted,
    exact_times,
    export,
)
from hatwisted.pipeline.jobs.messages.importing import Sending
from hatwisted.pipeline.jobs.messages.messagefiles import find_message_files, open_message_file
from hatwisted.pipeline.jobs.messageselection import Selection
from hatwisted.wire.properties import decode_properties
from tests.support.golden import records
from tests.support.goldenlog import MASTER, instant
from tests.support.logbuilder import LogBuilder
from tests.support.oddmessages import odd_log, sent_body

HOUR = 3_600_000  # ms
NASTY_BODIES = (
    b"", b" blanks ", b"\xff\xfe", b"\x00", b"a\r\nb", b"a\rb", b"a\nb", b'"', b'a","b', b"\\", b'\\"', b"'",
    b"#c", "grün 𝄞   ".encode(), b"\xed\xa0\x80", bytes(range(256)), b"null", b"NaN", b"{}", b"\t", b"\x1f\x7f",
)  # fmt: skip
BORN = (1795221192755, -1, 253402300800000, -62198755200001, 9_223_372_036_854_775, -9_223_372_036_854_775)
"""ms; the last two are the furthest that Spark's timestamps hold."""
NASTY_PROPERTIES = {"k": "v", "grün": "𝄞", "q": '"\\\n,', "blank": " ", "KEYS": "a b", "TAGS": "t"}


def rows_of(path):
    return [row for file in find_message_files([str(path)]) for row in open_message_file(file).rows()]


def messages_of(path):
    sending = Sending(topic="T", keep_born=True)
    return [sending.message(number, row) for number, row in enumerate(rows_of(path))]


@pytest.fixture(scope="module")
def nasty(spark):
    rows = [
        dict.fromkeys(COLUMNS)
        | {
            "topic": "T",
            "broker": "b",
            "queue_id": 0,
            "queue_offset": number,
            "body": body,
            "properties": NASTY_PROPERTIES if number % 2 else {},
            "keys": ["a", "b"] if number % 2 else [],
            "tags": "t" if number % 2 else None,
            "flag": -number,
            "reconsume_times": 0,
            "store_timestamp": instant(1795221192756 + number),
            "born_timestamp": BORN[number % len(BORN)] * 1000,
        }
        for number, body in enumerate(NASTY_BODIES)
    ]
    table = pa.Table.from_pylist(rows, schema=arrow_schema(COLUMNS))
    return spark.createDataFrame(table).coalesce(1)


@pytest.mark.parametrize("form", ["ndjson", "csv", "parquet"])
def test_nasty_messages_come_back_as_they_were(spark, nasty, form, tmp_path):
    counts = Observation()
    rows = SHAPES[form](counted(nasty, counts))
    kind = {"ndjson": "json"}.get(form, form)
    with exact_times(spark):
        rows.write.format(kind).options(**OPTIONS[form]).save(str(tmp_path / "out"))
    found = messages_of(tmp_path / "out")
    assert [message.body for message in found] == list(NASTY_BODIES)
    assert [message.flag for message in found] == [-number for number in range(len(found))]
    assert [message.born for message in found] == [BORN[number % len(BORN)] for number in range(len(found))]
    for number, message in enumerate(found):
        assert decode_properties(message.properties) == (NASTY_PROPERTIES if number % 2 else {})
    assert counts.get == {"messages": len(NASTY_BODIES), "bytes": sum(map(len, NASTY_BODIES))}


@pytest.mark.parametrize("name", ["m.ndjson", "m.csv", "m.parquet", "folder"])
def test_the_golden_store_comes_back_in_order(spark, name, tmp_path):
    told = []
    result = export([MASTER], str(tmp_path / name), spark=spark, progress=lambda *each: told.append(each))
    log = [each for each in records() if each.topic not in BROKERS_OWN_TOPICS]
    rows = rows_of(tmp_path / name)
    assert result.messages == len(rows) == len(log) == 229
    assert result.bytes == sum(len(row.content) for row in rows)
    assert [(row.topic, row.queue_id) for row in rows] == [(each.topic, each.queue_id) for each in log]
    assert [row.all_properties for row in rows] == [each.properties for each in log]
    plain = [(row, each) for row, each in zip(rows, log, strict=True) if not each.sys_flag & 1]
    assert plain and all(row.content == each.body for row, each in plain)
    assert [row.born for row in rows] == [each.born_timestamp for each in log]
    assert told[-1] == (told[-1][1], told[-1][1])


def test_a_line_says_what_log_dump_says(spark, tmp_path):
    """The same names and values, of RocketMQ's records and of odd ones; what a table doesn't have is missing."""
    odd = odd_log()
    odd.save(tmp_path / "broker-a")
    for store, log in ((MASTER, records()), (str(tmp_path / "broker-a"), odd.records)):
        wanted = [each for each in log if each.topic not in BROKERS_OWN_TOPICS]
        out = tmp_path / "m.ndjson"
        export([store], str(out), ExportOptions(overwrite=True), spark=spark)
        lines = out.read_bytes().splitlines()
        assert len(lines) == len(wanted)
        for line, record in zip(lines, wanted, strict=True):
            said, dumped = json.loads(line), json.loads(as_json(record, "text"))
            assert said.keys() - dumped.keys() <= {"broker", "transaction", "body", "body64"}
            assert MessageFields.__annotations__.keys() <= said.keys()
            for name in said.keys() & dumped.keys() - {"body", "body64"}:
                assert said[name] == dumped[name], name
            given = parse_line(line)
            assert (given.topic, given.properties) == (record.topic, record.properties)
            assert list(said) == [name for name in NAMES if name in said]
    found = [(row.topic, row.queue_id, row.born, row.content) for row in rows_of(out)]
    assert found == [
        (each.topic, each.queue_id, each.born_timestamp, sent_body(each)) for each in odd.records
    ]
    assert [row.all_properties for row in rows_of(out)] == [each.properties for each in odd.records]


@pytest.mark.parametrize("name", ["m.ndjson", "m.csv", "m.parquet"])
def test_times_are_the_same_in_a_session_of_any_zone(spark, name, tmp_path):
    """Around the hour that New York's clocks have twice."""
    log, begin = LogBuilder(), int(datetime(2025, 11, 2, 4, 30, tzinfo=UTC).timestamp() * 1000)
    for time in range(begin, begin + 4 * HOUR, HOUR // 12):
        log.add("T", body=b"%d" % time, store_timestamp=time, born_timestamp=time)
    log.save(tmp_path / "broker-a")
    hour = (datetime(2025, 11, 2, 5, 30, tzinfo=UTC), datetime(2025, 11, 2, 6, 30, tzinfo=UTC))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        options = ExportOptions(selection=Selection((), *hour))
        export([str(tmp_path / "broker-a")], str(tmp_path / name), options, spark=spark)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    found = [(row.content, row.born) for row in rows_of(tmp_path / name)]
    times = range(begin + HOUR, begin + 2 * HOUR, HOUR // 12)
    assert found == [(b"%d" % time, time) for time in times]


def test_columns_and_topics(spark, tmp_path):
    chosen = Selection(("SCHEDULE_TOPIC_XXXX",))
    out = tmp_path / "m.ndjson"
    result = export(
        [MASTER], str(out), ExportOptions(columns=["queue_id", "body"], selection=chosen), spark=spark
    )
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert result.messages == len(lines) == sum(each.topic == "SCHEDULE_TOPIC_XXXX" for each in records())
    assert {name for line in lines for name in line} <= {"queueId", "body", "body64"}
    assert [path.name for path in tmp_path.iterdir()] == ["m.ndjson"]
    with pytest.raises(WrongSchema, match="did you mean topic"):
        export([MASTER], str(tmp_path / "n.csv"), ExportOptions(columns=["topik"]), spark=spark)


def test_what_is_there_stays_unless_asked_to(spark, tmp_path):
    out = tmp_path / "m.parquet"
    out.write_text("mine")
    with pytest.raises(PipelineError, match="already exists"):
        export([MASTER], str(out), spark=spark)
    assert out.read_text() == "mine"
    export([MASTER], str(out), ExportOptions(selection=Selection(("TopicA",)), overwrite=True), spark=spark)
    assert pq.read_table(out).schema.field("store_timestamp").type == pa.timestamp("us", "UTC")


@pytest.mark.parametrize("name", ["m.ndjson", "folder"])
def test_a_topic_that_is_not_there_is_an_error_that_names_those_that_are(spark, name, tmp_path):
    out, early = tmp_path / name, datetime(2000, 1, 1, tzinfo=UTC)
    export([MASTER], str(out), ExportOptions(selection=Selection(("TopicA",))), spark=spark)
    before = rows_of(out)
    for topics in (("TopicAA",), ("TopicA", "TopicAA")):
        options = ExportOptions(selection=Selection(topics), overwrite=True)
        with pytest.raises(PipelineError) as refused:
            export([MASTER], str(out), options, spark=spark)
        assert f"{MASTER}: no message has the topic TopicAA; topics are TopicA, " in str(refused.value)
        assert [row.content for row in rows_of(out)] == [row.content for row in before]
    # A topic without messages in that time is no mistake, nor is one that may be absent.
    for selection, allowed in ((Selection(("TopicA",), until=early), False), (Selection(("TopicAA",)), True)):
        options = ExportOptions(selection=selection, overwrite=True, allow_empty=allowed)
        assert export([MASTER], str(out), options, spark=spark).messages == 0
        assert rows_of(out) == []
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_damaged_log_leaves_nothing(spark, tmp_path):
    store = tmp_path / "store" / "commitlog"
    store.mkdir(parents=True)
    for path in Path(MASTER, "commitlog").iterdir():
        data = bytearray(path.read_bytes())
        data[30_000:30_100] = bytes(100)
        (store / path.name).write_bytes(data)
    for name in ("m.ndjson", "folder"):
        with pytest.raises(PipelineError, match="no valid record at offset"):
            export([str(tmp_path / "store")], str(tmp_path / "out" / name), spark=spark)
        assert not (tmp_path / "out" / name).exists()
    for mode in ("skip-and-report", "permissive"):
        more = {"mode": mode, "damagePath": str(tmp_path / mode)}
        out = tmp_path / f"{mode}.parquet"
        result = export(Source.stores([str(tmp_path / "store")], more), str(out), spark=spark)
        assert result.damages == 2
        odd = [row for row in pq.read_table(out).to_pylist() if row["topic"] is None]
        assert len(odd) == (2 if mode == "permissive" else 0)

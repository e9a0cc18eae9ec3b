"""What `hatwisted pipeline` tells people of a job's result: the figures that matter, each in its line."""

from __future__ import annotations

from dataclasses import replace

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.pipeline.pipelinetext import (
    SHOWN,
    audit_lines,
    export_lines,
    import_lines,
    land_lines,
    reindex_lines,
    report_lines,
)
from hatwisted.pipeline.jobs.audit.auditresult import (
    AuditResult,
    Copy,
    DamagedRange,
    QueueBreak,
    RangeDifference,
)
from hatwisted.pipeline.jobs.land.landoptions import LandResult
from hatwisted.pipeline.jobs.messages.export import ExportResult
from hatwisted.pipeline.jobs.messages.importing import ImportResult
from hatwisted.pipeline.jobs.rangecompare import Kind
from hatwisted.pipeline.jobs.reindex.reindexing import ReindexResult, SkippedRange
from hatwisted.pipeline.jobs.report.reporting import ReportResult
from hatwisted.pipeline.jobs.report.reportsummary import Group, SlaveLag, Spread, Summary, Timeline

MIB = 1 << 20
LANDED = LandResult(
    table="lake/log",
    engine="local",
    rows=12_345,
    bytes=MIB,
    log_bytes=10 * MIB,
    files=1,
    versions=(4,),
    seconds=2.0,
    removed=0,
    compacted=0,
    put_off=(),
    damages=0,
    stopped=False,
)


class LandTextTests(SynchronousTestCase):
    def test_a_landing_in_one_line(self) -> None:
        told, _ = land_lines(LANDED)
        expected = "12,345 rows landed in lake/log: 10.0 MiB of log as 1.0 MiB in 1 file, 5.0 MiB/s"
        self.assertEqual(told, expected)

    def test_the_engine_is_told(self) -> None:
        _, told = land_lines(LANDED)
        self.assertEqual(told, "landed without Spark")
        _, told = land_lines(replace(LANDED, engine="spark"))
        self.assertEqual(told, "landed by Spark")
        self.assertEqual(LANDED.as_json()["engine"], "local")

    def test_what_isnt_usual_has_a_line_each(self) -> None:
        result = replace(
            LANDED,
            files=3,
            removed=2,
            compacted=1,
            put_off=("another writer was first", "and again"),
            damages=1,
            stopped=True,
        )
        first, _, *more = land_lines(result)
        self.assertIn("in 3 files", first)
        expected = [
            "2 files of an earlier, interrupted run removed",
            "1 small file compacted",
            "compaction postponed: another writer was first",
            "compaction postponed: and again",
            "1 damaged range of the log, listed under damagePath",
            "stopped; the next run continues from here",
        ]
        self.assertEqual(more, expected)

    def test_nothing_landed_has_no_rate(self) -> None:
        for result in (replace(LANDED, rows=0, log_bytes=0, bytes=0, files=0), replace(LANDED, seconds=0.0)):
            told, *more = land_lines(result)
            self.assertEqual(len(more), bool(result.rows))
            self.assertTrue(told.endswith("files" if result.files == 0 else "1 file"), told)


def difference(number: int) -> RangeDifference:
    return RangeDifference("master", "slave", Kind.MISSING, number, number + 100, 1, number, None, "", 0)


AUDITED = AuditResult(
    identical=True,
    begin=0,
    end=MIB,
    identical_up_to=MIB,
    copies=(Copy("master", "store", 0, MIB), Copy("slave", "store", 0, MIB)),
    records=7000,
    bytes_read=2 * MIB,
    queues=4,
    seconds=1.0,
)


class AuditTextTests(SynchronousTestCase):
    def test_the_verdict_comes_first(self) -> None:
        told = list(audit_lines(replace(AUDITED, notes=("slave was written to meanwhile",))))
        expected = [
            "2 copies are identical from 0 to 1048576",
            "7,000 records, 2.0 MiB/s",
            "slave was written to meanwhile",
        ]
        self.assertEqual(told, expected)

    def test_what_was_found_has_a_line_each(self) -> None:
        result = replace(
            AUDITED,
            identical=False,
            identical_up_to=300,
            differences=(difference(300),),
            damaged=(DamagedRange("slave", 500, 600, "no record", False),),
            breaks=(QueueBreak("T", 1, 5, 7, 100, 200), QueueBreak("Again", 0, 5, 0, 100, 200)),
        )
        first, _, *found = audit_lines(result)
        self.assertEqual(first, "identical up to 300; slave: missing [300, 400), 1 record")
        expected = [
            "  differs: slave: missing [300, 400), 1 record",
            "  damaged: slave: [500, 600): no record",
            "  queue break: T/1: gap: queue offset 7 instead of 5, 2 missing, between log offsets 100 and 200",
        ]
        self.assertEqual(found, expected, "a topic that was created again is no break")

    def test_a_long_list_is_cut_and_the_rest_counted(self) -> None:
        exact = replace(AUDITED, identical=False, differences=tuple(map(difference, range(SHOWN))))
        self.assertEqual(len(list(audit_lines(exact))), 2 + SHOWN)
        found = tuple(map(difference, range(SHOWN + 1234)))
        told = list(audit_lines(replace(exact, differences=found)))
        self.assertEqual(len(told), 2 + SHOWN + 1)
        self.assertEqual(told[-1], "  and 1,234 more")


class ReindexTextTests(SynchronousTestCase):
    def test_what_was_built_and_what_couldnt_be(self) -> None:
        result = ReindexResult(
            queues=1,
            entries=2000,
            blanks=0,
            refused=0,
            carried_over=0,
            index_files=2,
            index_items=1500,
            target="built",
            begin=MIB,
            end=5 * MIB,
            records=2003,
            damaged=(),
            seconds=2.0,
        )
        expected = (
            "2,003 records: 2,000 entries in 1 queue, 1,500 items in 2 index files, in built, 2.0 MiB/s"
        )
        self.assertEqual(list(reindex_lines(result)), [expected])
        broken = replace(result, refused=3, damaged=(SkippedRange(7, 9, "no record"),))
        told = ["3 records don't fit into their queue", "  damaged: [7, 9): no record"]
        self.assertEqual(list(reindex_lines(broken)), [expected, *told])


UNKNOWN = Spread(None, None, None, None, None, None)


def summary(latency: Spread, *slaves: SlaveLag) -> Summary:
    total = Group(None, None, None, 5000, 4 * MIB, 0, 1000, 0, UNKNOWN, latency)
    timeline = Timeline(1, (), {}, {}, (), (), ())
    return Summary(total, {}, {}, (), 1, (), 1, timeline, slaves)


def slave(name: str, end: int, messages: int) -> SlaveLag:
    return SlaveLag(name, "a", 0, end, 0, 4 * MIB, messages, None, ())


class ReportTextTests(SynchronousTestCase):
    def told(self, found: Summary, damages: int = 0) -> list[str]:
        result = ReportResult(page="out/report.html", files=(), summary=found, damages=damages, seconds=2.0)
        return list(report_lines(result))

    def test_figures_then_the_page(self) -> None:
        expected = ["5,000 messages, 4.0 MiB, of 1 topic, read at 2.0 MiB/s", "out/report.html"]
        self.assertEqual(self.told(summary(UNKNOWN)), expected)

    def test_latency_slaves_and_damage_if_there_are_any(self) -> None:
        found = summary(
            Spread(3.0, 0, 2, 1500, 12_000, 13_000),
            slave("copy-b", 3 * MIB, 1250),
            slave("Slave1", 4 * MIB, 0),
        )
        expected = [
            "born to stored: median 2 ms, 99 % 12,000 ms",
            "slave copy-b: 1.0 MiB and 1,250 messages behind",
            "Slave1: up to date",
            "2 damaged ranges left out",
        ]
        self.assertEqual(self.told(found, damages=2)[1:-1], expected)


class MessagesTextTests(SynchronousTestCase):
    def test_an_export(self) -> None:
        files = ("out/1.csv", "out/2.csv")
        result = ExportResult(out="out", format="csv", messages=1000, bytes=3 * MIB, files=files, seconds=1.0)
        expected = ["1,000 messages written to out: 2 files of csv, 3.0 MiB/s"]
        self.assertEqual(list(export_lines(result)), expected)

    def test_an_import(self) -> None:
        result = ImportResult(
            messages=1200,
            statuses={"OK": 1200},
            bytes=MIB,
            refused=0,
            refusals=(),
            resent=0,
            skipped=0,
            files=("in.csv",),
            seconds=1.0,
        )
        expected = "1,200 messages stored, 1.0 MiB, 1.0 MiB/s"
        self.assertEqual(list(import_lines(result)), [expected])
        refusals = tuple((number, "too long") for number in range(SHOWN + 5))
        worse = replace(
            result, statuses={"OK": 1190, "FLUSH_DISK_TIMEOUT": 10}, resent=2, refused=15, refusals=refusals
        )
        told = list(import_lines(worse))
        self.assertEqual(
            told[1:5],
            [
                "10 of them with FLUSH_DISK_TIMEOUT",
                "2 of them sent again after a lost answer: some may be stored twice",
                "15 messages refused",
                "  row 0: too long",
            ],
        )
        self.assertEqual(len(told), 4 + SHOWN)

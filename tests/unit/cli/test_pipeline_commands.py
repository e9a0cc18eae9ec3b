"""`hatwisted pipeline`: what it needs, what it says, how it ends. The jobs have tests of their own."""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
from pathlib import Path
from unittest import mock

import click
from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from hatwisted import pipeline
from hatwisted.cli.optionvalues import Instant, Size
from hatwisted.cli.pipeline.sparkrun import JobBar, SparkLog
from hatwisted.pipeline import jobs
from hatwisted.pipeline.jobs.messages import export as exporting
from hatwisted.pipeline.jobs.messages import importing
from hatwisted.pipeline.spark import sparksession
from hatwisted.wire.layout import SCHEDULE_TOPIC
from tests.support.clistores import run_pipeline
from tests.support.golden import GOLDEN


def setUpModule() -> None:
    """On a machine where it has never run matplotlib starts a program that lists fonts, which no unit test may."""
    importlib.import_module("matplotlib.font_manager")


class TestPipelineCommands(SynchronousTestCase):
    def test_without_the_extra_one_line_says_how_to_get_it(self):
        # Its library can be loaded once in a process.
        importlib.import_module("deltalake")
        store = GOLDEN / "master"
        commands = {
            "land": ("--engine", "spark", store, "table"),
            "audit": (store, GOLDEN / "slave"),
            "report": (store,),
            "export": (store, "-o", "out.csv"),
        }
        for name, arguments in commands.items():
            loaded = {each: sys.modules[each] for each in sys.modules if each.startswith(jobs.__name__)}
            for each in loaded:
                sys.modules.pop(each)
            try:
                with mock.patch.dict(sys.modules, {"pyspark": None, "pyspark.sql": None}):
                    result = run_pipeline(name, *arguments)
            finally:
                # The tests to come have these: others of the same names couldn't be pickled.
                sys.modules.update(loaded)
                pipeline.jobs = jobs
            self.assertEqual(result.exit_code, 2, result.output)
            self.assertIn("pip install 'hatwisted[pipeline]'", result.output)
            self.assertEqual(result.output.count("\n"), 1)

    def test_wrong_usage(self):
        store = str(GOLDEN / "master")
        table = self.mktemp()
        for arguments, said in (
            (("audit", store), "at least two"),
            (("report", "/nowhere"), "does not exist"),
            (("report", store, "--since", "someday"), "isn't a time"),
            (("report", store, "--conf", "spark"), "KEY=VALUE"),
            (("land", store), "either STOREs, or -n"),
            (("land", store, "t", "--max-bytes", "much"), "isn't a size"),
            (("land", "t", "-n", "127.0.0.1:1"), "which topics"),
            (("export", store, "-o", "o.csv", "-n", "127.0.0.1:1"), "either STOREs, or -n"),
            (("land", store, table, "--topic", "Orders"), "--topic goes with -n"),
            (("land", store, table, "--pattern", "Orders.*"), "--pattern goes with -n"),
            (("land", store, table, "--topics", "Orders.*"), "--pattern goes with -n"),
            (("export", store, "-o", "o.csv", "--pattern", "Orders.*"), "--pattern goes with -n"),
            (("import", store, "-n", "nowhere:x"), "isn't host:port"),
            (("import", "/nowhere.csv"), "does not exist"),
        ):
            result = run_pipeline(*arguments)
            self.assertEqual(result.exit_code, 2, arguments)
            self.assertIn(said, result.output)

    def test_what_can_be_refused_before_spark_starts_is(self):
        master = str(GOLDEN / "master")
        nothing, taken, nowhere = self.mktemp(), self.mktemp(), self.mktemp()
        os.mkdir(nothing)
        Path(taken).write_text("mine")
        table, page = Path(self.mktemp()), Path(self.mktemp())
        (table / "_delta_log").mkdir(parents=True)
        page.write_text("<!DOCTYPE html>")
        self.patch(sparksession, "spark_session", lambda *_, **__: self.fail("Spark was started"))
        for arguments, said in (
            (("land", nothing, "t"), "commitlog"),
            (("land", master, "t", "--columns", "topik"), "did you mean topic?"),
            (("land", master, "t", "--option", "brokr=x"), "no option 'brokr'; did you mean broker?"),
            (("land", "-n", "h:1", "--topic", "T", "t", "--option", "tsl=true"), "did you mean tls?"),
            (("export", master, "-o", "o", "--option", "brokr=x"), "no option 'brokr'; did you mean broker?"),
            (("audit", master, nothing), "commitlog"),
            (("reindex", nothing, "-o", "o"), "commitlog"),
            (("reindex", master), "exists; give another folder"),
            (("report", master, master), "two of them are logs of one broker"),
            (("report", master, "--slave", nothing), "commitlog"),
            (
                ("report", master, "-o", table),
                "has _delta_log, which is no part of a report; give another folder",
            ),
            (("report", master, "-o", master), "no part of a report"),
            (("report", nothing, "-o", table, "--overwrite"), "commitlog"),
            (("reindex", master, "-o", table), "has _delta_log, and isn't a store; give a new folder"),
            (("land", master, nowhere, "--checkpoint", table), "has _delta_log, and is no landing's"),
            (
                ("land", master, nowhere, "--engine", "spark", "--checkpoint", "s3://lake/c"),
                "s3://lake/c: progress is kept in a folder that this machine has or has mounted",
            ),
            (("audit", master, master, "--html", taken), "isn't a page, so it isn't overwritten by one"),
            (("audit", master, master, "--html", f"{taken}/p.html"), "there's no folder"),
            (("audit", master, nothing, "--html", page), "commitlog"),
            (("export", master, "-o", taken), "already exists"),
            (("export", master, "-o", "o", "--columns", "topik"), "did you mean topic?"),
        ):
            result = run_pipeline(*arguments)
            self.assertEqual(result.exit_code, 2, (arguments, result.output))
            self.assertIn(said, result.output)
        self.assertEqual(Path(taken).read_text(), "mine")
        self.assertEqual([path.name for path in table.iterdir()], ["_delta_log"])
        self.assertFalse(os.path.exists(nowhere))

    def test_where_nothing_is_new_spark_needn_t_start(self):
        store, table = str(GOLDEN / "master"), self.mktemp()
        landed = run_pipeline("land", store, table)
        self.assertEqual(landed.exit_code, 0, landed.output)
        self.assertIn("\nlanded without Spark\n", landed.output)
        self.patch(sparksession, "spark_session", lambda *_, **__: self.fail("Spark was started"))
        for chosen in (("--engine", "spark"), ("--master", "spark://nowhere:7077")):
            result = run_pipeline("land", store, table, *chosen)
            self.assertEqual(result.exit_code, 0, result.output)
            self.assertIn("0 rows landed", result.output)
        # Elsewhere there's something to land.
        made = []
        self.patch(sparksession, "spark_session", lambda *_, **__: made.append(1) or sys.exit(7))
        other = self.mktemp()
        self.assertEqual(run_pipeline("land", store, other, "--engine", "spark").exit_code, 7)
        self.assertEqual((made, os.path.exists(other)), ([1], False))

    def test_an_export_has_the_topics_that_are_named_and_those_that_match(self):
        self.patch(sparksession, "spark_session", lambda *_, **__: None)
        read = {}

        def export(source, out, options, **more):
            read.update(source.options, own=options.own_topics, chosen=options.selection.topics)
            return exporting.ExportResult(out=out, format="csv", messages=0, bytes=0, files=(), seconds=0.0)

        self.patch(exporting, "export", export)
        cluster, out = ("export", "-n", "127.0.0.1:1"), ("-o", self.mktemp())
        topics = ("--topic", "Paid", "--topic", SCHEDULE_TOPIC)
        for arguments, chosen in ((topics, ("Paid", SCHEDULE_TOPIC)), ((*topics, "--pattern", "Ord.*"), ())):
            result = run_pipeline(*cluster, *arguments, *out)
            self.assertEqual(result.exit_code, 0, result.output)
            self.assertEqual(json.loads(read["topics"]), ["Paid", SCHEDULE_TOPIC])
            # Those that match the pattern would be left out.
            self.assertEqual(tuple(read["chosen"]), chosen)
            self.assertIn(SCHEDULE_TOPIC, (*read["own"], *read["chosen"]))
        self.assertEqual(read["topicsPattern"], "Ord.*")

    def test_an_export_that_lacks_damaged_messages_says_so(self):
        self.patch(sparksession, "spark_session", lambda *_, **__: None)

        def export(source, out, options, **more):
            counts = {"messages": 7, "bytes": 0, "files": (), "seconds": 0.0}
            return exporting.ExportResult(out=out, format="csv", damages=2, **counts)

        self.patch(exporting, "export", export)
        result = run_pipeline("export", str(GOLDEN / "master"), "-o", self.mktemp())
        self.assertEqual(result.exit_code, 1)
        self.assertIn("2 damaged ranges of the log, listed under damagePath", result.output)

    def test_an_import_from_a_folder_that_has_no_messages(self):
        result = run_pipeline("import", GOLDEN / "master", "-n", "127.0.0.1:1")
        self.assertEqual(result.exit_code, 2)
        self.assertIn("has no files of messages", result.output)

    def test_an_import_that_was_interrupted_says_where_to_go_on(self):
        def interrupted(*_, **__):
            raise importing.ImportInterrupted("interrupted; 7 messages are stored: continue with --skip 7")

        self.patch(importing, "import_messages", interrupted)
        result = run_pipeline("import", __file__, "-n", "127.0.0.1:1")
        self.assertEqual(result.exit_code, 130)
        self.assertEqual(result.stderr, "Error: interrupted; 7 messages are stored: continue with --skip 7\n")

    def test_sizes_and_times(self):
        for text, size in (
            ("1048576", 1 << 20),
            ("64k", 1 << 16),
            ("2g", 2 << 30),
            ("1MiB", 1 << 20),
            ("3MB", 3 << 20),
        ):
            self.assertEqual(Size().convert(text, None, None), size)
        for text in ("", "0", "k", "-1", "1x", "1.5g"):
            self.assertRaises(click.BadParameter, Size().convert, text, None, None)
        self.assertEqual(
            Instant().convert("2026-11-21T00:00:00", None, None).isoformat(), "2026-11-21T00:00:00+00:00"
        )
        self.assertEqual(Instant().convert("2026-11-21T01:00+01:00", None, None).hour, 1)

    def test_the_bar_shows_rate_and_time_left_on_a_terminal(self):
        output = io.StringIO()
        with JobBar("land", console=Console(file=output, force_terminal=True, width=140)) as bar:
            bar(1 << 20, 4 << 20)
            bar(4 << 20, 4 << 20)
        self.assertIn("land: starting Spark", output.getvalue())
        self.assertIn("4.0/4.0 MiB", output.getvalue())

    def test_the_bar_says_what_is_waited_for(self):
        output = io.StringIO()
        with JobBar("land", ": starting", Console(file=output, force_terminal=True, width=140)) as bar:
            bar.waits_for("claiming its brokers")
            bar.waits_for("Spark's tasks")
            bar(1 << 20, 4 << 20)
        said = output.getvalue()
        places = [said.index(f"land: {what}") for what in ("claiming its brokers", "Spark's tasks")]
        self.assertEqual(places, sorted(places))
        self.assertNotIn("land:", said[said.index("1.0/4.0 MiB") - 80 :])

    def test_while_spark_starts_its_line_fits_80_columns(self):
        output = io.StringIO()
        with JobBar("report", console=Console(file=output, force_terminal=True, width=80)):
            pass
        said = output.getvalue()
        self.assertIn("report: starting Spark's JVM, which takes some seconds", said)
        self.assertNotIn("bytes", said)
        self.assertNotIn("…", said)

    def test_the_bar_is_silent_elsewhere(self):
        output = io.StringIO()
        with JobBar("land", console=Console(file=output, force_terminal=False)) as bar:
            bar(1, 2)
        self.assertEqual(output.getvalue(), "")


class TestSparkLog(SynchronousTestCase):
    def test_a_jvm_that_was_there_before_has_no_log_of_ours(self):
        self.assertEqual(SparkLog().kept(), "")


class TestJson(SynchronousTestCase):
    def test_an_answer_is_one_document(self):
        from hatwisted.cli.pipeline.sparkrun import print_result

        for answer in ({"rows": 1}, '{"rows": 1}'):
            result = mock.Mock(as_json=lambda answer=answer: answer)
            with mock.patch("click.echo") as echo:
                print_result(result, True, lambda _: iter(()))
            self.assertEqual(json.loads(echo.call_args.args[0]), {"rows": 1})

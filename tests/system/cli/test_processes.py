"""What the CLI does that takes another process or a socket to see: imports, completion, locks, Spark's noise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from tests.support.clistores import PIPELINE_JOBS, golden_copy, run, run_pipeline


class ProcessTests(SynchronousTestCase):
    def test_store_in_use_is_named_and_keeps_its_lock(self) -> None:
        store = golden_copy(self.mktemp())
        holder = (
            "import fcntl, sys\n"
            "lock = open(sys.argv[1], 'w'); fcntl.lockf(lock, fcntl.LOCK_EX, 1)\n"
            "print('held', flush=True); sys.stdin.read()\n"
        )
        command = [sys.executable, "-c", holder, str(store / "lock")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            report = json.loads(run("check", store, "--json").stdout)
            self.assertEqual(report["inUseBy"], process.pid)
            for command_name in ("index", "repair"):
                result = run(command_name, store)
                self.assertEqual(result.exit_code, 2)
                self.assertIn(f"is held by process {process.pid}", result.stderr)

    def test_help_imports_nothing_of_the_pipeline(self):
        program = (
            "import sys\nfrom hatwisted.cli.main import main\n"
            "try: main(['pipeline', '--help'], prog_name='hatwisted')\n"
            "except SystemExit: pass\n"
            "assert not {'pyspark', 'pyarrow', 'matplotlib', 'hatwisted.pipeline'} & set(sys.modules)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name in PIPELINE_JOBS:
            self.assertIn(f"  {name} ", done.stdout)

    def test_reading_imports_neither_twisted_nor_spark(self) -> None:
        code = (
            "import sys; from hatwisted.pipeline import read_arrow; read_arrow; "
            "assert not {'twisted', 'pyspark'} & set(sys.modules), sys.modules.keys()"
        )
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_the_room_itself_imports_no_arrow(self) -> None:
        code = "import sys, hatwisted.pipeline; assert 'pyarrow' not in sys.modules"
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_completion_knows_commands_and_options(self):
        program = "from hatwisted.cli.main import main; main(prog_name='hatwisted')"
        for words, wanted in (
            ("hatwisted pipeline re", "report"),
            ("hatwisted pipeline export --fo", "--format"),
        ):
            env = {
                "_HATWISTED_COMPLETE": "bash_complete",
                "COMP_WORDS": words,
                "COMP_CWORD": str(words.count(" ")),
            }
            done = subprocess.run(
                [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120
            )
            self.assertIn(wanted, done.stdout)

    def test_a_name_server_that_isnt_there(self):
        file = Path(self.mktemp())
        file.write_text('{"topic": "T", "body": "x"}\n')
        file = file.rename(file.with_suffix(".ndjson"))
        with mock.patch("hatwisted.blocking.driver.BlockingDriver.pause"):
            result = run_pipeline("import", file, "-n", "127.0.0.1:1")
        self.assertEqual(result.exit_code, 2)
        self.assertIn("no name server answered", result.output)
        self.assertEqual(result.output.count("\n"), 1)


class SparkLogTests(SynchronousTestCase):
    def told(self, ending):
        """What a process leaves on standard error and in Spark's log."""
        program = (
            "import os, subprocess, sys\nfrom hatwisted.cli.pipeline.sparkrun import SparkLog\nlog = SparkLog()\n"
            "with log.taken(): subprocess.run(['sh', '-c', 'echo noise >&2'])\n"
            "print('ours', file=sys.stderr)\nprint(log._path)\n" + ending
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.stderr, "ours\n")
        return Path(done.stdout.split()[0])

    def test_noise_is_gone_at_the_end(self):
        self.assertFalse(self.told("").exists())

    def test_a_failure_keeps_it(self):
        path = self.told("log.kept()")
        self.addCleanup(path.unlink)
        self.assertEqual(path.read_text(), "noise\n")

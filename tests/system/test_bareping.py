"""What the benchmark says of the machine beside the row of one message in flight."""

from __future__ import annotations

import json
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from testbed.processes import REPOSITORY


class BarePingTests(SynchronousTestCase):
    def test_every_message_comes_back(self) -> None:
        command = [sys.executable, "-m", "bench.bareping", "40"]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        figures = json.loads(done.stdout)
        self.assertEqual(list(figures), ["p50_ms", "p99_ms", "max_ms"])
        self.assertTrue(0 < figures["p50_ms"] <= figures["p99_ms"] <= figures["max_ms"], figures)

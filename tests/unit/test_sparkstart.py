"""Which Python a JVM of Spark's is told, and that PySpark is left as it is otherwise."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from hatwisted import sparkstart
from hatwisted.sparkstart import SAYS_OTHERWISE, TOLD, install, python_for

MODULE = "gatewayofatest"
SOURCE = f"""
import os

def launch_gateway(conf=None, popen_kwargs=None):
    "Starts it."
    if popen_kwargs:
        raise RuntimeError(os.environ["{TOLD}"])
    return os.environ.get("{TOLD}")
"""


class SparkStartTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()
        self.folder.mkdir()
        (self.folder / f"{MODULE}.py").write_text(SOURCE)
        (self.folder / "python3").touch(0o755)
        self.enterContext(patch.object(sparkstart, "GATEWAY", MODULE))
        self.enterContext(patch.object(sys, "path", [str(self.folder), *sys.path]))
        others = [finder for finder in sys.meta_path if finder is not sparkstart._Finder]
        self.enterContext(patch.object(sys, "meta_path", others))
        self.addCleanup(sys.modules.pop, MODULE, None)
        plain = {name: value for name, value in os.environ.items() if name not in SAYS_OTHERWISE}
        self.elsewhere = plain | {"PATH": str(self.folder)}

    def test_a_session_here_is_told_the_program_s_own(self) -> None:
        for conf in (None, {}, {"spark.master": "local[2]"}):
            self.assertEqual(python_for(conf, self.elsewhere), sys.executable)
        self.assertEqual(python_for(None, {"PATH": ""}), sys.executable)

    def test_executors_elsewhere_have_their_own(self) -> None:
        for master in ("spark://host:7077", "yarn", "k8s://host"):
            self.assertIsNone(python_for({"spark.master": master}, self.elsewhere))

    def test_what_is_named_counts(self) -> None:
        for name in SAYS_OTHERWISE:
            self.assertIsNone(python_for(None, self.elsewhere | {name: "python3"}))

    def test_nothing_is_said_where_spark_finds_it_by_itself(self) -> None:
        with patch.object(sys, "executable", str(self.folder / "python3.11")):
            self.assertIsNone(python_for(None, self.elsewhere))

    def test_the_jvm_is_told_and_nobody_else(self) -> None:
        install()
        install()
        with patch.dict(os.environ, self.elsewhere, clear=True):
            gateway = importlib.import_module(MODULE)
            self.assertEqual(gateway.launch_gateway(), sys.executable)
            with self.assertRaisesRegex(RuntimeError, sys.executable):
                gateway.launch_gateway(None, {"stdin": None})
            self.assertNotIn(TOLD, os.environ)
            self.assertIsNone(gateway.launch_gateway({"spark.master": "yarn"}))
        self.assertEqual(gateway.launch_gateway.__doc__, "Starts it.")
        self.assertEqual(type(gateway.__spec__.loader).__module__, "_frozen_importlib_external")
        self.assertIs(gateway.__loader__, gateway.__spec__.loader)

    def test_it_waits_once_and_for_nothing_else(self) -> None:
        others = list(sys.meta_path)
        install()
        importlib.import_module("wave")
        self.assertEqual(sys.meta_path[1:], others)
        importlib.import_module(MODULE)
        install()
        self.assertEqual(sys.meta_path, others)

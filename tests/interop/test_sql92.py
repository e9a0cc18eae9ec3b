"""RocketMQ's own filter parser on the golden table of expressions: the file still says what it says."""

from __future__ import annotations

import json
import subprocess

from testbed import javarocketmq
from testbed.brokergroup import JAVA
from tests.interop.conftest import needs
from tests.support.golden import SQL92


def test_the_table_of_outcomes_is_rocketmqs() -> None:
    needs(JAVA)
    classes = f"{javarocketmq.install()}/*"
    command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", classes]
    command += [str(SQL92 / "Sql92Table.java"), str(SQL92 / "cases.json")]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == json.loads((SQL92 / "outcomes.json").read_text())

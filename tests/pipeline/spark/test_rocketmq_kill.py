"""A stream that is killed with -9 again and again, and the slave it reads from once: every message lands exactly
once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')
pytest.importorskip("deltalake")

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import SparkSession

from testbed.brokergroup import OURS, QUICK_SYNC, BrokerGroup
from testbed.processes import REPOSITORY, wait_until
from tests.pipeline.spark import streamprogram
from tests.support.background import Background
from tests.support.clustermessages import bodies_of, fill, send_batches, wait_for_slave
from tests.support.soak import times

pytestmark = pytest.mark.timeout(800)

KILLS = 1 if times(1) == 1 else times(2)
"""One as the slave that gave has just died; `make soak` has one beside a slave that gives, and many more. Where in
a batch is for chance: the sink's own stages are killed in jobs/test_land_kill.py."""
QUEUES = 2
FIRST = 2000
TURN = 10
"""Messages into each queue every half a second: so few that the last landing soon has what was sent meanwhile."""


def landed(folder: Path) -> list[tuple[int, int, bytes]]:
    try:
        table = DeltaTable(str(folder / "table")).to_pyarrow_table()
    except TableNotFoundError:
        return []
    return sorted(
        zip(*(table[name].to_pylist() for name in ("queue_id", "queue_offset", "body")), strict=True)
    )


def places(group: BrokerGroup, folder: Path) -> tuple[str, str, str]:
    return f"127.0.0.1:{group.namesrv_port}", "Killed", str(folder)


def start(group: BrokerGroup, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", streamprogram.__name__, *places(group, folder)]
    with open(folder / "program.out", "ab") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            start_new_session=True,
        )


def kill(program: subprocess.Popen[bytes]) -> None:
    """The program, its JVM and its workers."""
    os.killpg(program.pid, signal.SIGKILL)
    program.wait()


def test_restarts_after_kill_lose_and_repeat_nothing(spark: SparkSession, tmp_path: Path) -> None:
    dice = random.Random(5)
    with BrokerGroup(tmp_path, namesrv_kind=OURS, slave_settings=QUICK_SYNC) as group:
        group.start()
        fill(group, "Killed", FIRST, queues=QUEUES)
        wait_for_slave(group, "Killed")
        with Sender(group) as sender:
            for attempt in range(KILLS):
                program = start(group, tmp_path)
                try:
                    wait_for_more_rows(program, tmp_path)
                    if attempt == min(1, KILLS - 1):
                        group.slave.kill()
                    time.sleep(dice.uniform(0.0, 1.0))
                finally:
                    kill(program)
        last = streamprogram.landing(spark, *places(group, tmp_path)).trigger(availableNow=True)
        last.start().awaitTermination()
    wanted = []
    for queue in range(QUEUES):
        bodies = bodies_of(queue * 1_000_000, FIRST) + bodies_of(queue * 1_000_000 + FIRST, sender.sent)
        wanted += [(queue, offset, body) for offset, body in enumerate(bodies)]
    assert landed(tmp_path) == wanted


def wait_for_more_rows(program: subprocess.Popen[bytes], folder: Path) -> None:
    before = len(landed(folder))
    wait_until(lambda: program.poll() is not None or len(landed(folder)) > before, 150, "rows land")
    assert program.poll() is None, (folder / "program.out").read_text()[-3000:]


class Sender(Background):
    """Sends on and on while it's a context, so that every life of the stream finds new messages; `sent` to each
    queue."""

    def __init__(self, group: BrokerGroup) -> None:
        super().__init__()
        self._group = group
        self.sent = 0

    def work(self) -> None:
        with self._group.master_client() as client:
            while not self.ended.wait(0.5):
                for queue in range(QUEUES):
                    bodies = bodies_of(queue * 1_000_000 + FIRST + self.sent, TURN)
                    send_batches(client, "Killed", queue, bodies)
                self.sent += TURN

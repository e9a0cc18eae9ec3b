"""A stream that is killed with -9 again and again, and the slave it reads from once: every message lands exactly
once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')
pytest.importorskip("deltalake")

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from tests.pipeline.remote.clustermessages import bodies_of, fill, send_batches, wait_for_slave
from tests.support.brokergroup import OURS, BrokerGroup
from tests.support.processes import REPOSITORY, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.system, pytest.mark.timeout(400)]

PROGRAM = Path(__file__).with_name("streamprogram.py")
QUEUES = 2
FIRST, MORE = 2000, 1500


def landed(folder: Path) -> list[tuple[int, int, bytes]]:
    try:
        table = DeltaTable(str(folder / "table")).to_pyarrow_table()
    except TableNotFoundError:
        return []
    return sorted(
        zip(*(table[name].to_pylist() for name in ("queue_id", "queue_offset", "body")), strict=True)
    )


def start(group: BrokerGroup, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(PROGRAM), f"127.0.0.1:{group.namesrv_port}", "Killed", str(folder)]
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


def test_restarts_after_kill_lose_and_repeat_nothing(tmp_path: Path) -> None:
    dice = random.Random(5)
    with BrokerGroup(tmp_path, namesrv_kind=OURS) as group:
        group.start()
        fill(group, "Killed", FIRST, queues=QUEUES)
        wait_for_slave(group, "Killed")
        sender = threading.Thread(target=keep_sending, args=(group,))
        sender.start()
        for attempt in range(3):
            program = start(group, tmp_path)
            try:
                wait_for_more_rows(program, tmp_path)
                if attempt == 1:
                    group.slave.kill()
                time.sleep(dice.uniform(0.0, 1.0))
            finally:
                kill(program)
        sender.join()
        expected = (FIRST + MORE) * QUEUES
        program = start(group, tmp_path)
        try:
            wait_until(lambda: len(landed(tmp_path)) >= expected, 120, "all rows have landed")
        finally:
            kill(program)
    wanted = []
    for queue in range(QUEUES):
        bodies = bodies_of(queue * 1_000_000, FIRST) + bodies_of(queue * 1_000_000 + FIRST, MORE)
        wanted += [(queue, offset, body) for offset, body in enumerate(bodies)]
    assert landed(tmp_path) == wanted


def wait_for_more_rows(program: subprocess.Popen[bytes], folder: Path) -> None:
    before = len(landed(folder))
    wait_until(lambda: program.poll() is not None or len(landed(folder)) > before, 90, "rows land")
    assert program.poll() is None, (folder / "program.out").read_text()[-3000:]


def keep_sending(group: BrokerGroup) -> None:
    with group.master_client() as client:
        for at in range(0, MORE, 50):
            for queue in range(QUEUES):
                try:
                    send_batches(client, "Killed", queue, bodies_of(queue * 1_000_000 + FIRST + at, 50))
                except Exception as failure:
                    # 11 and 12: stored, and the slave is away.
                    if "answered 11" not in str(failure) and "answered 12" not in str(failure):
                        raise
            time.sleep(0.1)

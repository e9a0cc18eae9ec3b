"""Power that fails under running brokers, on real file systems: what was promised to be durable is there."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from testbed.processes import wait_until
from tests.support.powerseries import MASTER, SLAVE, PowerSeries
from tests.support.recordeddisks import RecordedDisks, begin_writeback, missing
from tests.support.soak import times

LIVES = 3 if times(1) == 1 else 20
SECONDS = 120.0


@pytest.fixture(scope="module", autouse=True)
def _recorder(tmp_path_factory: pytest.TempPathFactory) -> None:
    reason = missing(tmp_path_factory.mktemp("try"))
    if reason is not None:
        pytest.skip(f"the power of a disk can't be made to fail here: {reason}")


def test_a_disk_keeps_what_is_synced_and_forgets_the_rest(tmp_path: Path) -> None:
    """The disk that the next test relies on."""
    disks, chance = RecordedDisks(tmp_path, 1), random.Random(1)
    (disk,) = disks.paths
    with disks:
        file = os.open(disk / "file", os.O_RDWR | os.O_CREAT)
        os.write(file, b"synced")
        os.fsync(file)
        synced = disks.position()
        os.write(file, b", not synced")
        begin_writeback(disk)
        wait_until(lambda: disks.position() > synced, SECONDS, "it's written back")
        (disk / "later").write_bytes(b"of no name yet")
        at_end = disks.position()
        os.close(file)
    disks.fail(at_end, [0], chance)
    with disks:
        assert sorted(os.listdir(disk)) == ["file", "lost+found"]
        assert (disk / "file").read_bytes() == b"synced"


@pytest.mark.parametrize("seed", range(1, 1 + times(1)))
def test_what_is_durable_outlives_power_failures(seed: int, tmp_path: Path) -> None:
    series = PowerSeries(tmp_path, seed)
    for _ in range(LIVES):
        series.life()
    series.end()
    durable = [name for sent in series.promises.sent.values() for name in sent.durable_on]
    assert durable.count(MASTER) > 10 * LIVES, series.story
    assert not series.terms.durable_acks or durable.count(SLAVE) > 10 * LIVES, series.story

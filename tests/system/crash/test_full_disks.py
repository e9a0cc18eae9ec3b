"""Disks that fill up under running brokers: what was promised stays, what was refused doesn't come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fulldiskseries import FullDiskSeries, missing
from tests.support.soak import times

ROUNDS = 2 if times(1) == 1 else 10


@pytest.mark.parametrize("seed", range(1, 1 + times(1)))
def test_what_was_promised_outlives_full_disks(seed: int, tmp_path: Path) -> None:
    reason = missing(tmp_path)
    if reason is not None:
        pytest.skip(f"small disks can't be made here: {reason}")
    with FullDiskSeries(tmp_path, seed) as series:
        for number in range(5 * ROUNDS):
            # A busy machine may not have come to a put while there was no room.
            if number >= ROUNDS and series.codes.keys() - {0}:
                break
            series.round()
        assert series.codes.keys() - {0}, "no disk was ever full"

"""A wire between two hosts that delays, loses, doubles and reorders packets under the kernel's TCP."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.linkseries import LinkSeries
from tests.support.packetlink import missing
from tests.support.soak import times

ROUNDS = 3 if times(1) == 1 else 16


@pytest.mark.parametrize("seed", range(1, 1 + times(1)))
def test_what_was_promised_outlives_bad_links(seed: int, tmp_path: Path) -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(f"two hosts can't be made here: {reason}")
    with LinkSeries(tmp_path, seed) as series:
        for _ in range(ROUNDS):
            series.round()
        assert series.link.dropped, "every packet has arrived"

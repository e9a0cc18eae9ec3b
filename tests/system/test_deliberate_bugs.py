"""Each deliberate bug of the simulation is caught: the promises can be broken, and it's noticed."""

from __future__ import annotations

import pytest

from hatwisted.sim.bughunt import catch
from hatwisted.sim.deliberatebugs import BUGS
from tests.support.soak import times

QUICK = {
    "ack-ahead",
    "descriptors-final",
    "disk-alone",
    "join-at-end",
    "links-counted",
    "retention-by-clock",
}
"""Those of `make test`: a few seeds are enough. The unit layer has some more."""

NEAR, FAR = 30, 400
"""Seeds that are tried, without and with patience."""


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_it_is_caught(bug: str) -> None:
    patient = times(1) > 1
    if bug not in QUICK and not patient:
        pytest.skip("takes many seeds: `make soak` hunts it")
    assert catch(bug, 0, FAR if patient else NEAR) is not None, f"{bug}: {BUGS[bug].what}"

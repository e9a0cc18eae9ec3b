"""kill -9 and SIGSTOP of real processes under load: nothing acknowledged is lost, and nothing else comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from hatwisted.sim.history import Place, Sent
from tests.support.crashseries import MASTER, SLAVE, SOME, CrashSeries
from tests.support.soak import times

SERIES, ROUNDS = (1, 6) if times(1) == 1 else (times(2), 50)
"""Of rounds, and of one. In the soak a thousand altogether, on stores that have been struck many times before."""


@pytest.mark.parametrize("seed", range(1, 1 + SERIES))
def test_what_was_promised_outlives_kills(seed: int, tmp_path: Path) -> None:
    with CrashSeries(tmp_path, seed) as series:
        for _ in range(ROUNDS):
            series.round()
        kept = [
            len([sent for sent in series.promises.sent.values() if name in sent.on])
            for name in (MASTER, SLAVE)
        ]
        assert min(kept) > ROUNDS * SOME, "hardly anything was promised"
        notices_what_is_missing(series)
    assert len(series.struck) == min(ROUNDS, len(series.strikes)), series.struck


def notices_what_is_missing(series: CrashSeries) -> None:
    """Of each store it is seen that it lacks what nobody sent, and what is said to stand in another's place."""
    known = next(sent for sent in series.promises.sent.values() if {MASTER, SLAVE} <= sent.on)
    assert known.place is not None
    beyond = Place(known.topic, known.queue_id, 1 << 30, 1 << 40)
    never = Sent(number=-1, topic=known.topic, queue_id=known.queue_id, body=b"never sent", sent_at=0.0)
    series.promises.send(replace(never, code=0, place=beyond, on={MASTER, SLAVE}))
    series.promises.send(replace(never, number=-2, code=0, place=known.place, on={MASTER, SLAVE}))
    found = [str(violation) for violation in series.violations()]
    for name in (MASTER, SLAVE):
        told = [each.partition(":")[0] for each in found if name in each]
        assert sorted(told) == ["readable", "readable", "stored", "stored"], found

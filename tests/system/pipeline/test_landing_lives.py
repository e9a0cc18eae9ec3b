"""Landings of two brokers that are ended at any step, again and again: the table is always what the logs say.

Some land as the engine `local` does, and some by tasks, as Spark does, which run in the same process here or in
workers of their own. The logs are read by a decoder that shares no line with the one that lands, and Delta's log
by another reader than the one that writes it. Lives are killed at a step or by the clock, or stopped there until
another landing has taken over or has landed the other broker, and so are workers at a step of theirs. Somebody
deletes last rows meanwhile: commits alone say then where they ended. `make soak` draws hundreds, and plants
faults, each of which this has to notice.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from hatwisted.pipeline.iceberg.catalogs import is_iceberg
from tests.support import landingfaults, letterfaults
from tests.support.deck import Deck
from tests.support.growing import GrowingStore
from tests.support.icebergcatalog import iceberg_at_s3, iceberg_catalog
from tests.support.icebergrest import JARS, rest_catalog
from tests.support.landedtables import DELTA, ICEBERG, KINDS, LandedTable
from tests.support.landinglives import LOCAL, TASKS, WORKERS, Life, Lives, lives
from tests.support.lifesteps import DealtEnds
from tests.support.s3server import s3_server
from tests.support.soak import in_soak, times
from tests.support.workerlives import WORKER

pytestmark = pytest.mark.timeout(3_600)
KILLS = 3 if times(1) == 1 else times(15)
"""By format, of tables in a folder."""
KILLS_ELSEWHERE = times(1)
"""The same of those that are elsewhere: each life takes some hundred requests, and so does each look at them."""
SO_MANY = "HATWISTED_KILLS"
"""Variable that says how many instead, of either, for who has minutes and not an hour."""
SEED = "HATWISTED_SEED"
"""Variable that says what is drawn; without it that is drawn as well, and printed."""
BROKERS = ("broker-a", "broker-b")
APPENDED = 260
"""Records of a broker that a life finds, in a few batches."""
WAYS = (LOCAL, TASKS, WORKERS)
UNDISTURBED = 4
"""Lives after which each way has been taken where another landing was before."""
STEP, CLOCK, BESIDE, OVERTAKEN = "step", "clock", "beside", "overtaken"
ENDS = 4 * (STEP,) + 2 * (CLOCK,) + 3 * (BESIDE,) + 3 * (OVERTAKEN,)
"""What disturbs a life: it's killed, or stopped while there's another one. Of so many each comes so often."""
DELETING = 0.2
"""Share of lives after which a user deletes a broker's last rows."""
LONGEST_LIFE = 2.0
"""Seconds within which the clock kills."""
MOST_LIVES = 400
"""Within which a planted fault has to be noticed; the rarest took 24, as ends are dealt now."""
AT_ONCE = {(DELTA, "half-appended"), (ICEBERG, "appended-twice")}
"""Faults that need no kill: `make test` tries these."""
TYPED = "orders"
"""A topic."""


class Lake:
    """Two stores, and a table, into which they are landed."""

    def __init__(self, landed: LandedTable, landings: Lives, chance: random.Random) -> None:
        folder, brokers = landed.folder, enumerate(landed.brokers)
        self.stores = [GrowingStore(folder / broker, seed=number) for number, broker in brokers]
        self._landed = landed
        self._lives = landings
        self._chance = chance
        self._steps: dict[str, dict[str, int]] = {each: {} for each in WAYS}
        self._ways, self._ends = Deck(WAYS, chance), Deck(ENDS, chance)
        self._dealt = {end: DealtEnds(chance) for end in ENDS}
        self._undisturbed = 0
        self._rivals = 0

    def grow(self) -> None:
        for store in self.stores:
            store.append(APPENDED)

    def live(self, fault: str | None = None) -> Life:
        """One life: the first ones to their ends, by which steps are known, then ended in one of three ways, or
        beside one of the other broker's. In a dozen of them each way of that comes up, and in five that are ended
        alike each moment of a landing. Whoever has the table may delete its last rows afterwards."""
        self.grow()
        if self._undisturbed < UNDISTURBED:
            self._undisturbed += 1
            by = WAYS[self._undisturbed % len(WAYS)]
            life = self._lives.live(fault, by=by)
            self._steps[by] |= life.steps
            return life
        life = self._disturbed(fault)
        if self._chance.random() < DELETING:
            self._delete(self._chance.choice(BROKERS))
        return life

    def _delete(self, broker: str) -> None:
        self._landed.delete_last(broker, self._chance.randint(1, APPENDED))

    def _disturbed(self, fault: str | None) -> Life:
        by, end = self._ways.deal(), self._ends.deal()
        if end == STEP:
            return self._lives.live(fault, by=by, end=self._dealt[STEP].deal(self._steps[by]))
        if end == CLOCK:
            return self._lives.live(fault, by=by, after=self._chance.uniform(0, LONGEST_LIFE))
        if end == BESIDE:
            return self._beside(fault, by)
        return self._overtaken(fault, by)

    def _overtaken(self, fault: str | None, by: str) -> Life:
        """Another landing takes over from it."""
        life = self._stopped(fault, by, OVERTAKEN, self.stores)
        if life.became != "stopped":
            return life
        self._rivals += 1
        # The stopped one has the lock of the usual folder.
        place = None
        if self._landed.home is None and not is_iceberg(self._landed.name):
            place = str(self._landed.folder / f"rival-{self._rivals}")
        rival = self._lives.live(fault, by=self._ways.deal(), checkpoint=place)
        stopped = self._lives.go_on(life)
        if stopped.became == "refused" and "took over" in stopped.said:
            return rival
        return stopped if rival.became == "ended" else rival

    def _beside(self, fault: str | None, by: str) -> Life:
        """One broker is landed while a landing of the other one is stopped; neither ends the other."""
        self.grow()  # so that one of them takes as many batches as both do otherwise
        one, other = self._chance.sample(self.stores, 2)
        life = self._stopped(fault, by, BESIDE, [one])
        if life.became != "stopped":
            return life
        beside = self._lives.live(fault, by=self._ways.deal(), stores=[str(other.root)])
        stopped = self._lives.go_on(life)
        if self._chance.random() < 0.5:  # so that what both commits say of its end is all that tells it
            self._delete(other.root.name)
        return stopped if beside.became == "ended" else beside

    def _stopped(self, fault: str | None, by: str, why: str, stores: Sequence[GrowingStore]) -> Life:
        """A life of these stores. why: BESIDE or OVERTAKEN."""
        # A worker that stops keeps its landing waiting, and no other is to go on meanwhile.
        steps = {step: number for step, number in self._steps[by].items() if f": {WORKER}" not in step}
        end = self._dealt[why].deal(steps, signal.SIGSTOP)
        return self._lives.live(fault, by=by, end=end, stores=[str(store.root) for store in stores])

    def last(self, fault: str | None = None) -> Life:
        return self._lives.live(fault)

    def trouble(self, whole: bool) -> str | None:
        """See LandedTable."""
        return self._landed.trouble(whole)


Where = Iterator[tuple[str | None, dict[str, str]]]
"""Address of a table's files, None in the folder; and the environment in which it's found."""


@contextmanager
def here(folder: Path) -> Where:
    with iceberg_catalog(folder) as environment:
        yield None, environment


@contextmanager
def by_rest(folder: Path) -> Where:
    if (reason := JARS.missing()) is not None:
        pytest.skip(reason)
    with rest_catalog(folder) as environment:
        yield None, environment


@contextmanager
def at_s3(folder: Path) -> Where:
    with s3_server("lake") as server, patch.dict(os.environ, server):
        home = "s3://lake/warehouse"
        with iceberg_catalog(folder, iceberg_at_s3(home, server)) as environment:
            yield home, server | environment


ELSEWHERE = {
    "delta-at-s3": (DELTA, at_s3),
    "iceberg-at-s3": (ICEBERG, at_s3),
    "iceberg-by-rest": (ICEBERG, by_rest),
}


@contextmanager
def a_lake(form: str, folder: Path, seed: int, typed: str | None = None) -> Iterator[Lake]:
    """One with nothing in it yet.

    - form: of KINDS, or of ELSEWHERE
    - folder: for all that isn't elsewhere
    - seed: of what's drawn
    - typed: a topic with a schema that none of its bodies fits
    """
    folder.mkdir()
    (folder / "schema.json").write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    schemas = [] if typed is None else [f"{typed}=json:{folder / 'schema.json'}"]
    stores = [str(folder / broker) for broker in BROKERS]
    kind, where = ELSEWHERE.get(form, (form, here))
    with where(folder) as (home, environment):
        landed = KINDS[kind](folder, BROKERS, typed, home, outlived=False)
        with lives(stores, landed.name, folder, environment, schemas) as landings:
            yield Lake(landed, landings, random.Random(seed))


def a_seed() -> int:
    """See SEED."""
    seed = int(os.environ.get(SEED, random.randrange(1 << 32)))
    print("seed", seed)
    return seed


@pytest.mark.parametrize("typed", [TYPED, in_soak(None, why="all of it is done with dead letters, too")])
@pytest.mark.parametrize(
    "form",
    [
        DELTA,
        in_soak(ICEBERG, why="it takes a minute, and Delta's are tried"),
        *(in_soak(form, why="it takes minutes, and a table in a folder is tried") for form in ELSEWHERE),
    ],
)
def test_the_table_is_what_the_logs_say_wherever_landings_end(
    form: str, typed: str | None, tmp_path: Path
) -> None:
    """So are the dead letters beside, if a topic has a schema."""
    lived = landings = workers = 0
    kills = int(os.environ.get(SO_MANY, KILLS_ELSEWHERE if form in ELSEWHERE else KILLS))
    with a_lake(form, tmp_path / "lake", a_seed(), typed) as lake:
        while landings + workers < kills:
            life, lived = lake.live(), lived + 1
            assert life.became in ("ended", "killed"), str(life)
            assert lake.trouble(whole=False) is None
            landings += life.became == "killed"
            workers += life.workers
        last = lake.last()
        assert last.became == "ended", str(last)
        assert lake.trouble(whole=True) is None
    print(
        f"{form}: {landings} landings and {workers} workers killed in {lived} lives, and the table is the log"
    )


FAULTS = [
    *((DELTA, name) for name in sorted(landingfaults.BOTH | landingfaults.DELTA)),
    *((ICEBERG, name) for name in sorted(landingfaults.BOTH | landingfaults.ICEBERG)),
]


def told(life: Life) -> str | None:
    """Why it ended otherwise than it should; not that the planted code itself has failed."""
    assert life.became in ("ended", "killed", "stopped", "refused", "failed"), str(life)
    assert life.became != "failed" or life.said, f"the fault can't be planted: {life}"
    own = any(code.__file__ in life.said for code in (landingfaults, letterfaults))
    return life.said if life.became == "refused" or (life.became == "failed" and not own) else None


@pytest.mark.parametrize("form, fault", FAULTS)
def test_a_planted_fault_is_noticed(form: str, fault: str, tmp_path: Path) -> None:
    if times(1) == 1 and (form, fault) not in AT_ONCE:
        pytest.skip("takes many lives: `make soak` tries it")
    typed = TYPED if fault.startswith(letterfaults.LETTERS) else None
    with a_lake(form, tmp_path / "lake", a_seed(), typed) as lake:
        for number in range(MOST_LIVES):
            noticed = told(lake.live(fault)) or lake.trouble(whole=False)
            if noticed is None and number % 2:
                last = lake.last(fault)
                noticed = told(last) or lake.trouble(whole=last.became == "ended")
            if noticed is not None:
                print(f"{form} {fault}: {number + 1} lives: {noticed.splitlines()[-1][:200]}")
                return
    raise AssertionError(f"{form}: {fault} went unnoticed in {MOST_LIVES} lives")

"""How many seeds it takes until a deliberate bug is caught: the proof that the promises can be broken."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median

import msgspec

from hatwisted.sim.deliberatebugs import BUGS, planted
from hatwisted.sim.setup import FAULT_KINDS, Setup, draw_setup
from hatwisted.sim.soak import prepare_worker, run_one

APART = 10_000
"""Seeds between two starts."""


class Catch(msgspec.Struct, frozen=True):
    """A deliberate bug was caught. seeds: that it took; seed: the last of them; violation: the first one
    found.
    """

    seeds: int
    seed: int
    violation: str


def catch(bug: str, first: int, limit: int) -> Catch | None:
    """Run seeds with a deliberate bug until a promise is broken that holds without it. A store that refuses
    to start as damaged, and doesn't without the bug, counts as a broken promise, too: `opens`.

    - bug: its name
    - first: the first seed
    - limit: most seeds to try, of those that fit the bug; None is returned if none of them catches it
    """
    hunted = BUGS[bug]
    drawn = (draw_setup(seed, hunted.kinds or FAULT_KINDS) for seed in itertools.count(first))
    fitting = (msgspec.structs.replace(setup, **hunted.conf) for setup in drawn if hunted.needs(setup))
    for number, setup in enumerate(itertools.islice(fitting, limit), 1):
        with planted(bug):
            found = _broken(setup)
        if found and not _broken(setup):
            return Catch(number, setup.seed, found[0])
    return None


def _broken(setup: Setup) -> list[str]:
    outcome = run_one(setup)
    return outcome.violations or [f"opens: {refusal}" for refusal in outcome.refusals]


class Hunt(msgspec.Struct, frozen=True):
    """Of one bug, from several starts."""

    bug: str
    catches: tuple[Catch | None, ...]
    limit: int

    def row(self) -> str:
        """Of a Markdown table: the bug, the faults that it's tried with, seeds until caught, and as what."""
        hunted = BUGS[self.bug]
        took = [self.limit + 1 if each is None else each.seeds for each in self.catches]
        seeds = f"{median(took):g}" if median(took) <= self.limit else f"more than {self.limit}"
        promises = dict.fromkeys(
            each.violation.partition(":")[0] for each in self.catches if each is not None
        )
        kinds = ", ".join(hunted.kinds) or "all"
        named = ", ".join(f"`{promise}`" for promise in promises) or "not caught"
        return f"| `{self.bug}` | {hunted.what} | {kinds} | {seeds} ({min(took)} to {max(took)}) | {named} |"


HEAD = """| bug | what | faults | seeds, median (range) | broken promise |
|---|---|---|---|---|"""


def hunts(bugs: Sequence[str], first: int, limit: int, starts: int, workers: int) -> Iterator[Hunt]:
    """One after the other, as they end.

    - bugs: by name
    - first: seed of the first start
    - limit: seeds for each bug and start
    - starts: hunts for each bug, `APART` from each other
    - workers: processes; 0: this one
    """
    firsts = [first + number * APART for number in range(starts)]
    if not workers:
        for bug in bugs:
            yield Hunt(bug, tuple(catch(bug, start, limit) for start in firsts), limit)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=prepare_worker) as pool:
        caught = {bug: [pool.submit(catch, bug, start, limit) for start in firsts] for bug in bugs}
        for bug in bugs:
            yield Hunt(bug, tuple(future.result() for future in caught[bug]), limit)

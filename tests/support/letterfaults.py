"""Faults of dead letters, as landingfaults.py has them of tables: each takes away one precaution.

Landings that they are planted in have a topic with a schema.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hatwisted.pipeline.delta import commits, deadletters, landedfiles
from hatwisted.pipeline.iceberg import deadletters as icebergletters
from hatwisted.pipeline.iceberg import landedfiles as icebergfiles
from hatwisted.pipeline.iceberg import snapshots
from hatwisted.pipeline.jobs.land import landing
from tests.support.landingfaults import DELTA, ICEBERG, between, of

LETTERS = "letters-"
"""What the faults' names begin with."""


@of(DELTA)
def letters_first() -> None:
    """Dead letters are committed before the batch that they are of."""
    commit = landedfiles.commit_files

    def before(path: str, written: Any, *, application: str, number: int, **more: Any) -> bool:
        beside = deadletters.dead_letter_table(path)
        if written.dead:
            commit(beside, written.dead, application=application, number=number, held=None)
            between()
        queues = commits.Brought(more.pop("queues", None) or {})
        return commit(path, written.files, application=application, number=number, brought=queues, **more)

    landedfiles.commit_landed = before


@of(DELTA)
def letters_forgotten() -> None:
    """Nobody makes up for what a killed run hasn't come to commit."""
    landing.settle = lambda path: commits.open_table(path).version()
    _between_both()


@of(DELTA)
def letters_again() -> None:
    """They are made up for, whether they are there or not."""
    commit = deadletters.commit_files

    def anew(path: str, files: Any, *, application: str, number: int, held: Any) -> bool:
        return commit(path, files, application=f"{application} again", number=number, held=held)

    deadletters.commit_files = anew


@of(DELTA)
def letters_unpromised() -> None:
    """A batch's commit doesn't name the files of its dead letters."""
    landedfiles.dead_letter_note = lambda files, counts: {}
    _between_both()


def _between_both() -> None:
    """The tables' commits have `between` between them."""
    commit = landedfiles.commit_files

    def parted(path: str, files: Any, *, held: Any, **more: Any) -> bool:
        if held is None:  # the second one, of dead letters, which takes no claim
            between()
        return commit(path, files, held=held, **more)

    landedfiles.commit_files = parted


@of(ICEBERG)
def letters_first_() -> None:
    """Dead letters are committed before the batch that they are of."""
    make = icebergfiles.LandedBatch.__init__

    def before(self: Any, *given: Any) -> None:
        make(self, *given)
        self.keep()
        if self.written.dead:
            between()
        self.keep = lambda: None

    icebergfiles.LandedBatch.__init__ = before  # type: ignore[method-assign]


@of(ICEBERG)
def letters_forgotten_() -> None:
    """Nobody makes up for what a killed run hasn't come to commit."""
    icebergletters.settle = lambda table, name: None
    _between_both_of_iceberg()


@of(ICEBERG)
def letters_again_() -> None:
    """They are made up for, whether they are there or not; their list stays."""

    def anew(beside: Any, name: str, promised: Any) -> None:
        beside.refresh()
        snapshots._commit(
            snapshots.OnceTransaction(beside), icebergletters._listed(beside, promised) or [], {}
        )

    icebergletters.keep = icebergfiles.keep = anew


@of(ICEBERG)
def letters_unpromised_() -> None:
    """A batch's snapshot doesn't name the list of its dead letters."""
    icebergletters.Promise.note = {}  # type: ignore[assignment]
    _between_both_of_iceberg()


def _between_both_of_iceberg() -> None:
    """As _between_both."""
    keep = icebergfiles.keep

    def parted(*given: Any) -> None:
        between()
        keep(*given)

    icebergfiles.keep = parted  # type: ignore[assignment]


@of(ICEBERG)
def letters_list_first_() -> None:
    """The list goes before its files are in the table beside."""
    listed = icebergletters._listed

    def removed(beside: Any, promised: Any) -> Any:
        found = listed(beside, promised)
        with suppress(FileNotFoundError):
            beside.io.delete(promised.list)
        if found is not None:
            between()
        return found

    icebergletters._listed = removed

"""A slave joins its master's table of consumers' progress with its own: at once, or, of a large one, in steps.

Strangers can commit until the table has 300,000 rows. Joined in one go these would keep a slave from its
acknowledgements for a second with every round, and its master's producers from their answers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Final

from hatwisted.broker.consumer.consumeroffset import CHECK_GROUP, SEPARATOR, ConsumerOffsetTable
from hatwisted.broker.consumer.progressbody import Offsets, Progress

ROWS_PER_STEP: Final = 1_000
"""Topics of groups, about 2 ms."""


def joined(
    offsets: ConsumerOffsetTable, theirs: Progress, may_send: Callable[[], bool]
) -> Generator[None, None, Progress | None]:
    """Have `offsets` follow `theirs`; gives what the master would learn from ours, None if it isn't to.

    - offsets: the slave's table
    - theirs: its master's
    - may_send: are our messages the master's? Asked once they are joined
    """
    if len(theirs.offset_table) + len(theirs.reset_table) <= ROWS_PER_STEP:
        offsets.follow(theirs)
    else:
        yield from _followed(offsets, theirs)
    if not may_send():
        return None
    ours = offsets.progress()
    if len(ours.offset_table) + len(ours.reset_table) <= ROWS_PER_STEP:
        return offsets.ahead_of(theirs)
    ahead = Progress(offset_table={})
    for rows in _some(
        (*ours.offset_table, *(key for key in ours.reset_table if key not in ours.offset_table))
    ):
        part = offsets.ahead_of(theirs, rows)
        ahead.offset_table |= part.offset_table
        ahead.reset_table |= part.reset_table
        yield
    return ahead


def _followed(offsets: ConsumerOffsetTable, theirs: Progress) -> Generator[None, None, None]:
    """As `ConsumerOffsetTable.follow`: each row for itself, then those that the master alone counts."""
    only_reset = (key for key in theirs.reset_table if key not in theirs.offset_table)
    for rows in _some((*theirs.offset_table, *only_reset)):
        offsets.join(
            Progress(offset_table=_of(rows, theirs.offset_table), reset_table=_of(rows, theirs.reset_table))
        )
        yield
    counted = _counted(theirs.offset_table)
    yield
    if counted != _counted(offsets.progress().offset_table):
        offsets.follow(Progress(offset_table=counted))
    yield


def _of(rows: Iterable[str], table: Offsets) -> Offsets:
    return {key: table[key] for key in rows if key in table}


def _counted(table: Offsets) -> Offsets:
    end = SEPARATOR + CHECK_GROUP
    found = {key: table[key] for key in table if key.endswith(end)}
    return {key: row for key, row in found.items() if key.partition(SEPARATOR)[2] == CHECK_GROUP}


def _some(keys: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return (keys[at : at + ROWS_PER_STEP] for at in range(0, len(keys), ROWS_PER_STEP))

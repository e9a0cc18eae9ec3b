"""Looking through consumers' progress in steps: everybody can commit for groups that nobody has heard of, until
the table has some 300,000 rows, and who asks about one of them mustn't keep the others waiting."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeVar

from hatwisted.broker.consumer.consumeroffset import SEPARATOR, ConsumerOffsetTable

ROWS_PER_STEP: Final = 10_000
"""About a millisecond."""

R = TypeVar("R")
Steps = Generator[None, None, R]


def topics_of(offsets: ConsumerOffsetTable, group: str) -> Steps[list[str]]:
    """Topics that the group has committed an offset of."""
    found, end = [], SEPARATOR + group
    for number, rows in enumerate(_rows(offsets)):
        if number:
            yield
        for key in [key for key in rows if key.endswith(end)]:
            topic, _, name = key.partition(SEPARATOR)
            if name == group:
                found.append(topic)
    return found


def groups_of(offsets: ConsumerOffsetTable, topic: str) -> Steps[list[str]]:
    """Groups that have committed an offset of the topic."""
    found, begin = [], topic + SEPARATOR
    for number, rows in enumerate(_rows(offsets)):
        if number:
            yield
        found += [key.removeprefix(begin) for key in rows if key.startswith(begin)]
    return found


def topics_by_group(offsets: ConsumerOffsetTable) -> Steps[dict[str, list[str]]]:
    """Topics that each group has committed an offset of."""
    found: dict[str, list[str]] = {}
    for number, rows in enumerate(_rows(offsets)):
        if number:
            yield
        for key in rows:
            topic, _, group = key.partition(SEPARATOR)
            found.setdefault(group, []).append(topic)
    return found


def at_once(steps: Steps[R]) -> R:
    """What they give, for administrators alone: all of them in one go."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result


def _rows(offsets: ConsumerOffsetTable) -> list[list[str]]:
    """The table's keys, some for each step."""
    keys = list(offsets.progress().offset_table)
    return [keys[at : at + ROWS_PER_STEP] for at in range(0, len(keys), ROWS_PER_STEP)]

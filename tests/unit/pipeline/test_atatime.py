"""What the pipeline does side by side, tries again, notes and says has a limit each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from unittest import TestCase
from unittest.mock import patch

from hatwisted.pipeline.delta import queuetails
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.queuetails import NOTED_QUEUES, QueueTail, queue_note
from hatwisted.pipeline.iceberg import orphans, snapshots
from hatwisted.pipeline.iceberg.orphans import AT_A_TIME
from hatwisted.pipeline.iceberg.snapshots import ATTEMPTS
from hatwisted.pipeline.jobs.audit.tablefiles import FOOTERS, in_parallel
from hatwisted.pipeline.schemas import topicschemas
from hatwisted.pipeline.schemas.topicschemas import parse_schema
from hatwisted.pipeline.schemas.typedcolumns import DETAIL_CHARACTERS, Misfits
from hatwisted.pipeline.schemas.values import BadSchema, Misfit
from hatwisted.wire.messagequeue import MessageQueue


def side_by_side(run: Callable[[list[int], Callable[[int], Any]], object], most: int) -> int:
    """How many of 3 * most items were under way at once, each of which waits until `most` are."""
    guard, there, most_met, under_way = threading.Lock(), threading.Barrier(most), 0, 0

    def one(_: int) -> int:
        nonlocal under_way, most_met
        with guard:
            under_way += 1
            most_met = max(most_met, under_way)
        there.wait(60)
        with guard:
            under_way -= 1
        return 0

    run(list(range(3 * most)), one)
    return most_met


class AtATimeTests(TestCase):
    def test_files_of_an_iceberg_table(self) -> None:
        self.assertEqual(side_by_side(lambda items, do: orphans._each(items, do), AT_A_TIME), AT_A_TIME)

    def test_footers_of_a_table_that_is_audited(self) -> None:
        met = side_by_side(lambda items, do: list(in_parallel(cast(Any, do), items)), FOOTERS)
        self.assertEqual(met, FOOTERS)


class TriesTests(TestCase):
    def test_a_claim_against_others_who_always_win(self) -> None:
        tries = []

        def lose(*_: object) -> None:
            tries.append(1)
            raise snapshots._Lost

        table: Any = SimpleNamespace(
            refresh=lambda: None, properties={}, metadata=SimpleNamespace(snapshots=[])
        )
        change = SimpleNamespace(set_properties=lambda _: None)
        with (
            patch.object(snapshots, "OnceTransaction", lambda _: change),
            patch.object(snapshots, "_commit", lose),
            patch.object(snapshots, "noted", lambda _: {}),
            self.assertRaisesRegex(WrongTable, f"no claim after {ATTEMPTS} attempts"),
        ):
            snapshots.claim(table, "t", ["broker-a"])
        self.assertEqual(len(tries), ATTEMPTS)


class NoteTests(TestCase):
    def test_a_commit_tells_the_ends_of_so_many_queues_and_beyond_that_of_none(self) -> None:
        self.assertGreater(NOTED_QUEUES, 1000)
        with patch.object(queuetails, "NOTED_QUEUES", 2):
            for queues, told in ((2, 2), (3, 0)):
                moved = {
                    MessageQueue(topic="T", broker_name="broker-a", queue_id=number): QueueTail(1, 2, 3)
                    for number in range(queues)
                }
                tree = queue_note(({}, frozenset()), moved).get("queues", {})
                self.assertEqual(len(tree["T"]["broker-a"]) if tree else 0, told)

    def test_of_a_body_that_doesnt_fit_so_much_is_said(self) -> None:
        misfits = Misfits()
        misfits.add(0, Misfit("type", "x" * (2 * DETAIL_CHARACTERS)), "s")
        self.assertEqual(len(misfits.details[0]), DETAIL_CHARACTERS)

    def test_a_file_that_is_too_large_is_no_schema(self) -> None:
        with (
            patch.object(topicschemas, "MAX_BYTES", 100),
            self.assertRaisesRegex(BadSchema, "hardly a schema"),
        ):
            parse_schema(f"O=json:{__file__}")

"""Dead letters looked at, and landed once their schema is mended."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import count
from typing import Any
from unittest.mock import patch

from click.testing import CliRunner
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from hatwisted.cli.main import main
from hatwisted.pipeline.delta import compaction
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.jobs.audit.auditing import audit
from hatwisted.pipeline.jobs.land import deadletterjob, deltaletters
from hatwisted.pipeline.jobs.land.deadletterjob import BATCH_ROWS, DeadLetterResult, dead_letters
from hatwisted.pipeline.jobs.land.deltaletters import DeltaLetters
from hatwisted.pipeline.jobs.latest.latesttable import latest
from hatwisted.pipeline.jobs.workertasks import InlineTasks
from tests.support.schemacase import BAD, GOOD, SchemaCase

MENDED = {
    "type": "object",
    "properties": {"id": {"type": ["integer", "null"]}, "customer": {"type": "string"}},
}
LATER = b'{"id": null, "customer": "x"}'


class DeadLetterTests(SchemaCase):
    kind: Any = DeltaLetters
    """Of the tables."""

    def look(self, schema: Any = None) -> DeadLetterResult:
        return dead_letters(self.table, self.schema(schema) if schema else ())

    def test_what_there_is_by_topic_and_reason(self) -> None:
        self.append(*GOOD, *BAD)
        self.land()
        found = self.look()
        self.assertEqual(found.left, {"Orders": {"malformed": 2, "missing": 1, "type": 1}})
        letter = found.letters[2]
        place = (letter.broker, letter.queue_id, letter.queue_offset, letter.physical_offset)
        self.assertEqual(place, ("broker-a", 0, 4, self.log.offsets[4]))
        self.assertEqual(letter.detail, "Object missing required field `id`")

    def test_few_of_many_are_told(self) -> None:
        self.append(*[b"?"] * 50)
        self.land()
        found = self.look()
        self.assertEqual((found.left["Orders"]["malformed"], len(found.letters)), (50, deadletterjob.SHOWN))

    def test_those_that_fit_a_mended_schema_land_and_the_others_stay(self) -> None:
        self.append(*GOOD, *BAD, LATER, *BAD, topic="Orders")
        self.append(LATER, topic="Others")
        self.land()
        found = self.look(MENDED)
        self.assertEqual((found.landed, found.left), (3, {"Orders": {"malformed": 4, "type": 2}}))
        values = self.values()
        self.assertEqual([value and value["customer"] for value in values[4:7]], ["x", None, "x"])
        self.assertEqual(values[0]["lines"], [{"item": "tea"}])
        self.assertEqual(len(values), len(self.log.offsets))
        self.assertEqual(sorted(set(self.dead("body"))), [b"", b"?", b'{"id": "1"}'])
        self.assertTrue(audit(InlineTasks(), [str(self.store)], [self.table]).identical)
        self.assertEqual(self.look(MENDED).landed, 0)
        # Landing goes on after the log's last row, wherever that is now.
        self.append(*GOOD)
        self.assertEqual(self.land(MENDED).rows, 2)

    def test_so_many_are_decoded_again_at_a_time(self) -> None:
        self.append(*BAD, *BAD)
        self.land()
        batches: list[int] = []
        fit = deadletterjob._fit

        def counted(typed: Any, batch: Any, schema: Any) -> Any:
            batches.append(batch.num_rows)
            return fit(typed, batch, schema)

        self.assertGreater(BATCH_ROWS, 1000)
        with patch.object(deadletterjob, "BATCH_ROWS", 3), patch.object(deadletterjob, "_fit", counted):
            self.assertEqual(self.look(MENDED).landed, 2)
        self.assertLessEqual(max(batches), 3)

    def test_the_last_message_of_each_key_gets_its_value_too(self) -> None:
        self.append(*GOOD, *BAD)
        self.land()
        into = f"{self.table}-last"
        latest(self.table, into, key="queue_offset")
        self.assertEqual(self.look(MENDED).landed, 1)
        merged = latest(self.table, into, key="queue_offset")
        self.assertEqual((merged.inserted, merged.updated), (0, 1))
        rows = self.rows(into)
        values: list[Any] = rows.sort_by("physical_offset").column("Orders").to_pylist()
        self.assertEqual(values, self.values())
        self.assertEqual(latest(self.table, into, key="queue_offset").updated, 0)

    def test_a_body_with_a_wrong_checksum_never_fits(self) -> None:
        self.append(*GOOD)
        path = next((self.store / "commitlog").iterdir())
        data = bytearray(path.read_bytes())
        data[data.index(b'"ann"') + 1] = ord("A")
        path.write_bytes(data)
        self.land()
        self.assertEqual(self.look(MENDED).left, {"Orders": {"checksum": 1}})

    def test_one_that_ended_between_its_commits_is_made_up_for(self) -> None:
        self.append(*BAD, *BAD)
        self.land()
        ended = patch.object(self.kind, "take", side_effect=OSError("no more"))
        with ended, self.assertRaises(OSError):
            self.look(MENDED)
        self.assertEqual(sum(value is not None for value in self.values()), 2)
        self.assertEqual(len(self.dead("body")), 8)
        self.assertEqual(self.look(MENDED).landed, 2)
        self.assertEqual(sum(value is not None for value in self.values()), 2)
        self.assertEqual(len(self.dead("body")), 6)

    def between(self, do: Callable[[str], object]) -> AbstractContextManager[Any]:
        """The first change of either table meets another writer's, `do`, between what it reads and its commit."""
        merge, left = DeltaTable.merge, [self.beside, self.table]

        def late(table: DeltaTable, *given: Any, **more: Any) -> Any:
            if left and table.table_uri.rstrip("/").endswith(left[-1]):
                do(left.pop())
            return merge(table, *given, **more)

        return patch.object(DeltaTable, "merge", late)

    def compact(self, table: str) -> int:
        return compaction.compact(table, 1 << 20, min_files=2).removed

    def test_files_that_others_replace_meanwhile_lose_and_double_nothing(self) -> None:
        """A compaction replaces the very files that were read; a landing adds some."""
        for _ in range(2):
            self.append(*GOOD, *BAD, LATER)
            self.land()
        replaced: list[int] = []

        def other(table: str) -> None:
            self.append(*GOOD, *BAD)
            self.land()
            replaced.append(self.compact(table))

        with self.between(other):
            self.assertEqual(self.look(MENDED).landed, 4)
        self.assertEqual((len(replaced), min(replaced) > 1), (2, True))
        self.assertEqual(self.look(MENDED).landed, 2)
        self.assertEqual(sorted(self.rows(self.table)["physical_offset"].to_pylist()), self.log.offsets)
        bodies = [record.body for record in self.log.records]
        known = [body in (*GOOD, LATER, b'{"customer": "x"}') for body in bodies]
        self.assertEqual([value is not None for value in self.values()], known)
        left = [at for at, each in zip(self.log.offsets, known, strict=True) if not each]
        self.assertEqual(self.dead("physical_offset"), left)

    def test_a_table_without_any_and_none_at_all(self) -> None:
        with self.assertRaisesRegex(WrongTable, "there's no table"):
            self.look()
        self.append(*GOOD)
        self.land()
        self.assertEqual(self.look().left, {})

    def test_the_command(self) -> None:
        self.append(*BAD, LATER)
        self.land()
        (schema,) = self.schema(MENDED)
        run = CliRunner().invoke
        shown = run(main, ["pipeline", "dead-letters", self.table])
        self.assertEqual(shown.exit_code, 1)
        self.assertIn("Orders: 2 malformed\n  broker-a queue 0 offset 0: the body is empty", shown.output)
        shown = run(
            main, ["pipeline", "dead-letters", self.table, "--schema", f"Orders=json:{schema.source}"]
        )
        self.assertIn("2 dead letters landed in", shown.output)
        shown = run(main, ["pipeline", "dead-letters", self.table, "--json"])
        self.assertEqual(json.loads(shown.output)["left"], {"Orders": {"malformed": 2, "type": 1}})


class DeltaTests(SchemaCase):
    def test_another_writer_s_commit_between_is_borne(self) -> None:
        self.append(*BAD)
        self.land()
        opened, openings = deltaletters.open_table, count(1)

        def contended(path: str) -> DeltaTable:
            if path == self.table and next(openings) in (1, 2):
                raise CommitFailedError("another one's")
            return opened(path)

        with patch.object(deltaletters, "open_table", contended):
            self.assertEqual(dead_letters(self.table, self.schema(MENDED)).landed, 1)

"""Topics with schemas: typed columns, dead letters beside, each once through interruptions; schemas that grow."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import TestCase
from unittest.mock import patch

import pyarrow as pa
from deltalake import DeltaTable

from hatwisted.pipeline.delta import compaction, deadletters, landedfiles
from hatwisted.pipeline.delta.deadletters import dead_letter_table, settle
from hatwisted.pipeline.errors import PipelineError, WrongSchema
from hatwisted.pipeline.jobs.audit.auditing import audit
from hatwisted.pipeline.jobs.land import locallanding
from hatwisted.pipeline.jobs.land.landing import LandOptions, LandResult, land
from hatwisted.pipeline.jobs.workertasks import InlineTasks
from hatwisted.pipeline.schemas.topicschemas import TopicSchema, parse_schemas
from tests.support.logbuilder import LogBuilder

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"item": {"type": "string"}}}},
    },
    "required": ["id"],
}
GOOD = (b'{"id": 1, "customer": "ann", "lines": [{"item": "tea"}]}', b'{"id": 2, "more": true}')
BAD = {b"": "malformed", b"?": "malformed", b'{"customer": "x"}': "missing", b'{"id": "1"}': "type"}
BAD_NUMBER = b'{"id": 9223372036854775808}'


class SchemaCase(TestCase):
    """A store of one broker, the table it is landed into, and the table beside."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.store = self.folder / "broker-a"
        self.log = LogBuilder()
        self.table = str(self.folder / "table")
        self.beside = dead_letter_table(self.table)

    def append(self, *bodies: bytes, topic: str = "Orders") -> None:
        for body in bodies:
            self.log.add(topic, body=body)
        self.log.save(self.store)

    def schema(self, schema: Any, topic: str = "Orders") -> tuple[TopicSchema, ...]:
        file = self.folder / f"{topic}.json"
        file.write_text(json.dumps(schema))
        return parse_schemas([f"{topic}=json:{file}"])

    def land(self, schema: Any = ORDER, **options: Any) -> LandResult:
        how = LandOptions(engine="local", compact_below=None, schemas=self.schema(schema), **options)
        return land([str(self.store)], self.table, how)

    def rows(self, table: str) -> pa.Table:
        return DeltaTable(table).to_pyarrow_table()

    def files(self, table: str) -> set[str]:
        """The names of those that it consists of."""
        return {Path(path).name for path in DeltaTable(table).file_uris()}

    def version(self) -> int:
        return DeltaTable(self.table).version()

    def merging(self, number: int) -> AbstractContextManager[Any]:
        """So many small files are worth it."""
        return patch.dict(compaction.compact.__kwdefaults__, min_files=number)

    def values(self, column: str = "Orders") -> list[Any]:
        return list(self.rows(self.table).sort_by("physical_offset").column(column).to_pylist())

    def dead(self, *columns: str) -> list[Any]:
        rows = self.rows(self.beside).sort_by("physical_offset").to_pylist()
        return [tuple(row[name] for name in columns) if len(columns) > 1 else row[columns[0]] for row in rows]


class LandedValuesTests(SchemaCase):
    def test_bodies_become_a_column_and_misfits_go_beside(self) -> None:
        self.append(*GOOD, *BAD, BAD_NUMBER, *GOOD)
        self.append(b"[", topic="Other")
        found = self.land()
        first = {"id": 1, "customer": "ann", "lines": [{"item": "tea"}]}
        second = {"id": 2, "customer": None, "lines": None}
        self.assertEqual(self.values(), [first, second, *[None] * 5, first, second, None])
        self.assertEqual(found.rows, 10)
        self.assertEqual(found.dead_letters, {"malformed": 2, "missing": 1, "type": 1, "value": 1})
        expected = [(body, why) for body, why in {**BAD, BAD_NUMBER: "value"}.items()]
        self.assertEqual(self.dead("body", "reason"), expected)
        self.assertEqual(self.dead("physical_offset"), self.log.offsets[2:7])
        self.assertEqual(self.dead("detail")[3], "Expected `int`, got `str` - at `$.id`")

    def test_times_that_a_column_can_t_hold_are_dead_letters(self) -> None:
        times = ("2026-01-02T03:04:05Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")
        self.append(*[b'{"at": "%s"}' % time.encode() for time in times])
        schema = {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}
        self.assertEqual(self.land(schema).dead_letters, {"value": 2})
        self.assertEqual([value and value["at"].year for value in self.values()], [2026, None, None])
        self.assertIn("outside of the years 1 to 9999", self.dead("detail")[0])

    def test_the_table_is_the_whole_log_all_the_same(self) -> None:
        self.append(*GOOD, *BAD)
        self.land()
        self.assertTrue(audit(InlineTasks(), [str(self.store)], [self.table]).identical)

    def test_a_body_with_a_wrong_checksum_is_a_dead_letter(self) -> None:
        self.append(*GOOD, GOOD[0])
        path = next((self.store / "commitlog").iterdir())
        data = bytearray(path.read_bytes())
        at = data.index(b'"ann"')
        data[at + 1] = ord("A")
        path.write_bytes(data)
        self.assertEqual(self.land().dead_letters, {"checksum": 1})
        self.assertEqual([value and value["id"] for value in self.values()], [None, 2, 1])

    def test_bodies_needn_t_land_themselves(self) -> None:
        self.append(*GOOD, *BAD)
        self.land(columns=["tags"])
        names = self.rows(self.table).column_names
        self.assertNotIn("body", names)
        self.assertEqual(self.values()[1]["id"], 2)
        self.assertEqual(self.dead("body"), list(BAD))

    def test_a_later_landing_adds_what_is_new(self) -> None:
        self.append(*GOOD, *BAD)
        self.land()
        self.append(*BAD, *GOOD)
        self.assertEqual(self.land().dead_letters, {"malformed": 2, "missing": 1, "type": 1})
        self.assertEqual(self.land().dead_letters, {})
        self.assertEqual(self.dead("body"), [*BAD, *BAD])


class OnceTests(SchemaCase):
    """Table and dead letters through interruptions at every step."""

    def test_a_run_that_ends_anywhere_is_made_up_for(self) -> None:
        bodies = [GOOD[0] if number % 3 else b"bad %d" % number for number in range(1000)]
        self.append(*bodies)
        commit, calls, ends = landedfiles.commit_files, Counter[str](), set[tuple[str, str]]()

        def broken(path: str, *given: Any, **more: Any) -> Any:
            calls[path] += 1
            if calls[path] % 4 == 2:
                ends.add((path, "before"))
                raise OSError("no more")
            result = commit(path, *given, **more)
            if calls[path] % 4 == 0:
                ends.add((path, "after"))
                raise KeyboardInterrupt
            return result

        with (
            patch.object(landedfiles, "commit_files", broken),
            patch.object(locallanding, "SPLIT_BYTES", 20_000),
        ):
            for _ in range(200):
                try:
                    if not self.land(max_bytes_per_trigger=25_000).rows:
                        break
                except (OSError, KeyboardInterrupt):
                    calls["broken"] += 1
        self.assertGreater(calls["broken"], 4)
        self.assertEqual(len(ends), 4, "both tables, before and after a commit")
        self.assertEqual(len(self.values()), len(bodies))
        self.assertEqual(self.dead("body"), [body for body in bodies if body.startswith(b"bad")])
        for table in (self.table, self.beside):
            self.assertEqual({path.name for path in Path(table).glob("topic=*/*/*")}, self.files(table))

    def between(self) -> None:
        """A landing that ends between its two commits."""
        commit = landedfiles.commit_files

        def first_only(path: str, *given: Any, **more: Any) -> Any:
            if path == self.beside:
                raise OSError("no more")
            return commit(path, *given, **more)

        with patch.object(landedfiles, "commit_files", first_only), self.assertRaises(OSError):
            self.land()

    def test_dead_letters_of_a_landing_that_ended_between_its_commits_come_with_the_next(self) -> None:
        self.append(*BAD)
        self.between()
        self.assertEqual(len(self.values()), len(BAD))
        self.assertEqual(self.dead("body"), [])
        self.assertEqual(self.land().rows, 0)
        self.assertEqual(self.dead("body"), list(BAD))

    def test_a_landing_without_schemas_brings_them_too(self) -> None:
        self.append(*BAD)
        self.between()
        land([str(self.store)], self.table, LandOptions(engine="local"))
        self.assertEqual(self.dead("body"), list(BAD))

    def test_a_batch_that_is_repeated_while_the_landing_goes_on_brings_them(self) -> None:
        """As Spark repeats one of which it didn't hear: its next batches would hide what the first one lacks."""
        self.append(*BAD)
        self.between()
        table = DeltaTable(self.table)
        note = next(entry["hatwisted"] for entry in table.history() if "dead_letters" in entry["hatwisted"])
        again = landedfiles.WrittenFiles([], [], Counter())
        made = landedfiles.commit_landed(
            self.table, again, application=note["application"], number=note["batch"], held=None
        )
        self.assertFalse(made)
        self.assertEqual(self.dead("body"), list(BAD))

    def test_two_that_make_up_for_them_do_it_once(self) -> None:
        self.append(*BAD)
        self.between()
        settle(self.table)
        settle(self.table)
        self.assertEqual(self.dead("body"), list(BAD))

    def test_what_was_settled_isn_t_looked_at_again(self) -> None:
        for _ in range(5):
            self.append(*BAD)
            self.land()
        commits = Counter[str]()
        commit = deadletters.commit_files

        def counted(path: str, *given: Any, **more: Any) -> Any:
            commits[path] += 1
            return commit(path, *given, **more)

        with patch.object(deadletters, "commit_files", counted):
            self.land()
            self.assertLessEqual(commits[self.beside], 2)
        self.assertEqual(len(self.dead("body")), 5 * len(BAD))

    def test_of_many_batches_the_last_one_is_looked_at(self) -> None:
        """Each look lists the files beside."""
        self.append(*[*BAD] * 8)
        with patch.object(locallanding, "SPLIT_BYTES", 500):
            self.assertGreater(len(self.land(max_bytes_per_trigger=500).versions), 4)
        with patch.object(deadletters, "commit_files", side_effect=deadletters.commit_files) as commits:
            self.land()
        self.assertEqual(commits.call_count, 1)
        self.assertEqual(len(self.dead("body")), 8 * len(BAD))

    def test_dead_letters_that_somebody_has_removed_stop_nothing(self) -> None:
        self.append(*BAD)
        self.between()
        for file in Path(self.beside).glob("topic=*/*/*"):
            file.unlink()
        with self.assertLogs(deadletters.__name__, "WARNING") as told:
            self.land()
        self.assertIn("are gone", told.output[0])
        self.append(*BAD)
        self.assertEqual(sum(self.land().dead_letters.values()), len(BAD))


class GrowthTests(SchemaCase):
    """Schemas that change between two landings."""

    def test_new_fields_and_dropped_ones(self) -> None:
        self.append(*GOOD)
        self.land()
        new = {
            "type": "object",
            "properties": {
                "id": {"type": "integer"},
                "lines": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
                    },
                },
                "paid": {"type": "boolean"},
            },
        }
        self.append(b'{"id": 3, "customer": "no field", "lines": [{"item": "a", "count": 2}], "paid": true}')
        self.assertEqual(self.land(new).dead_letters, {})
        first, second, third = self.values()
        self.assertEqual(first["lines"], [{"item": "tea", "count": None}])
        self.assertEqual((first["customer"], first["paid"], second["paid"]), ("ann", None, None))
        lines = [{"item": "a", "count": 2}]
        self.assertEqual(third, {"id": 3, "customer": None, "lines": lines, "paid": True})
        self.append(*GOOD)
        self.land()
        self.assertEqual(self.values()[3]["customer"], "ann")
        self.assertTrue(audit(InlineTasks(), [str(self.store)], [self.table]).identical)

    def test_a_field_of_another_type_is_refused_before_a_row_is_read(self) -> None:
        self.append(*GOOD)
        self.land()
        version = self.version()
        for kind, there in (("string", "int64"), ("number", "int64")):
            with self.assertRaisesRegex(WrongSchema, rf"column Orders\.id is {there} in the table"):
                self.land({"type": "object", "properties": {"id": {"type": kind}}})
        self.assertEqual(self.version(), version)

    def test_a_topic_gets_a_schema_later(self) -> None:
        self.append(*GOOD)
        land([str(self.store)], self.table, LandOptions(engine="local"))
        self.append(*GOOD)
        self.land()
        self.assertEqual([value and value["id"] for value in self.values()], [None, None, 1, 2])

    def test_small_files_are_compacted_across_schemas(self) -> None:
        self.append(*GOOD)
        self.enterContext(self.merging(4))
        for number in range(5):
            self.append(*GOOD, *BAD)
            name = f"field{number}"
            schema = {"type": "object", "properties": {"id": {"type": "integer"}, name: {"type": "string"}}}
            how = LandOptions(engine="local", schemas=self.schema(schema))
            land([str(self.store)], self.table, how)
        self.assertLess(len(self.files(self.table)), 4)
        self.assertLess(len(self.files(self.beside)), 4)
        # Its id isn't required here.
        self.assertEqual([value["id"] for value in self.values() if value][:4], [1, 2, 1, 2])
        self.assertEqual(len(self.values()), len(self.log.offsets))


class RefusalTests(SchemaCase):
    def test_a_library_that_isn_t_installed_is_named(self) -> None:
        file = self.folder / "s.avsc"
        file.write_text("{}")
        (schema,) = parse_schemas([f"Orders=avro:{file}"])
        module = "hatwisted.pipeline.schemas.avrovalues"
        with patch.dict(sys.modules, {"fastavro": None}), patch.dict(sys.modules):
            sys.modules.pop(module, None)
            with self.assertRaisesRegex(PipelineError, r"avro needs fastavro, .* 'hatwisted\[schemas\]'"):
                schema.decoder()

    def test_schemas_that_are_no_columns(self) -> None:
        self.append(*GOOD)
        for texts, why in (
            (["Orders"], "isn't TOPIC=FORMAT:FILE"),
            (["Orders=xml:f"], "no format 'xml'; there are json"),
            ([f"Orders=json:{self.folder}/none.json"], "none.json: can't be read: No such file"),
            ([f"Orders=json:{self.folder}"], "can't be read: Is a directory"),
        ):
            with self.assertRaisesRegex(PipelineError, why):
                parse_schemas(texts)
        (schema,) = self.schema(ORDER)
        with self.assertRaisesRegex(PipelineError, "topic Orders has two schemas"):
            land([str(self.store)], self.table, LandOptions(schemas=[schema, schema]))
        for topic in ("body", "Store_Date"):
            with self.assertRaisesRegex(PipelineError, "is the log's own"):
                parse_schemas([f"{topic}=json:{schema.source}"])
        self.assertFalse(Path(self.table).exists())

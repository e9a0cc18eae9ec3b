"""Topics with schemas, landed into tables of whichever kind: columns of values, and dead letters."""

from __future__ import annotations

import json
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import TestCase
from unittest.mock import patch

import pyarrow as pa
from deltalake import DeltaTable

from hatwisted.pipeline.delta import compaction
from hatwisted.pipeline.delta.deadletters import dead_letter_table
from hatwisted.pipeline.errors import WrongSchema
from hatwisted.pipeline.jobs.audit.auditing import audit
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
    """A store of one broker, the table it is landed into, and the table beside: Delta's, if a test doesn't say
    otherwise."""

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

    def on_disk(self) -> set[str]:
        """The names of data files in both tables' folders, hidden or not."""
        return {path.name for table in (self.table, self.beside) for path in Path(table).glob("topic=*/*/*")}

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


class AnyValuesCase(SchemaCase):
    """What holds of every kind of table. Test modules don't import it by its own name: it would run there."""

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


class AnyOnceCase(SchemaCase):
    """As AnyValuesCase: table and dead letters, of landings that end between their commits."""

    told_by: str
    """The logger of dead letters."""

    def compaction_killed(self) -> AbstractContextManager[Any]:
        """A compaction of dead letters ends right before its commit."""
        raise NotImplementedError

    def between(self) -> None:
        """A landing that ends between its two commits."""
        raise NotImplementedError

    def settle(self) -> None:
        """What is missing of dead letters is made up for."""
        raise NotImplementedError

    def remove_promised(self) -> None:
        """What a landing has written of dead letters that aren't in their table yet goes."""
        raise NotImplementedError

    def test_dead_letters_of_a_landing_that_ended_between_its_commits_come_with_the_next(self) -> None:
        self.append(*BAD)
        self.between()
        self.assertEqual(len(self.values()), len(BAD))
        self.assertEqual(self.dead("body"), [])
        self.assertEqual(self.land().rows, 0)
        self.assertEqual(self.dead("body"), list(BAD))
        self.assertEqual(self.on_disk(), self.files(self.table) | self.files(self.beside))

    def test_a_landing_without_schemas_brings_them_too(self) -> None:
        self.append(*BAD)
        self.between()
        land([str(self.store)], self.table, LandOptions(engine="local"))
        self.assertEqual(self.dead("body"), list(BAD))

    def test_two_that_make_up_for_them_do_it_once(self) -> None:
        self.append(*BAD)
        self.between()
        self.settle()
        self.settle()
        self.assertEqual(self.dead("body"), list(BAD))

    def test_dead_letters_that_somebody_has_removed_stop_nothing(self) -> None:
        self.append(*BAD)
        self.between()
        self.remove_promised()
        with self.assertLogs(self.told_by, "WARNING") as told:
            self.land()
        self.assertIn("are gone", told.output[0])
        self.append(*BAD)
        self.assertEqual(sum(self.land().dead_letters.values()), len(BAD))

    def test_what_a_killed_compaction_of_them_leaves_goes_with_the_next_landing(self) -> None:
        self.enterContext(self.merging(4))
        for _ in range(4):
            self.append(*GOOD, *BAD)
            self.land()
        written = self.on_disk()
        how = LandOptions(engine="local", schemas=self.schema(ORDER))
        with self.compaction_killed(), self.assertRaises(KeyboardInterrupt):
            land([str(self.store)], self.table, how)
        left = self.on_disk() - written - self.files(self.table)
        self.assertEqual(len(left), 1)
        land([str(self.store)], self.table, how)
        self.assertEqual(left & self.on_disk(), set())
        self.assertEqual(len(self.files(self.beside)), 1)
        self.assertEqual(self.dead("body"), [*BAD] * 4)


class AnyGrowthCase(SchemaCase):
    """As AnyValuesCase: schemas that change between two landings."""

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

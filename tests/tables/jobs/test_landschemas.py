"""Topics with schemas: typed columns, dead letters beside, each once through interruptions; schemas that grow."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from deltalake import DeltaTable

from hatwisted.pipeline.delta import compaction, deadletters, landedfiles
from hatwisted.pipeline.delta.deadletters import settle
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.land import locallanding
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.schemas.topicschemas import parse_schemas
from tests.support import schemacase
from tests.support.schemacase import BAD, GOOD


class LandedValuesTests(schemacase.AnyValuesCase):
    pass


class GrowthTests(schemacase.AnyGrowthCase):
    pass


class OnceTests(schemacase.AnyOnceCase):
    """Table and dead letters through interruptions at every step."""

    told_by = deadletters.__name__

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
        self.assertEqual(self.on_disk(), self.files(self.table) | self.files(self.beside))

    def between(self) -> None:
        """A landing that ends between its two commits."""
        commit = landedfiles.commit_files

        def first_only(path: str, *given: Any, **more: Any) -> Any:
            if path == self.beside:
                raise OSError("no more")
            return commit(path, *given, **more)

        with patch.object(landedfiles, "commit_files", first_only), self.assertRaises(OSError):
            self.land()

    def compaction_killed(self) -> AbstractContextManager[Any]:
        swap = compaction._swap

        def killed(version: compaction.Version, *given: Any) -> None:
            if version.path == self.beside:
                raise KeyboardInterrupt
            swap(version, *given)

        return patch.object(compaction, "_swap", killed)

    def settle(self) -> None:
        settle(self.table)

    def remove_promised(self) -> None:
        for file in Path(self.beside).glob("topic=*/*/*"):
            file.unlink()

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


class RefusalTests(schemacase.SchemaCase):
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
        (schema,) = self.schema(schemacase.ORDER)
        with self.assertRaisesRegex(PipelineError, "topic Orders has two schemas"):
            land([str(self.store)], self.table, LandOptions(schemas=[schema, schema]))
        for topic in ("body", "Store_Date"):
            with self.assertRaisesRegex(PipelineError, "is the log's own"):
                parse_schemas([f"{topic}=json:{schema.source}"])
        self.assertFalse(Path(self.table).exists())

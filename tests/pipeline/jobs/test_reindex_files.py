"""Queues and index built from the log alone are, byte for byte, those that RocketMQ and the store built."""

from __future__ import annotations

import random
import shutil
import tempfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import TestCase

from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.reindex import Layout, ReindexResult, reindex
from hatwisted.pipeline.jobs.tasks import InlineTasks
from tests.pipeline.jobs.copies import GOLDEN, GOLDEN_END, files_of, save_log
from tests.pipeline.jobs.variedlog import VariedLog
from tests.store.sample_log import FILE_SIZE, ITEMS, QUEUE_FILE_SIZE, SLOTS, SampleStore

LAYOUT = Layout(queue_file_size=QUEUE_FILE_SIZE, slots=SLOTS, items=ITEMS)
"""As the golden store has it, and the sample stores."""


class ReindexCase(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.target = self.folder / "target"

    def rebuilt(self, source: Path, target: Path, **options: Any) -> ReindexResult:
        options.setdefault("layout", LAYOUT)
        return reindex(InlineTasks(), str(source), str(target), **options)

    def assert_same(self, built: Path, expected: Path) -> None:
        """The same queue files, and the same index files under whatever names."""
        self.assertEqual(files_of(built / "consumequeue"), files_of(expected / "consumequeue"))
        indexes = [sorted(files_of(store / "index").items()) for store in (built, expected)]
        self.assertEqual(*([content for _, content in index] for index in indexes))

    def leavings(self) -> list[str]:
        return [path.name for path in self.folder.rglob("*.re*")]


class GoldenTests(ReindexCase):
    def test_the_golden_stores_come_out_byte_for_byte(self) -> None:
        for side in ("master", "slave"):
            shutil.copytree(GOLDEN / side / "commitlog", self.folder / side / "commitlog")
            for split in (1000, 4096, 1 << 20):
                with self.subTest(side=side, split=split):
                    target = self.folder / f"{side}-{split}"
                    result = self.rebuilt(self.folder / side, target, split_bytes=split)
                    self.assert_same(target, GOLDEN / side)
                    self.assertEqual((result.end, result.records, result.exit_code), (GOLDEN_END, 246, 0))
        self.assertEqual(self.leavings(), [])

    def test_files_are_made_as_those_that_the_store_has(self) -> None:
        result = self.rebuilt(GOLDEN / "slave", self.target, layout=Layout())
        self.assert_same(self.target, GOLDEN / "slave")
        self.assertEqual((result.index_files, result.index_items, result.entries), (1, 679, 246))

    def test_an_index_file_is_named_by_its_first_record(self) -> None:
        self.rebuilt(GOLDEN / "master", self.target)
        (name,) = files_of(self.target / "index")
        first = datetime.strptime(name + "000", "%Y%m%d%H%M%S%f").timestamp()
        self.assertEqual(round(first * 1000), 0x1A1FB858034)

    def test_delays_are_those_of_the_broker(self) -> None:
        layout = replace(LAYOUT, delay_levels="2s 5s", index=False)
        self.rebuilt(GOLDEN / "master", self.target, layout=layout)
        queue = files_of(self.target / "consumequeue")["SCHEDULE_TOPIC_XXXX/0/00000000000000000000"]
        self.assertEqual(int.from_bytes(queue[12:20], "big"), 0x1A1FB859307 + 1000)
        self.assertFalse((self.target / "index").exists())
        with self.assertRaisesRegex(PipelineError, "messageDelayLevel"):
            self.rebuilt(GOLDEN / "master", self.target, layout=replace(LAYOUT, delay_levels="soon"))


class DispatchTests(ReindexCase):
    """Against what the server's own dispatch makes of the same log."""

    def dispatched(self, log: VariedLog, base: int = 0) -> Path:
        """A store whose queues and index the dispatcher has built."""
        root = self.folder / f"dispatched-{len(list(self.folder.iterdir()))}"
        save_log(root, bytes(log.data), base=base, file_size=FILE_SIZE)
        store = SampleStore(str(root))
        store.recover()
        store.close()
        return root

    def test_varied_logs_come_out_as_the_dispatch_makes_them(self) -> None:
        for seed in range(6):
            with self.subTest(seed=seed):
                expected = self.dispatched(VariedLog(seed).fill(400))
                target = self.folder / f"built-{seed}"
                result = self.rebuilt(
                    expected, target, split_bytes=random.Random(seed).choice((7000, 30_000))
                )
                self.assert_same(target, expected)
                self.assertEqual(result.records, 400)

    def test_items_roll_over_many_index_files_in_the_middle_of_a_message(self) -> None:
        expected = self.dispatched(VariedLog(3).fill(7000))
        result = self.rebuilt(expected, self.target, split_bytes=100_000)
        self.assertGreater(result.index_files, 2)
        self.assert_same(self.target, expected)

    def test_a_log_that_begins_in_mid_stream_has_queues_that_do(self) -> None:
        log = VariedLog(9, base=3 * FILE_SIZE, first_offset=150)
        expected = self.dispatched(log.fill(500), base=3 * FILE_SIZE)
        result = self.rebuilt(expected, self.target, split_bytes=20_000)
        self.assertGreater(result.blanks, 0)
        self.assert_same(self.target, expected)

"""`hatwisted log check`: the golden store is in order; every way to break it is named, and nothing is written."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.support.clistores import delete_queue, golden_copy, overwrite, run, snapshot, write_log
from tests.support.golden import GOLDEN_END

QUEUE_A0 = Path("consumequeue") / "TopicA" / "0" / ("0" * 20)


class CheckTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store = golden_copy(self.mktemp())
        (self.index,) = (self.store / "index").iterdir()

    def check(self, *options: object, code: int = 0) -> dict[str, Any]:
        result = run("check", self.store, "--json", *options)
        self.assertEqual(result.exit_code, code, result.output)
        report: dict[str, Any] = json.loads(result.stdout)
        self.assertEqual(report["ok"], code == 0)
        return report

    def kinds(self, *options: object) -> dict[str, int]:
        return {problem["kind"]: problem["count"] for problem in self.check(*options, code=1)["problems"]}

    def patch_file(self, path: Path, offset: int, data: bytes) -> None:
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(data)

    def test_golden_store_is_in_order_and_left_untouched(self) -> None:
        before = snapshot(self.store)
        report = self.check()
        self.assertEqual((report["records"], report["end"], report["queues"]), (246, GOLDEN_END, 18))
        self.assertEqual((report["queueEntries"], report["indexFiles"], report["indexItems"]), (246, 1, 679))
        self.assertEqual((report["damages"], report["tornTail"], report["notes"]), ([], None, []))
        self.assertEqual(snapshot(self.store), before)

    def test_B88_golden_slave_is_in_order(self) -> None:
        self.store = golden_copy(self.mktemp(), "slave")
        self.assertEqual(self.check()["records"], 246)

    def test_text_report(self) -> None:
        result = run("check", self.store)
        self.assertEqual(result.exit_code, 0)
        self.assertIn("records   246 in 18 queues, stored ", result.stdout)
        self.assertTrue(result.stdout.endswith("no problems found\n"))
        overwrite(self.store, 5100, b"XX")
        result = run("check", self.store)
        self.assertEqual(result.exit_code, 1)
        self.assertIn("DAMAGE    at offset 4958 (body checksum", result.stdout)
        self.assertIn("a cut here would remove 106755 bytes", result.stdout)
        self.assertTrue(result.stdout.endswith("problems found\n"))

    def test_damage_in_the_middle(self) -> None:
        overwrite(self.store, 5100, b"XX")
        (damage,) = self.check(code=1)["damages"]
        expected = {"offset": 4958, "resumesAt": 5400, "unreadable": 442, "atStake": GOLDEN_END - 4958}
        self.assertEqual({name: damage[name] for name in expected}, expected)

    def test_torn_tail_is_no_problem(self) -> None:
        overwrite(self.store, GOLDEN_END, b"\0\0\1\0\xda\xa3\x20\xa7half a record")
        report = self.check()
        self.assertEqual((report["end"], report["tornTail"]["bytes"]), (GOLDEN_END, 21))
        self.assertIn("torn tail 21 bytes after offset 111713", run("check", self.store).stdout)

    def test_record_torn_in_its_properties_is_noted(self) -> None:
        overwrite(self.store, GOLDEN_END - 2, bytes(2))
        self.assertIn("the last record, at offset 111452, ends in zero bytes", self.check()["notes"][0])

    def test_deleted_queue_is_not_missed(self) -> None:
        delete_queue(self.store)
        self.assertEqual(self.check()["queues"], 17)

    def test_B95_missing_queue(self) -> None:
        shutil.rmtree(self.store / "consumequeue" / "TopicTx")
        self.assertEqual(self.kinds(), {"records without a queue entry": 3})

    def test_no_queues_and_no_index_are_noted(self) -> None:
        shutil.rmtree(self.store / "consumequeue")
        shutil.rmtree(self.store / "index")
        report = self.check()
        self.assertEqual(report["notes"], ["no consume queues to compare with", "no index to compare with"])
        self.assertEqual((report["queueEntries"], report["indexItems"]), (None, None))

    def test_wrong_queue_entries(self) -> None:
        for field, value in ((8, b"\0\0\0\1"), (0, b"\0\0\0\0\0\0\0\1"), (12, b"\0" * 8)):
            self.store = golden_copy(self.mktemp())
            self.patch_file(self.store / QUEUE_A0, field, value)
            self.assertEqual(self.kinds(), {"queue entries that differ from the log": 1}, field)

    def test_due_times_of_delayed_messages_are_left_to_the_broker(self) -> None:
        queue = self.store / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "0" / ("0" * 20)
        self.patch_file(queue, 12, b"\0\0\1\0\0\0\0\0")
        self.check()

    def test_entries_of_records_that_are_not_there(self) -> None:
        self.patch_file(self.store / QUEUE_A0, 17 * 20, struct.pack(">qiq", GOLDEN_END, 100, 0))
        self.assertEqual(self.kinds(), {"queue entries without a record in the log": 1})

    def test_queue_of_a_topic_that_the_log_does_not_know(self) -> None:
        shutil.copytree(self.store / "consumequeue" / "TopicTx", self.store / "consumequeue" / "Gone")
        self.assertEqual(self.kinds(), {"queue entries without a record in the log": 2})

    def test_broken_index_items(self) -> None:
        item = 40 + 4 * 1000 + 20 * 300
        self.patch_file(self.index, item, b"\0\0\0\7")
        kinds = self.kinds()
        self.assertEqual(kinds["keys without an index item"], 1)
        self.assertEqual(kinds["index items without a record in the log"], 1)
        self.assertIn("index files with broken chains", kinds)

    def test_index_item_of_an_impossible_offset(self) -> None:
        self.patch_file(self.index, 40 + 4 * 1000 + 20 * 300 + 4, b"zz")
        self.assertEqual(self.kinds(), {"index items out of order": 1, "keys without an index item": 1})

    def test_broken_index_chain(self) -> None:
        self.patch_file(self.index, 40 + 4 * 1000 + 20 * 300 + 16, b"\0\0\0\1")
        self.assertEqual(self.kinds(), {"index files with broken chains": 1})

    def test_broken_index_slot(self) -> None:
        self.patch_file(self.index, 3400, b"\0\0\0\0")
        self.assertEqual(self.kinds(), {"index files with broken chains": 1})

    def test_index_header_that_lies(self) -> None:
        self.patch_file(self.index, 24, bytes(8))
        self.assertEqual(self.kinds(), {"inconsistent index files": 1})
        self.patch_file(self.index, 36, b"\x7f\0\0\0")
        self.assertIn("inconsistent index files", self.kinds())

    def test_index_that_ends_early(self) -> None:
        self.patch_file(self.index, 36, (300).to_bytes(4, "big"))
        kinds = self.kinds()
        self.assertEqual(kinds["keys without an index item"], 380)

    def test_index_of_another_shape_must_be_told(self) -> None:
        raw = self.index.read_bytes()
        self.index.write_bytes(raw[:4040] + raw[4040 : 4040 + 20 * 2000])
        self.assertIn("index not compared", self.check()["notes"][0])
        self.assertEqual(self.check("--index-slots", 1000, "--index-items", 2000)["indexItems"], 679)
        self.assertEqual(
            self.kinds("--index-slots", 1000, "--index-items", 3000),
            {"index files of another size": 1, "keys without an index item": 680 - 1},
        )

    def test_shape_options_belong_together(self) -> None:
        result = run("check", self.store, "--index-slots", 5)
        self.assertEqual(result.exit_code, 2)
        self.assertIn("must be given together", result.stderr)

    def test_B86_foreign_file_in_the_log(self) -> None:
        (self.store / "commitlog" / "notes.txt").write_text("x")
        self.assertEqual(self.kinds(), {"unexpected files": 1})

    def test_B86_queue_file_of_another_length(self) -> None:
        with (self.store / QUEUE_A0).open("ab") as file:
            file.write(b"more")
        self.assertIn("unexpected files", self.kinds())

    def test_log_folder_alone(self) -> None:
        moved = self.store.with_name(self.store.name + "-log")
        shutil.move(self.store / "commitlog", moved)
        self.store = moved
        report = self.check()
        self.assertEqual((report["records"], report["queueEntries"]), (246, None))

    def test_log_folder_of_a_store_means_the_store(self) -> None:
        self.store /= "commitlog"
        self.assertEqual(self.check()["queueEntries"], 246)

    def test_unclean_exit_is_said(self) -> None:
        (self.store / "abort").touch()
        self.assertTrue(self.check()["uncleanExit"])

    def test_queue_offsets_out_of_order_in_the_log(self) -> None:
        self.store = Path(self.mktemp())
        records = write_log(self.store, [b"x"] * 12).records
        overwrite(self.store, records[6].physical_offset + 20, (9).to_bytes(8, "big"), 4096)
        kinds = self.kinds()
        self.assertEqual(kinds["queue offsets without a record in the log"], 6)
        self.assertEqual(kinds["queue offsets out of order in the log"], 1)


class UsageTests(SynchronousTestCase):
    """Mistakes end in one line and exit code 2."""

    def assertRefused(self, result: Any, text: str) -> None:
        self.assertEqual(result.exit_code, 2, result.output)
        self.assertIn(text, result.stderr)
        self.assertNotIn("Traceback", result.output)

    def test_no_store(self) -> None:
        folder = Path(self.mktemp())
        self.assertRefused(run("check", folder), "does not exist")
        folder.mkdir()
        self.assertRefused(run("check", folder), "is not a store")
        (folder / "commitlog").mkdir()
        for command in ("check", "dump", "tail", "index", "repair"):
            self.assertRefused(run(command, folder), "holds no log")

    def test_log_folder_alone_has_no_queues_to_build(self) -> None:
        store = golden_copy(self.mktemp())
        moved = store.with_name(store.name + "-log")
        shutil.move(store / "commitlog", moved)
        for command in ("index", "repair"):
            self.assertRefused(run(command, moved), "give the store's root folder")

    def test_unknown_position(self) -> None:
        store = golden_copy(self.mktemp())
        self.assertRefused(run("dump", store, "--from", "someday"), "neither an offset")
        self.assertRefused(run("index", store, "--delay-levels", "1x"), "delay level '1x'")

    def test_unreadable_file(self) -> None:
        store = golden_copy(self.mktemp())
        (store / "commitlog" / ("0" * 20)).unlink()
        (store / "commitlog" / ("0" * 20)).symlink_to("nowhere")
        result = run("dump", store)
        self.assertRefused(result, "No such file or directory")

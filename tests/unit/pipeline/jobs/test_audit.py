"""Audits of whole stores: what is said of copies that are the same, differ, lag, begin later or are damaged."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any
from unittest import TestCase, mock

from hatwisted.cli.pipeline.pipelinetext import audit_lines
from hatwisted.logcodec.queueruns import Run
from hatwisted.pipeline.errors import NotAStore, PipelineError
from hatwisted.pipeline.jobs import rangecompare
from hatwisted.pipeline.jobs.audit import auditing
from hatwisted.pipeline.jobs.audit.auditing import AuditOptions, Span, audit
from hatwisted.pipeline.jobs.audit.auditreport import audit_page
from hatwisted.pipeline.jobs.audit.auditresult import AuditResult, queue_breaks
from hatwisted.pipeline.jobs.rangecompare import Kind
from hatwisted.pipeline.jobs.workertasks import InlineTasks
from hatwisted.wire.layout import file_name
from tests.support.copies import FILE_SIZE, TwoCopiesCase, copy_store, flip, patch, write_store
from tests.support.golden import GOLDEN, GOLDEN_END
from tests.support.logbuilder import save_log

COUNT = 120


class AuditCase(TwoCopiesCase):
    COUNT = COUNT

    def audit(self, *stores: Path, **options: Any) -> AuditResult:
        """By default the slave against the master."""
        options.setdefault("split_bytes", 5000)
        progress = options.pop("progress", None)
        paths = [str(store) for store in stores or (self.master, self.slave)]
        return audit(InlineTasks(), paths, options=AuditOptions(**options), progress=progress)

    def cut(self, store: Path, offset: int) -> None:
        """The store ends at `offset`."""
        for path in (store / "commitlog").iterdir():
            if int(path.name) >= offset:
                path.unlink()
            elif int(path.name) + FILE_SIZE > offset:
                size = int(path.name) + FILE_SIZE - offset
                patch(store, offset, bytes(size))


class SameTests(AuditCase):
    def test_the_golden_pair_is_identical_up_to_its_end(self) -> None:
        for split in (3000, 1 << 20):
            result = self.audit(GOLDEN / "master", GOLDEN / "slave", split_bytes=split)
            self.assertTrue(result.identical)
            self.assertEqual((result.begin, result.end, result.identical_up_to), (0, GOLDEN_END, GOLDEN_END))
            self.assertEqual((result.records, result.queues, result.exit_code), (246, 18, 0))
            self.assertEqual(result.bytes_read, 2 * GOLDEN_END)
            self.assertEqual((result.damaged, result.breaks, result.notes), ((), (), ()))

    def test_three_copies_are_compared_at_once(self) -> None:
        third = copy_store(self.master, self.folder / "third")
        self.assertTrue(self.audit(self.master, self.slave, third).identical)
        flip(third, self.records[50].physical_offset + 100)
        result = self.audit(self.master, self.slave, third)
        self.assertEqual([found.copy for found in result.differences], [str(third)])

    def test_progress_ends_with_all_bytes_of_the_log(self) -> None:
        told: list[tuple[int, int]] = []
        self.audit(progress=lambda done, total: told.append((done, total)))
        self.assertEqual(told[-1], (self.end, self.end))
        self.assertEqual(told, sorted(told))

    def test_only_a_span_may_be_compared(self) -> None:
        flip(self.slave, self.records[5].physical_offset + 5)
        first = self.records[10].physical_offset
        result = self.audit(span=Span(first - 3, self.records[100].physical_offset))
        self.assertTrue(result.identical)
        self.assertEqual((result.begin, result.end), (first, self.records[100].physical_offset))


class DifferentTests(AuditCase):
    def test_a_single_changed_byte_anywhere_is_named_exactly(self) -> None:
        chosen = random.Random(7)
        for _ in range(25):
            record = chosen.choice(self.records)
            offset = record.physical_offset + chosen.randrange(record.total_size)
            with self.subTest(offset=offset):
                flip(self.slave, offset)
                result = self.audit(split_bytes=chosen.choice((700, 5000, 1 << 20)))
                flip(self.slave, offset)
                found = result.first_difference
                assert found is not None and found.record is not None
                self.assertEqual((result.exit_code, len(result.differences)), (1, 1))
                self.assertEqual((found.first_byte, found.begin), (offset, record.physical_offset))
                self.assertEqual(found.end, record.physical_offset + record.total_size)
                self.assertEqual(result.identical_up_to, record.physical_offset)
                self.assertEqual(
                    (found.record.topic, found.record.queue_offset), (record.topic, record.queue_offset)
                )
                self.assertIn(str(offset), result.verdict)

    def test_damage_in_the_reference_is_laid_to_it(self) -> None:
        victim = next(record for record in self.records[30:] if len(record.body) > 200)
        flip(self.master, victim.physical_offset + 200)
        result = self.audit()
        (found,), (bad,) = result.differences, result.damaged
        self.assertEqual((found.kind, found.field), (Kind.REFERENCE_DAMAGED, "body"))
        self.assertEqual(
            (bad.copy, bad.begin, bad.everywhere), (str(self.master), victim.physical_offset, False)
        )

    def test_damage_everywhere_alike_is_found_by_checksums(self) -> None:
        victim = next(record for record in self.records[30:] if len(record.body) > 200)
        for store in (self.master, self.slave):
            flip(store, victim.physical_offset + 200)
        result = self.audit()
        self.assertEqual((result.differences, result.exit_code), ((), 1))
        self.assertTrue(result.damaged[0].everywhere)
        self.assertIn("all copies", str(result.damaged[0]))
        self.assertEqual(result.identical_up_to, victim.physical_offset)
        self.assertIn("not intact", result.verdict)
        self.assertTrue(self.audit(check_crc=False).identical)

    def test_a_lost_message_of_a_queue_is_a_gap(self) -> None:
        victim = next(r for r in self.records[60:] if r.queue_offset == 3)
        for store in (self.master, self.slave):
            patch(store, victim.physical_offset, bytes(8))
        (found,) = self.audit().breaks
        self.assertEqual((found.kind, found.topic, found.queue_id), ("gap", victim.topic, victim.queue_id))
        self.assertEqual((found.expected, found.found, found.missing), (3, 4, 1))

    def test_many_differences_are_counted_and_not_all_listed(self) -> None:
        for record in self.records[::2]:
            flip(self.slave, record.physical_offset + 60)
        result = self.audit()
        self.assertEqual(len(result.differences), COUNT // 2)
        self.assertEqual(result.unlisted, 0)
        for module, name in ((auditing, "MAX_LISTED"), (rangecompare, "MAX_RANGES")):
            with mock.patch.object(module, name, 7):
                cut = self.audit()
            self.assertEqual((len(cut.differences), cut.unlisted), (7, COUNT // 2 - 7))
            self.assertIn(f"  and {COUNT // 2 - 7:,} more", list(audit_lines(cut)))

    def test_all_damage_and_breaks_are_counted_and_not_all_listed(self) -> None:
        victims = self.records[20:100:16]
        for store in (self.master, self.slave):
            for victim in victims:
                patch(store, victim.physical_offset, bytes(8))
        whole = self.audit()
        self.assertEqual((whole.damage_count, len(whole.damaged)), (len(victims), len(victims)))
        with mock.patch.object(auditing, "MAX_LISTED", 2):
            result = self.audit()
        self.assertEqual((len(result.damaged), len(result.breaks)), (2, 2))
        self.assertEqual((result.damage_count, result.break_count), (whole.damage_count, whole.break_count))
        self.assertGreater(result.break_count, 2)
        self.assertEqual(result.verdict, whole.verdict)


class ExtentTests(AuditCase):
    def test_a_copy_that_ends_earlier_lacks_what_follows(self) -> None:
        first = self.records[90]
        self.cut(self.slave, first.physical_offset)
        result = self.audit()
        (found,) = result.differences
        self.assertEqual(
            (found.kind, found.begin, found.end), (Kind.MISSING, first.physical_offset, self.end)
        )
        self.assertEqual((found.records, found.lag, found.copy), (COUNT - 90, True, str(self.slave)))
        self.assertEqual(result.identical_up_to, first.physical_offset)

    def test_lag_may_be_allowed(self) -> None:
        first = self.records[90]
        self.cut(self.slave, first.physical_offset)
        result = self.audit(allow_lag=True)
        self.assertEqual((result.identical, result.differences, result.unlisted), (True, (), 0))
        behind = self.end - first.physical_offset
        self.assertEqual(
            result.notes, (f"{self.slave} ends at {first.physical_offset}, {behind} bytes behind",)
        )

    def test_records_that_only_the_other_copy_has_are_extra(self) -> None:
        first = self.records[90]
        self.cut(self.master, first.physical_offset)
        (found,) = self.audit().differences
        self.assertEqual(
            (found.kind, found.copy, found.reference), (Kind.EXTRA, str(self.slave), str(self.master))
        )
        self.assertEqual((found.begin, found.end), (first.physical_offset, self.end))

    def test_a_copy_that_begins_later_is_noted_and_no_difference(self) -> None:
        (self.master / "commitlog" / file_name(0)).unlink()
        for stores in ((self.master, self.slave), (self.slave, self.master)):
            result = self.audit(*stores)
            self.assertTrue(result.identical)
            self.assertEqual(result.begin, 0)
            (note,) = result.notes
            self.assertEqual(
                result.notes, (f"{self.master} begins at {FILE_SIZE}: [0, {FILE_SIZE}) isn't retained there",)
            )

    def test_what_one_copy_alone_retains_is_still_checked(self) -> None:
        (self.master / "commitlog" / file_name(0)).unlink()
        victim = next(record for record in self.records if len(record.body) > 200)
        flip(self.slave, victim.physical_offset + 200)
        (bad,) = self.audit().damaged
        self.assertEqual((bad.copy, bad.begin), (str(self.slave), victim.physical_offset))

    def test_a_corrupt_tail_is_no_lag(self) -> None:
        """A whole record, with another byte: nothing of it is still to come."""
        last = self.records[-1].physical_offset
        path = self.slave / "commitlog" / file_name(last // FILE_SIZE * FILE_SIZE)
        intact = path.read_bytes()
        for place in (4, 95):
            with self.subTest(place=place):
                path.write_bytes(intact)
                flip(self.slave, last + place)
                result = self.audit(allow_lag=True)
                self.assertEqual((result.identical, result.identical_up_to), (False, last))
                self.assertEqual([each.kind for each in result.differences], [Kind.DAMAGED])

    def test_a_torn_tail_is_reported_with_its_bytes(self) -> None:
        first = self.records[-1]
        self.cut(self.slave, first.physical_offset + 70)
        result = self.audit(allow_lag=True)
        self.assertTrue(result.identical)
        copy = result.copies[1]
        self.assertEqual(copy.end, first.physical_offset)
        self.assertTrue(60 < copy.torn_bytes <= 70)
        self.assertIn("torn tail", result.notes[-1])
        self.assertEqual(self.audit().differences[0].kind, Kind.DAMAGED)

    def test_copies_that_have_nothing_in_common_are_not_identical(self) -> None:
        self.cut(self.slave, FILE_SIZE)
        for base in (0, FILE_SIZE):
            (self.master / "commitlog" / file_name(base)).unlink()
        for lag in (False, True):
            result = self.audit(allow_lag=lag)
            self.assertFalse(result.identical)
            end = result.copies[1].end
            (gap,) = result.damaged
            self.assertEqual((gap.begin, gap.end, result.identical_up_to), (end, 2 * FILE_SIZE, end))
            self.assertIn(f"every store: [{end}, {2 * FILE_SIZE}): none of the stores has", str(gap))
        self.assertTrue(self.audit(span=Span(end=end)).identical)

    def test_a_gap_is_what_lies_between_all_stores(self) -> None:
        def found(*held: tuple[int, int], begin: int = 0, end: int | None = None) -> list[tuple[int, int]]:
            return auditing.gaps(
                [mock.Mock(min_offset=low, end=high) for low, high in held], Span(begin, end)
            )

        self.assertEqual(found((0, 10), (10, 20)), [])
        self.assertEqual(found((30, 40), (0, 10), (5, 20)), [(20, 30)])
        self.assertEqual(found((0, 50), (10, 20), (30, 60)), [])
        self.assertEqual(found((0, 10), (20, 30), (40, 50)), [(10, 20), (30, 40)])
        # One that is empty has no place in the log.
        self.assertEqual(found((0, 0), (20, 30)), [])
        self.assertEqual(found((0, 10), (20, 30), begin=12, end=15), [(12, 15)])
        self.assertEqual(found((0, 10), (20, 30), begin=20), [])


class ResultTests(AuditCase):
    def test_the_result_is_json(self) -> None:
        flip(self.slave, self.records[7].physical_offset + 90)
        told = json.loads(json.dumps(self.audit().as_json()))
        self.assertEqual(
            (told["identical"], told["identical_up_to"]), (False, self.records[7].physical_offset)
        )
        self.assertEqual(told["differences"][0]["record"]["topic"], self.records[7].topic)

    def test_the_page_names_what_is_wrong_and_needs_nothing_else(self) -> None:
        flip(self.slave, self.records[7].physical_offset + 40)
        page = audit_page(self.audit())
        self.assertIn(f"{self.records[7].physical_offset + 40:,}", page)
        self.assertIn("born timestamp + 0", page)
        for outside in ("http:", "https:", "<link", "src="):
            self.assertNotIn(outside, page.replace("http://www.w3.org", ""))
        self.assertIn(
            "identical", audit_page(self.audit(self.master, copy_store(self.master, self.folder / "c")))
        )


class QueueBreakTests(TestCase):
    def test_breaks_are_gaps_repetitions_and_new_beginnings(self) -> None:
        runs = [Run(5, 3, 0, 300), Run(10, 1, 400, 500), Run(9, 4, 600, 900), Run(0, 2, 1000, 1200)]
        found = list(queue_breaks({("T", 0): runs, ("A", 1): runs[:1]}))
        self.assertEqual([each.kind for each in found], ["gap", "repeated", "recreated"])
        self.assertEqual([each.counts for each in found], [True, True, False])
        self.assertEqual([(each.missing, each.after, each.before) for each in found][0], (2, 300, 400))
        self.assertEqual(
            str(found[0]),
            "T/0: gap: queue offset 10 instead of 8, 2 missing, between log offsets 300 and 400",
        )


class WrongInputTests(AuditCase):
    def test_one_store_alone_or_twice_is_refused(self) -> None:
        for stores in ((self.master,), (self.master, self.master)):
            with self.assertRaisesRegex(PipelineError, "at least two different"):
                self.audit(*stores)

    def test_a_span_that_nobody_holds_is_refused(self) -> None:
        with self.assertRaisesRegex(PipelineError, "nothing to compare"):
            self.audit(span=Span(begin=self.end))

    def test_stores_without_a_record_are_the_same(self) -> None:
        for name in ("one", "other"):
            save_log(self.folder / name, b"", file_size=FILE_SIZE)
        result = self.audit(self.folder / "one", self.folder / "other")
        self.assertEqual((result.identical, result.records), (True, 0))

    def test_stores_of_other_file_sizes_are_refused(self) -> None:
        write_store(self.folder / "other", 10, file_size=2 * FILE_SIZE)
        with self.assertRaisesRegex(PipelineError, "different brokers"):
            self.audit(self.master, self.folder / "other")

    def test_a_folder_that_is_no_store_is_refused(self) -> None:
        (self.folder / "empty").mkdir()
        with self.assertRaises(NotAStore):
            self.audit(self.master, self.folder / "empty")
        shutil.rmtree(self.slave)
        with self.assertRaises(NotAStore):
            self.audit()

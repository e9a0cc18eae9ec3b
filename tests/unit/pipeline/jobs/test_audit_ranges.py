"""Parts of logs followed and compared: what is damaged is found and named, wherever parts are cut."""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from unittest import TestCase

from hatwisted.logcodec.queueruns import QueueRuns, Run
from hatwisted.pipeline.jobs.rangecompare import (
    Difference,
    Kind,
    Part,
    PartFindings,
    RecordPlace,
    compare_part,
)
from hatwisted.pipeline.jobs.rangewalk import Filler, Step, edge, walk_range
from hatwisted.pipeline.jobs.recordfields import field_at
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.layout import file_name
from hatwisted.wire.record import encode_record, make_record
from hatwisted.wire.storedrecord import Record
from tests.support.copies import (
    FILE_SIZE,
    TwoCopiesCase,
    flip,
    log_bytes,
    patch,
    write_store,
)
from tests.support.golden import GOLDEN, GOLDEN_END

COUNT = 60
PARTS = (300, 1000, FILE_SIZE, 1 << 20)
"""Bytes a part has: less than a record, and more than the log."""


class CopiesTestCase(TwoCopiesCase):
    COUNT = COUNT

    def compared(self, size: int = 1 << 20, *, check_crc: bool = True) -> PartFindings:
        """The slave against the master, in parts of `size` bytes."""
        with ExitStack() as stack:
            logs = [stack.enter_context(closing(log)) for log in log_bytes(self.master, self.slave)]
            whole = PartFindings(0, self.end)
            for begin in range(0, self.end, size):
                part = Part(begin, min(begin + size, self.end), self.end, 0, (1,))
                found = compare_part(part, logs, check_crc=check_crc)
                if found.begin < found.end:
                    whole.add_part(found)
            return whole

    def record_at(self, offset: int) -> Record | None:
        """The record that an offset is in."""
        for record in self.records:
            if record.physical_offset <= offset < record.physical_offset + record.total_size:
                return record
        return None


class WalkTests(CopiesTestCase):
    def steps(self, store: Path, begin: int, end: int) -> list[Step]:
        with closing(log_bytes(store)[0]) as log:
            return list(walk_range(log, begin, end))

    def test_the_golden_log_is_records_a_blank_and_records(self) -> None:
        steps = self.steps(GOLDEN / "master", 0, GOLDEN_END)
        self.assertEqual(
            [(step.begin, step.filler) for step in steps], [(0, None), (65373, "blank"), (65536, None)]
        )
        self.assertEqual(sum(len(step.records) for step in steps if step.records is not None), 246)

    def test_parts_cut_anywhere_meet_without_gap_or_overlap(self) -> None:
        flip(self.master, self.records[20].physical_offset + 90)
        with closing(log_bytes(self.master)[0]) as log:
            whole = met(walk_range(log, 0, self.end))
            for size in (50, 77, 1000, FILE_SIZE + 1):
                edges = [edge(log, cut, self.end) for cut in (*range(0, self.end, size), self.end)]
                parts = [met(walk_range(log, *part)) for part in pairwise(edges)]
                self.assertEqual([each for part in parts for each in part], whole, f"parts of {size}")

    def test_damage_reaches_to_the_next_record(self) -> None:
        victim = self.records[7]
        flip(self.master, victim.physical_offset + 30)
        steps = self.steps(self.master, 0, self.end)
        bad = [step for step in steps if step.filler is Filler.DAMAGED]
        self.assertEqual(
            [(s.begin, s.end) for s in bad], [(victim.physical_offset, self.records[8].physical_offset)]
        )

    def test_damage_in_front_of_a_blank_ends_at_the_blank(self) -> None:
        blank = next(step for step in self.steps(self.master, 0, self.end) if step.filler is Filler.BLANK)
        last = next(r for r in self.records if r.physical_offset + r.total_size == blank.begin)
        flip(self.master, last.physical_offset)
        bad = [step for step in self.steps(self.master, 0, self.end) if step.filler is Filler.DAMAGED]
        self.assertEqual([(step.begin, step.end) for step in bad], [(last.physical_offset, blank.begin)])

    def test_a_damaged_blank_hides_nothing_of_the_next_file(self) -> None:
        blank = next(step for step in self.steps(self.master, 0, self.end) if step.filler is Filler.BLANK)
        flip(self.master, blank.begin)
        steps = self.steps(self.master, 0, self.end)
        bad = [step for step in steps if step.filler is Filler.DAMAGED]
        self.assertEqual([(step.begin, step.end) for step in bad], [(blank.begin, blank.end)])
        self.assertIn("blank of", bad[0].reason)

    def test_a_hole_of_zeros_is_distinguished_from_damage(self) -> None:
        first, behind = self.records[3], self.records[6]
        patch(self.master, first.physical_offset, bytes(behind.physical_offset - first.physical_offset))
        hole = [step for step in self.steps(self.master, 0, self.end) if step.filler is Filler.EMPTY]
        self.assertEqual([(s.begin, s.end) for s in hole], [(first.physical_offset, behind.physical_offset)])


def met(steps: Iterable[Step]) -> list[tuple[int, str]]:
    """What a walk came by: offset of each record and each filler, in order."""
    found: list[tuple[int, str]] = []
    for step in steps:
        if step.records is not None:
            found += [(offset, "record") for offset in step.records.physical_offsets.tolist()]
        elif step.begin == step.start:
            found.append((step.begin, f"{step.filler} {step.reason}"))
    return found


class CompareTests(CopiesTestCase):
    def test_equal_copies_are_equal_in_parts_of_any_size(self) -> None:
        for size in PARTS:
            found = self.compared(size)
            self.assertEqual((found.differences, found.bad, found.records), ([], [], COUNT))
            self.assertTrue(all(len(runs) == 1 for runs in found.queues.by_queue.values()))
            self.assertEqual(sum(runs[0].count for runs in found.queues.by_queue.values()), COUNT)

    def test_every_single_changed_byte_is_found_and_named(self) -> None:
        chosen = random.Random(4)
        for trial in range(40):
            offset = chosen.randrange(self.end)
            with self.subTest(trial=trial, offset=offset):
                flip(self.slave, offset)
                found = self.compared(chosen.choice(PARTS))
                flip(self.slave, offset)
                (difference,) = found.differences
                self.assertEqual((found.bad, difference.first_byte), ([], offset))
                self.judge(offset, difference)

    def judge(self, offset: int, difference: Difference) -> None:
        """Is the difference what one changed byte at `offset` makes?"""
        record = self.record_at(offset)
        if record is None:
            self.assertTrue(difference.kind is Kind.PADDING or difference.field == "blank")
            return
        position = offset - record.physical_offset
        self.assertEqual(difference.record, RecordPlace.of(record))
        self.assertEqual(difference.begin, record.physical_offset)
        self.assertEqual(difference.end, record.physical_offset + record.total_size)
        self.assertEqual((difference.field, difference.position), field_at(encode_record(record), position))
        if difference.field in ("body", "physical offset", "body length", "total size", "magic", "body CRC"):
            self.assertIs(difference.kind, Kind.DAMAGED)
        if difference.field in ("queue id", "flag", "queue offset", "store timestamp", "born timestamp"):
            self.assertIs(difference.kind, Kind.CHANGED)

    def test_a_changed_byte_of_the_reference_is_laid_to_the_reference(self) -> None:
        victim = self.records[9]
        offset = victim.physical_offset + 84
        flip(self.master, offset)
        for size in PARTS:
            found = self.compared(size)
            (difference,), (bad,) = found.differences, found.bad
            self.assertIs(difference.kind, Kind.REFERENCE_DAMAGED)
            self.assertEqual((difference.first_byte, difference.record), (offset, RecordPlace.of(victim)))
            self.assertEqual((difference.field, difference.position), ("body length", 0))
            self.assertEqual((bad.copy, bad.begin), (0, victim.physical_offset))
            self.assertEqual(bad.end, victim.physical_offset + victim.total_size)

    def test_damage_in_both_alike_is_no_difference_but_damage(self) -> None:
        victim = next(record for record in self.records if len(record.body) > 100)
        for store in (self.master, self.slave):
            flip(store, victim.physical_offset + 150)
        found = self.compared()
        self.assertEqual(found.differences, [])
        (bad,) = found.bad
        self.assertEqual((bad.begin, bad.reason[:13]), (victim.physical_offset, "body checksum"))
        self.assertEqual(self.compared(check_crc=False).bad, [])

    def test_records_that_a_copy_lacks_are_one_missing_range(self) -> None:
        first, behind = self.records[10], self.records[14]
        size = behind.physical_offset - first.physical_offset
        patch(self.slave, first.physical_offset, bytes(size))
        for part in PARTS:
            (difference,) = self.compared(part).differences
            self.assertEqual((difference.kind, difference.records), (Kind.MISSING, 4))
            self.assertEqual(
                (difference.begin, difference.end), (first.physical_offset, behind.physical_offset)
            )
            self.assertEqual(difference.record, RecordPlace.of(first))

    def test_a_file_that_a_copy_lacks_is_missing(self) -> None:
        (self.slave / "commitlog" / file_name(FILE_SIZE)).unlink()
        (difference,) = [each for each in self.compared().differences if each.records > 1]
        self.assertEqual((difference.kind, difference.begin), (Kind.MISSING, FILE_SIZE))

    def test_records_that_only_a_copy_has_are_extra(self) -> None:
        first, behind = self.records[10], self.records[14]
        patch(self.master, first.physical_offset, bytes(behind.physical_offset - first.physical_offset))
        found = self.compared(1000)
        (difference,) = found.differences
        self.assertEqual((difference.kind, difference.records), (Kind.EXTRA, 4))
        self.assertEqual((difference.begin, difference.end), (first.physical_offset, behind.physical_offset))
        self.assertEqual(
            [(bad.begin, bad.reason) for bad in found.bad],
            [(first.physical_offset, "nothing is written here")],
        )

    def test_another_history_is_distinguished_from_damage(self) -> None:
        other = write_store(self.folder / "other", COUNT, seed=2)
        fork = next(
            r for r in self.records if r.physical_offset > FILE_SIZE and r.physical_offset % FILE_SIZE == 0
        )
        for name in sorted(path.name for path in (self.slave / "commitlog").iterdir()):
            source = self.folder / "other" / "commitlog" / name
            if int(name) >= fork.physical_offset and source.exists():
                (self.slave / "commitlog" / name).write_bytes(source.read_bytes())
        self.assertTrue(any(record.physical_offset == fork.physical_offset for record in other))
        found = self.compared()
        self.assertEqual(found.differences[0].begin, fork.physical_offset)
        kinds = {difference.kind for difference in found.differences}
        self.assertIn(Kind.REPLACED, kinds)
        self.assertNotIn(Kind.DAMAGED, kinds)

    def test_bytes_after_a_blank_are_no_difference_of_records(self) -> None:
        with closing(log_bytes(self.master)[0]) as log:
            blank = next(step for step in walk_range(log, 0, self.end) if step.filler is Filler.BLANK)
        patch(self.slave, blank.begin + 8, b"\1")
        (difference,) = self.compared().differences
        self.assertFalse(difference.kind.counts)
        self.assertEqual(difference.first_byte, blank.begin + 8)

    def test_garbage_on_both_sides_that_differs_is_debris(self) -> None:
        victim = self.records[5].physical_offset
        flip(self.master, victim + 4)
        flip(self.slave, victim + 5)
        (difference,) = self.compared().differences
        self.assertEqual((difference.kind, difference.first_byte), (Kind.DEBRIS, victim + 4))

    def test_a_queue_with_a_lost_message_falls_into_two_runs(self) -> None:
        victim = next(
            r for r in self.records[20:] if (r.topic, r.queue_id, r.queue_offset) == ("Events", 0, 2)
        )
        for store in (self.master, self.slave):
            flip(store, victim.physical_offset)
        for size in PARTS:
            before, after = self.compared(size).queues.by_queue["Events", 0]
            self.assertEqual((before.first, before.count, after.first), (0, 2, 3))


class FieldTests(TestCase):
    def test_every_byte_of_a_record_has_its_field(self) -> None:
        for version, sys_flag in ((1, 0), (2, 0), (1, 0x30), (1, 0x10)):
            host = HostPort(bytes(16), 1) if sys_flag & 0x10 else HostPort(bytes(4), 1)
            store = HostPort(bytes(16), 1) if sys_flag & 0x20 else HostPort(bytes(4), 1)
            record = make_record(
                "Tö", b"body", raw_properties=b"a\1b", version=version, born_host=host, store_host=store
            )
            raw = encode_record(record)
            names = [field_at(raw, position)[0] for position in range(len(raw))]
            self.assertEqual(
                (names.count("body"), names.count("topic"), names.count("properties")), (4, 3, 3)
            )
            self.assertEqual(names.count("topic length"), version)
            self.assertEqual(names.count("born host"), 8 + 12 * bool(sys_flag & 0x10))
            self.assertNotIn("record", names)

    def test_bytes_that_are_no_record_have_no_fields(self) -> None:
        self.assertEqual(field_at(b"\0\0\0\x09nonsense", 5), ("record", 5))


class RunTests(TestCase):
    def test_runs_of_neighbouring_stretches_join(self) -> None:
        first, second = QueueRuns(), QueueRuns()
        first.add(("T", 0), Run(0, 3, 0, 300))
        second.add(("T", 0), Run(3, 2, 400, 600))
        second.add(("T", 1), Run(7, 1, 600, 700))
        whole = QueueRuns.joined((first, second))
        self.assertEqual(whole.by_queue, {("T", 0): [Run(0, 5, 0, 600)], ("T", 1): [Run(7, 1, 600, 700)]})

    def test_a_recreated_topic_starts_another_run(self) -> None:
        runs = QueueRuns()
        runs.add(("T", 0), Run(0, 3, 0, 300))
        runs.add(("T", 0), Run(0, 1, 400, 500))
        self.assertEqual([run.first for run in runs.by_queue["T", 0]], [0, 0])

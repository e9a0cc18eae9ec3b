"""Walking logs over chunk ends, damage, torn tails and leftovers."""

from __future__ import annotations

import random
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.logcodec import logwalk
from hatwisted.logcodec.logwalk import LogWalk, WalkOptions
from hatwisted.logcodec.recordsearch import written_end
from hatwisted.logcodec.window import LogBytes
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.wholefile import replace_file
from hatwisted.wire.record import encode_blank, encode_record, make_record
from hatwisted.wire.storedrecord import Record
from tests.support.clistores import golden_copy, open_log, overwrite, write_log
from tests.support.golden import GOLDEN_END


class WalkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store = Path(self.mktemp())

    def walk(self, file_size: int = 4096, **options: object) -> tuple[LogWalk, list[int]]:
        log = open_log(self.store, file_size)
        walk = LogWalk(log, **{"start": log.min_offset, **options})  # type: ignore[arg-type]
        return walk, [offset for scan in walk for offset in scan.physical_offsets.tolist()]

    def written(self) -> tuple[list[Record], int]:
        log = write_log(self.store, [bytes([65 + n]) * (37 * n % 300) for n in range(60)])
        return log.records, log.end

    def test_golden_log(self) -> None:
        golden_copy(str(self.store))
        walk, offsets = self.walk(65536)
        self.assertEqual((len(offsets), offsets[:2], walk.damages), (246, [0, 227], []))
        self.assertEqual(walk.end, logwalk.LogEnd(GOLDEN_END, 0, "nothing is written here", False, None))

    def test_any_chunk_size_finds_the_same_records(self) -> None:
        records, end = self.written()
        for size in (600, 1000, 4096, 10_000):
            walk, offsets = self.walk(options=WalkOptions(read_size=size))
            self.assertEqual(offsets, [record.physical_offset for record in records], size)
            self.assertEqual((walk.end.offset if walk.end else None, walk.damages), (end, []))

    def test_record_longer_than_a_chunk(self) -> None:
        self.patch(logwalk, "CHUNK", 128)
        records, _ = self.written()
        self.assertEqual(len(self.walk()[1]), len(records))

    def test_start_and_stop_at_files(self) -> None:
        records, _ = self.written()
        _, offsets = self.walk(start=4096, stop=8192)
        inside = [at for record in records if 4096 <= (at := record.physical_offset) < 8192]
        self.assertEqual(offsets, inside)

    def test_progress_rises_to_the_end(self) -> None:
        _, end = self.written()
        reached: list[int] = []
        self.walk(progress=reached.append)
        self.assertEqual((reached, reached[-1]), (sorted(reached), end))

    def test_damage_in_a_body_is_passed_over_and_named(self) -> None:
        records, _ = self.written()
        bad, following = records[20], records[21]
        overwrite(self.store, bad.physical_offset + 90, b"\xff", 4096)
        walk, offsets = self.walk()
        self.assertEqual(len(offsets), len(records) - 1)
        ((offset, resumes_at, reason),) = walk.damages
        self.assertEqual((offset, resumes_at), (bad.physical_offset, following.physical_offset))
        self.assertIn("body checksum", reason)

    def test_damage_that_looks_like_the_end(self) -> None:
        records, end = self.written()
        first, behind = records[10], records[14]
        size = behind.physical_offset - first.physical_offset
        overwrite(self.store, first.physical_offset, bytes(size), 4096)
        walk, offsets = self.walk()
        self.assertEqual(len(offsets), len(records) - 4)
        expected = logwalk.Damage(first.physical_offset, behind.physical_offset, "nothing is written here")
        self.assertEqual(walk.damages, [expected])
        self.assertEqual(walk.end.offset if walk.end else None, end)

    def test_every_damage_is_named(self) -> None:
        records, _ = self.written()
        for number in (3, 17, 40):
            overwrite(self.store, records[number].physical_offset + 4, b"????", 4096)
        walk, offsets = self.walk()
        self.assertEqual(
            [damage.offset for damage in walk.damages], [records[n].physical_offset for n in (3, 17, 40)]
        )
        self.assertEqual(len(offsets), len(records) - 3)

    def test_how_far_anything_is_written_is_not_looked_for_at_every_damage(self) -> None:
        records, end = self.written()
        bad = records[5:50:5]
        for record in bad:
            overwrite(self.store, record.physical_offset + 90, b"\xff", 4096)
        asked: list[int] = []

        def counted(log: LogBytes, offset: int, known: int) -> int:
            asked.append(offset)
            return written_end(log, offset, known)

        walk, offsets = self.walk(options=WalkOptions(written_end=counted))
        self.assertEqual(len(offsets), len(records) - len(bad))
        self.assertEqual([damage.offset for damage in walk.damages], [one.physical_offset for one in bad])
        self.assertEqual(asked, [bad[0].physical_offset, end])
        self.assertEqual(walk.end, logwalk.LogEnd(end, 0, "nothing is written here", False, None))

    def test_bogus_size_does_not_swallow_what_follows(self) -> None:
        records, _ = self.written()
        for size in (4096, 1 << 20, (1 << 31) - 1):
            overwrite(self.store, records[5].physical_offset, size.to_bytes(4, "big"), 4096)
            walk, offsets = self.walk()
            self.assertEqual((len(offsets), len(walk.damages)), (len(records) - 1, 1), size)

    def test_blank_that_does_not_end_with_its_file(self) -> None:
        records, _ = self.written()
        overwrite(self.store, records[5].physical_offset, encode_blank(100), 4096)
        walk, _ = self.walk()
        self.assertIn("blank of 100 bytes where the file has", walk.damages[0].reason)

    def test_record_torn_anywhere_is_a_tail_and_no_damage(self) -> None:
        records, end = self.written()
        last = encode_record(records[-1])
        for kept in (1, 7, 8, 60, len(last) - 1):
            overwrite(self.store, records[-1].physical_offset, last[:kept].ljust(len(last), b"\0"), 4096)
            walk, offsets = self.walk()
            assert walk.end is not None
            self.assertEqual(walk.damages, [])
            if walk.end.torn_record is None:
                self.assertEqual(walk.end.offset, records[-1].physical_offset)
                self.assertEqual(walk.end.torn, len(last[:kept].rstrip(b"\0")))
            else:
                self.assertEqual(walk.end.torn_record, records[-1].physical_offset)

    def test_what_an_earlier_cut_left_is_no_damage(self) -> None:
        """The log was cut at record 50 and a newer, shorter record written there; 52 and on are leftovers."""
        records, _ = self.written()
        at = records[50].physical_offset
        newer = make_record("T", b"new", physical_offset=at, store_timestamp=1_800_000_000_000)
        overwrite(self.store, at, encode_record(newer), 4096)
        walk, offsets = self.walk()
        assert walk.end is not None
        self.assertEqual((offsets[-1], walk.damages), (at, []))
        self.assertEqual((walk.end.offset, walk.end.leftovers), (at + newer.total_size, True))

    def test_the_last_file_may_be_full(self) -> None:
        records, _ = self.written()
        starts = [path for path in (self.store / "commitlog").iterdir() if int(path.name) >= 8192]
        for path in starts:
            path.unlink()
        walk, _ = self.walk()
        self.assertEqual(walk.end, logwalk.LogEnd(8192, 0, "the last file is full", False, None))

    def test_noise_ends_the_walk_without_an_error(self) -> None:
        chance = random.Random(7)
        folder = self.store / "commitlog"
        folder.mkdir(parents=True)
        fs = PosixFileSystem()
        for _ in range(30):
            replace_file(fs, str(folder / ("0" * 20)), chance.randbytes(2048))
            walk, offsets = self.walk(2048)
            self.assertEqual((offsets, walk.damages), ([], []))
            self.assertGreater(walk.end.torn if walk.end else 0, 2000)

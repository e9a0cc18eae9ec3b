"""A hole that a failure of power has left in what was never synced is cut; damage to what was synced isn't."""

from hatwisted.store.errors import DamagedLog
from tests.unit.store.powerloss import PowerLossCase

SECTOR = 512


class HoleTests(PowerLossCase):
    def written_on(self, seconds: float = 12) -> int:
        """Messages that are synced, with a checkpoint that says so, and some that only the kernel has; the synced
        ones' end."""
        self.start()
        self.put("T", b"promised" * 50, 20)
        self.flush()
        self.pass_time(seconds)
        synced = self.store.log.max_offset
        self.clock.advance(0.01)
        self.put("T", b"not yet synced" * 60, 12)
        return synced

    def lose_sectors(self, begin: int, end: int) -> None:
        """The kernel has written all pages but these sectors when the power fails."""
        inode = self.disk.names.files[f"/s/commitlog/{0:020d}"]
        self.kernel_writes("commitlog")
        first, last = begin // SECTOR * SECTOR, -(-end // SECTOR) * SECTOR
        inode.stable[max(first, begin) : last] = bytes(last - max(first, begin))
        self.lose_power()

    def test_B168_behind_a_hole_nothing_was_promised(self) -> None:
        synced = self.written_on()
        self.lose_sectors(synced + 2000, synced + 2600)
        report = self.start()
        self.assertTrue(synced < report.end < synced + 2600)
        self.assertGreaterEqual(len(self.bodies("T")), 20)
        written = report.end + report.torn_bytes
        self.assertEqual(report.kept_aside, f"/s/repair/{report.end:020d}-{written:020d}.bin")
        kept = self.disk.read(report.kept_aside)
        self.assertEqual(len(kept), report.torn_bytes)
        self.assertIn(b"not yet synced" * 60, kept)

    def test_B168_the_store_goes_on_as_if_they_had_never_been(self) -> None:
        synced = self.written_on()
        self.lose_sectors(synced + 1000, synced + 1600)
        end = self.start().end
        (put,) = self.put("T", b"anew")
        self.assertEqual(put.offset, end)
        self.flush()
        self.dispatch()
        self.lose_power()
        self.start()
        self.dispatch()
        self.assertIn(b"anew", self.bodies("T")[-1])

    def test_B168_what_a_checkpoint_covers_is_damage(self) -> None:
        synced = self.written_on()
        self.lose_sectors(synced - 5000, synced - 4400)
        self.assertRaises(DamagedLog, self.start)

    def test_B168_the_sector_of_a_hole_may_end_in_the_zeros_that_the_next_record_begins_with(self) -> None:
        self.written_on()
        # So that the one after it begins two bytes before a sector does.
        (first,) = self.put("T", b"x")
        overhead = first.end - first.offset - 1
        room = SECTOR - (first.end + overhead + 2) % SECTOR
        (before,) = self.put("T", b"x" * room)
        self.assertEqual((before.end + 2) % SECTOR, 0)
        (victim,) = self.put("T", b"y" * (SECTOR - overhead))
        self.assertEqual((victim.end + 2) % SECTOR, 0)
        self.put("T", b"behind it" * 60, 3)
        self.lose_sectors(victim.offset + 2, victim.end + 2)
        self.assertEqual(self.start().end, victim.offset)

    def test_B168_the_rest_of_a_sector_may_be_no_more_than_a_record_s_length_and_magic(self) -> None:
        for rest, is_hole in ((8, True), (7, False)):
            self.disk.names.files.clear()
            self.written_on()
            (first,) = self.put("T", b"x")
            overhead = first.end - first.offset - 1
            (before,) = self.put("T", b"x" * (SECTOR - (first.end + overhead + rest) % SECTOR))
            self.assertEqual((before.end + rest) % SECTOR, 0)
            self.put("T", b"whole but for its first bytes", 3)
            self.lose_sectors(before.end, before.end + rest)
            if is_hole:
                self.assertEqual(self.start().end, before.end)
                self.kill()
            else:
                self.assertRaises(DamagedLog, self.start)

    def test_B168_changed_bytes_are_damage_and_no_hole(self) -> None:
        synced = self.written_on()
        self.kernel_writes("commitlog")
        self.disk.names.files[f"/s/commitlog/{0:020d}"].stable[synced + 300] ^= 1
        self.lose_power()
        self.assertRaises(DamagedLog, self.start)

    def test_B168_before_the_first_round_nothing_is_known_to_be_synced(self) -> None:
        synced = self.written_on(seconds=2)
        self.lose_sectors(synced + 2000, synced + 2600)
        self.assertLess(self.start().end, synced + 2600)

    def test_B168_a_clock_that_was_ahead_makes_no_difference(self) -> None:
        """Its times are impossible now, what was synced is known all the same."""
        for lost, is_hole in ((2000, True), (-5000, False)):
            self.disk.names.files.clear()
            self.clock.advance(100 * 24 * 3600)
            synced = self.written_on()
            self.lose_sectors(synced + lost, synced + lost + 600)
            self.clock.rightNow -= 100 * 24 * 3600
            if is_hole:
                self.assertTrue(synced < self.start().end < synced + 2600)
                self.kill()
            else:
                self.assertRaises(DamagedLog, self.start)

    def test_B168_what_rocketmq_has_synced_since_our_note_is_damage(self) -> None:
        synced = self.written_on(seconds=2)
        note = self.disk.read("/s/checkpoint")[-48:]
        self.flush()
        self.pass_time(12)
        self.lose_sectors(synced + 2000, synced + 2600)
        file = self.disk.open("/s/checkpoint")
        file.pwrite((note,), 4096 - len(note))
        file.datasync()
        self.assertRaises(DamagedLog, self.start)

    def test_B168_without_a_checkpoint_it_is_not_known_what_was(self) -> None:
        synced = self.written_on()
        self.lose_sectors(synced + 2000, synced + 2600)
        self.disk.remove("/s/checkpoint")
        self.assertRaises(DamagedLog, self.start)

    def test_B168_where_the_system_has_gone_on_no_page_can_be_missing(self) -> None:
        synced = self.written_on()
        self.lose_sectors(synced + 2000, synced + 2600)
        self.assertRaises(DamagedLog, self.start, same_boot=True)

    def test_B168_a_hole_that_begins_in_a_record_s_properties(self) -> None:
        synced = self.written_on()
        (put,) = self.put("T", b"whole but for its properties", properties=b"k\1" + b"v" * 900 + b"\2")
        self.put("T", b"behind it" * 60, 9)
        self.lose_sectors(put.end - 300, put.end + 300)
        report = self.start()
        self.assertEqual(report.end, put.offset)
        self.assertGreater(report.store_timestamp, 0)
        self.assertIn(b"whole but for", self.disk.read(report.kept_aside))
        self.assertNotIn(b"", self.bodies("T"))
        self.assertGreater(put.offset, synced)

    def test_B168_a_synced_record_without_its_properties_is_damage(self) -> None:
        self.start()
        (put,) = self.put("T", b"promised", properties=b"k\1" + b"v" * 900 + b"\2")
        self.put("T", b"promised too" * 60, 9)
        self.flush()
        self.pass_time(12)
        self.lose_sectors(put.end - 300, put.end + 300)
        self.assertRaises(DamagedLog, self.start)

    def test_a_file_kept_before_is_not_overwritten(self) -> None:
        synced = self.written_on()
        self.lose_sectors(synced + 2000, synced + 2600)
        stable = bytes(self.disk.names.files[f"/s/commitlog/{0:020d}"].stable)
        first = self.start().kept_aside
        self.lose_power()
        self.disk.names.files[f"/s/commitlog/{0:020d}"].stable[:] = stable
        self.lose_power()
        second = self.start().kept_aside
        self.assertEqual((second, self.disk.read(first)), (first + ".1", self.disk.read(second)))

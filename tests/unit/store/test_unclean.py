"""What a store may claim after its process was killed."""

import errno

from hatwisted.store.log.put import PutStatus
from tests.unit.store.test_messagestore import DEAF, StoreTestCase


class AfterAKillTests(StoreTestCase):
    def test_B91_what_was_not_synced_before_does_not_count_as_flushed(self) -> None:
        store, _ = self.opened()
        puts = self.put(store, 3)
        self.assertEqual(store.log.flushed_offset, 0)
        self.kill()
        store, report = self.opened()
        self.assertTrue(report.unclean)
        self.assertEqual((store.log.max_offset, store.log.flushed_offset), (puts[-1].end, 0))
        self.assertEqual(self.successResultOf(store.flusher.flush_now()), puts[-1].end)

    def test_after_a_clean_exit_everything_counts(self) -> None:
        store, _ = self.opened()
        puts = self.put(store, 3)
        self.stop(store)
        store, _ = self.opened()
        self.assertEqual(store.log.flushed_offset, puts[-1].end)


class RefusedPutTests(StoreTestCase):
    def test_B167_what_a_failed_write_has_left_is_no_message_after_a_kill(self) -> None:
        for written in (0, 60, 10_000):
            with self.subTest(written=written):
                store, _ = self.opened()
                self.put(store, 3)
                end = store.log.max_offset
                self.fs.fail("pwrite", error=errno.EIO, path="commitlog", partial=written)
                store.log._log = DEAF
                (refused,) = self.put(store)
                self.assertEqual((refused.status, refused.offset), (PutStatus.UNKNOWN_ERROR, -1))
                self.kill()
                store, report = self.opened()
                self.assertEqual((report.end, report.torn_bytes), (end, 0))
                self.kill()

    def test_B167_a_put_that_was_never_written_is_known_not_to_be_stored(self) -> None:
        """The disk doesn't even take the zeros over what the write before it has left."""
        store, _ = self.opened()
        store.log._log = DEAF
        fault = self.fs.fail("pwrite", error=errno.EIO, path="commitlog", times=None, partial=50)
        first, second = self.put(store), self.put(store)
        self.assertEqual(first[0].status, PutStatus.UNKNOWN_ERROR)
        self.assertEqual(second[0].status, PutStatus.SERVICE_NOT_AVAILABLE)
        fault.lift()
        (third,) = self.put(store)
        self.assertEqual((third.status, third.offset, third.queue_offset), (None, 0, 0))

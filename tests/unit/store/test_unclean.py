"""What a store may claim after its process was killed."""

from tests.unit.store.test_messagestore import StoreTestCase


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

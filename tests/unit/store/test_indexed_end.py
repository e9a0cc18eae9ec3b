"""What a clean restart dispatches again for the index: nothing, however long ago a message had a key."""

from __future__ import annotations

import shutil

from hatwisted.store.lifecycle.recovery import RecoveryReport
from hatwisted.store.log.put import Put
from hatwisted.store.messagestore import MessageStore
from tests.unit.store.test_messagestore import HOST, StoreTestCase


class IndexedEndTests(StoreTestCase):
    def keyless(self, store: MessageStore, count: int) -> None:
        for number in range(count):
            store.append([Put("T", number % 2, ((0, b"x" * 200, b""),), HOST, 1)])
        self.clock.pump([0.006] * 5)

    def restarted(self, store: MessageStore, **options: object) -> tuple[MessageStore, RecoveryReport]:
        self.stop(store)
        return self.opened(**options)

    def begun(self, keys: int, keyless: int) -> tuple[MessageStore, list[Put]]:
        """A store with messages that have keys, followed by some without."""
        store, _ = self.opened()
        puts = self.put(store, keys)
        self.keyless(store, keyless)
        return store, puts

    def test_messages_without_keys_are_not_dispatched_again(self) -> None:
        for keys in (0, 5):
            self.root = self.mktemp()
            store, puts = self.begun(keys, 40)
            for _ in range(2):
                store, report = self.restarted(store)
                self.assertEqual((report.unclean, report.dispatched_bytes), (False, 0))
            self.assertHolds(store, puts)
            more = self.put(store, 3)
            store, report = self.restarted(store)
            self.assertEqual(report.dispatched_bytes, 0)
            self.assertHolds(store, more)
            self.stop(store)

    def test_a_removed_index_is_built_again(self) -> None:
        store, puts = self.begun(5, 40)
        self.stop(store)
        shutil.rmtree(self.path("index"))
        store, report = self.opened()
        self.assertEqual(report.dispatched_from, 0)
        self.assertHolds(store, puts)

    def test_an_index_that_was_switched_off_meanwhile_is_made_up_for(self) -> None:
        store, _ = self.begun(0, 10)
        store, report = self.restarted(store, index_enable=False)
        self.assertEqual(report.dispatched_bytes, 0)
        puts = self.put(store, 5)
        store, report = self.restarted(store)
        self.assertEqual(report.dispatched_from, 0)
        self.assertHolds(store, puts)

    def test_the_note_is_not_believed_beyond_what_was_synced_at_an_unclean_exit(self) -> None:
        store, puts = self.begun(5, 40)
        store, _ = self.restarted(store)
        self.kill()
        store, report = self.opened()
        self.assertTrue(report.unclean)
        self.assertLessEqual(report.dispatched_from, report.start)
        self.assertHolds(store, puts)

    def test_the_note_goes_on_with_each_sync_while_the_store_runs(self) -> None:
        store, _ = self.begun(5, 40)
        store, _ = self.restarted(store)
        (*_, last) = self.put(store)
        self.clock.pump([1.0] * 70)
        store.checkpoint.load()
        self.assertEqual(store.checkpoint.indexed, (last.offset, store.log.max_offset))

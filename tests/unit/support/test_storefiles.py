"""The judge judged: what RocketMQ wrote passes, and any harm done to it is found."""

from __future__ import annotations

import shutil
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from testbed import storefiles
from tests.support.golden import GOLDEN


class StoreFilesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store = Path(self.mktemp())
        shutil.copytree(GOLDEN / "master", self.store)

    def spoil(self, path: Path, at: int) -> None:
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 1]))

    def test_the_golden_pair_is_identical_and_its_queues_follow(self) -> None:
        end = storefiles.log_end(GOLDEN / "master")
        self.assertEqual(storefiles.log_end(GOLDEN / "slave"), end)
        self.assertIsNone(storefiles.first_difference(GOLDEN / "master", GOLDEN / "slave", end))

    def test_one_flipped_bit_is_found_where_it_is(self) -> None:
        files = storefiles.log_files(self.store)
        for start, path in files[:2]:
            self.spoil(path, 777)
            self.assertEqual(
                storefiles.first_difference(GOLDEN / "master", self.store, start + 1000), start + 777
            )
            self.spoil(path, 777)

    def test_a_difference_is_told_with_its_place_and_extent(self) -> None:
        start, path = storefiles.log_files(self.store)[0]
        self.spoil(path, 777)
        told = storefiles.difference_told(GOLDEN / "master", self.store, start + 777)
        self.assertIn(f"1 of 1 bytes from {start + 777} on differ", told)
        self.assertIn(f"master: {path.read_bytes()[777] ^ 1:02x} ", told)
        self.assertIn(f"file from {start}, record ", told)

    def test_a_spoiled_body_is_found(self) -> None:
        message = next(each for each in storefiles.read_log(self.store) if each.body)
        _, path = storefiles.log_files(self.store)[0]
        self.spoil(path, path.read_bytes().index(message.body))
        self.assertRaises(storefiles.BadStore, lambda: list(storefiles.read_log(self.store)))

    def test_a_missing_queue_entry_is_found(self) -> None:
        topic, queue_id = next(iter(storefiles.expected_queues(self.store)))
        folder = self.store / "consumequeue" / topic / str(queue_id)
        shutil.rmtree(folder)
        self.assertRaises(storefiles.BadStore, storefiles.check_queues, self.store)

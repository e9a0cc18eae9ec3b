"""Names of deleted queues' folders, there and back; names that no folder can have."""

from __future__ import annotations

from unittest import TestCase

from hatwisted.wire.storenames import deleted_queue_name, is_queue_name, parse_deleted_queue_name


class NameTests(TestCase):
    def test_a_deleted_queues_name_is_read_back(self) -> None:
        for topic in ("Orders", "%RETRY%group", "Größen🚀"):
            self.assertEqual(
                parse_deleted_queue_name(deleted_queue_name(topic, 3, 1 << 40)), (topic, 3, 1 << 40)
            )
        for name in ("Orders", "Orders@3", "Orders@x@7", "Orders@3@-7", "@", ""):
            self.assertIsNone(parse_deleted_queue_name(name), name)

    def test_what_cant_be_a_folder(self) -> None:
        self.assertTrue(is_queue_name("..T", 0))
        for topic in ("", ".", "..", "a/b", "a\0b"):
            self.assertFalse(is_queue_name(topic, 0), topic)
        self.assertFalse(is_queue_name("T", -1))

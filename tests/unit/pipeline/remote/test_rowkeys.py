"""Keys of rows: the same for the same rows in any order, never two rows' in one task."""

from __future__ import annotations

import random
from unittest import TestCase
from unittest.mock import patch

from hatwisted.pipeline.remote import rowkeys
from hatwisted.pipeline.remote.rowkeys import RowKeys


def keys_of(bodies: list[bytes], write: str = "query/7", partition: int = 3) -> list[str]:
    keys = RowKeys(write, partition)
    return [keys.next("Orders", body, b"") for body in bodies]


class RowKeysTest(TestCase):
    def test_a_repetition_in_another_order_has_the_same_keys(self) -> None:
        bodies = [b"%d" % (number % 40) for number in range(100)]
        first = dict.fromkeys(zip(bodies, keys_of(bodies), strict=True))
        self.assertEqual(len({key for _, key in first}), 100)
        random.Random(4).shuffle(bodies)
        self.assertEqual(set(zip(bodies, keys_of(bodies), strict=True)), set(first))

    def test_other_writes_parts_and_contents_have_other_keys(self) -> None:
        found = keys_of([b"a"]) + keys_of([b"a"], write="query/8") + keys_of([b"a"], partition=4)
        keys = RowKeys("query/7", 3)
        found += [
            keys.next("Order", b"sa", b""),
            keys.next("Orders", b"", b"a"),
            keys.next("Other", b"a", b""),
        ]
        self.assertEqual(len(set(found)), 6)

    def test_beyond_what_is_counted_no_two_rows_share_a_key(self) -> None:
        with patch.object(rowkeys, "ORDER_FREE_ROWS", 10):
            bodies = [b"same"] * 25 + [b"other"] * 5
            found = keys_of(bodies)
            self.assertEqual(keys_of(bodies), found)
        self.assertEqual(len(set(found)), 30)
        self.assertEqual(found[:10], keys_of(bodies)[:10])

    def test_they_look_like_a_java_clients_of_the_months_beginning(self) -> None:
        """mqadmin looks for a key from the time on that its bytes 10 to 13 tell."""
        for number, key in enumerate(keys_of([b"x"] * 3)):
            self.assertRegex(key, "^[0-9A-F]{32}$")
            self.assertEqual(int(key[20:28], 16), number)

"""What a key index must say, in words: the checker by itself."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.history import Place, Seen, Sent
from hatwisted.sim.indexcheck import check_index
from tests.unit.sim.queuestore import seen


class Index:
    """A store of an index only: key k3 of topic T."""

    name = "a"

    def __init__(self, items: dict[int, Seen | None] | None) -> None:
        self.items = items

    def indexed(self, topic: str, key: str) -> dict[int, Seen | None] | None:
        return {} if self.items is not None and (topic, key) != ("T", "k3") else self.items


class IndexTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.sent = Sent(number=10, topic="T", queue_id=0, body=b"%08d" % 10, sent_at=0.0)
        self.sent.place = Place("T", 0, 0, 0)
        self.sent.on.add("a")

    def check(self, items: dict[int, Seen | None] | None) -> list[str]:
        return [violation.what for violation in check_index([self.sent], Index(items))]

    def test_items_that_name_records_with_their_key_are_right(self) -> None:
        self.assertEqual(self.check({0: seen("T", 0, 10), 300: seen("T", 3, 3)}), [])

    def test_items_that_name_nothing_or_something_else_are_reported(self) -> None:
        items = {0: seen("T", 0, 10), 100: None, 200: seen("T", 2, 4), 300: seen("U", 3, 3)}
        self.assertEqual(
            self.check(items),
            [
                "the index of a has k3 of T at 100, where there is no record",
                "the index of a has k3 of T at 200, where there is message 4 of T",
                "the index of a has k3 of T at 300, where there is message 3 of U",
            ],
        )

    def test_a_promised_message_that_it_lacks_is_reported(self) -> None:
        self.assertEqual(self.check({}), ["message 10 isn't in the index of a"])
        self.sent.on.clear()
        self.assertEqual(self.check({}), [])

    def test_without_an_index_nothing_is_promised(self) -> None:
        self.assertEqual(self.check(None), [])

"""Whose held pull is looked at next."""

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.pull.pullturns import PullTurns


class PullTurnsTests(SynchronousTestCase):
    """Pulls are letters, a connection's a list of them."""

    def setUp(self) -> None:
        self.turns = PullTurns[str]()

    def order(self) -> list[str | None]:
        found = []
        while self.turns:
            found.append(self.turns.next())
        return found

    def test_queues_take_turns(self) -> None:
        self.turns.add("T", [["a", "b", "c"]])
        self.turns.add("U", [["x"]])
        self.assertEqual(self.order(), ["a", "x", "b", "c"])

    def test_connections_of_a_queue_take_turns(self) -> None:
        self.turns.add("T", [["a", "b", "c"], ["x", "y"]])
        self.assertEqual(self.order(), ["a", "x", "b", "y", "c"])

    def test_a_queue_that_comes_later_waits_for_one_of_the_other(self) -> None:
        self.turns.add("T", [["a", "b", "c", "d"]])
        self.assertEqual(self.turns.next(), "a")
        self.turns.add("U", [["x"]])
        self.assertEqual(self.order(), ["b", "x", "c", "d"])

    def test_a_queue_is_there_until_its_last_pull(self) -> None:
        self.assertFalse(self.turns)
        self.turns.add("T", [["a", "b"]])
        self.turns.add("U", [])
        self.assertEqual(("T" in self.turns, "U" in self.turns), (True, False))
        self.assertEqual(self.order(), ["a", "b"])
        self.assertNotIn("T", self.turns)

    def test_pulls_that_are_gone_before_the_first_turn_are_left_out(self) -> None:
        first, second = {"a": None}, {"x": None}
        self.turns.add("T", [first, second])
        del first["a"]
        self.assertEqual(self.order(), [None, "x"])

    def test_clear(self) -> None:
        self.turns.add("T", [["a", "b"]])
        self.turns.clear()
        self.assertFalse(self.turns)
        self.assertNotIn("T", self.turns)

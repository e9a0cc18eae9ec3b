"""Members of groups that change are told, a slice of time in each turn."""

from collections.abc import Hashable

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.consumer.membernotices import SLICE, Leavers, MemberNotices


class MemberNoticesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.members: dict[str, list[Hashable]] = {"g": ["a", "b"], "h": ["a"]}
        self.told: list[object] = []
        self.takes = 0.0
        self.notices = MemberNotices(self.clock, lambda group: self.members.get(group, ()), self.tell)

    def tell(self, group: str, member: Hashable) -> None:
        self.told.append((group, member))
        self.clock.rightNow += self.takes

    def test_few_are_told_at_once(self) -> None:
        self.notices.changed("g")
        self.notices.changed("h")
        self.assertEqual(self.told, [("g", "a"), ("g", "b"), ("h", "a")])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_many_take_turns_with_all_else(self) -> None:
        self.takes = SLICE / 2.2
        self.members["g"] = list("abcdef")
        self.notices.changed("g")
        self.assertEqual(self.told, [("g", "a"), ("g", "b"), ("g", "c")])
        self.clock.callLater(0, self.told.append, "else")
        self.notices.changed("h")
        self.clock.advance(0)
        self.assertEqual(self.told[3:6], [("g", "d"), ("g", "e"), ("g", "f")])
        self.assertEqual(self.told[6:], ["else", ("h", "a")])

    def test_changes_before_its_turn_are_told_of_once_and_to_those_who_are_there_then(self) -> None:
        self.takes = 0.01
        self.notices.changed("g")
        for _ in range(3):
            self.notices.changed("h")
        self.members["h"] = ["c"]
        self.clock.advance(0)
        self.assertEqual(self.told, [("g", "a"), ("g", "b"), ("h", "c")])

    def test_a_change_within_its_turn_is_told_of_once_more(self) -> None:
        self.takes = 0.01
        self.notices.changed("g")
        self.notices.changed("g")
        self.clock.advance(0)
        self.assertEqual(self.told, [("g", "a"), ("g", "b"), ("g", "a"), ("g", "b")])

    def test_a_group_that_is_gone_has_nobody_to_tell(self) -> None:
        self.notices.changed("none")
        self.assertEqual(self.told, [])

    def test_stop(self) -> None:
        self.takes = 0.01
        self.notices.changed("g")
        self.notices.stop()
        self.clock.advance(1)
        self.assertEqual((self.told, self.clock.getDelayedCalls()), ([("g", "a")], []))


class LeaversTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.left: list[object] = []
        self.takes = 0.0
        self.leavers = Leavers(self.clock, self.leave)

    def leave(self, connection: Hashable) -> None:
        self.left.append(connection)
        self.clock.rightNow += self.takes

    def test_one_leaves_at_once(self) -> None:
        self.leavers.add("a")
        self.assertEqual((self.left, self.clock.getDelayedCalls()), (["a"], []))

    def test_many_take_turns_with_all_else(self) -> None:
        self.takes = 0.01
        for each in "abc":
            self.leavers.add(each)
        self.assertEqual(self.left, ["a"])
        self.clock.callLater(0, self.left.append, "else")
        self.clock.advance(0)
        self.assertEqual(self.left, ["a", "b", "else", "c"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_short_ones_use_a_round_up_as_well(self) -> None:
        self.takes = SLICE / 2.2
        for each in "abcdef":
            self.leavers.add(each)
        self.assertEqual(self.left, ["a", "b", "c"])
        self.clock.advance(0)
        self.assertEqual(self.left, list("abcdef"))

    def test_stop(self) -> None:
        self.takes = 0.01
        for each in "abc":
            self.leavers.add(each)
        self.leavers.stop()
        self.assertEqual((self.left, self.clock.getDelayedCalls()), (["a", "b", "c"], []))

"""Turns of hosts, and of what waits there."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.timing.rotation import Rotation


class RotationTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.rotation = Rotation[str]()
        for host, item in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1")):
            self.rotation.add(host, item)

    def taken(self) -> list[str]:
        return [self.rotation.take() for _ in range(len(self.rotation))]

    def test_hosts_go_round(self) -> None:
        self.assertEqual(self.taken(), ["a1", "b1", "c1", "a2", "a3"])
        self.assertFalse(self.rotation)
        self.assertRaises(KeyError, self.rotation.take)

    def test_who_comes_again_waits_behind_all_of_its_host_and_its_host_behind_the_others(self) -> None:
        self.rotation.add("a", self.rotation.take())
        self.assertEqual(self.taken(), ["b1", "c1", "a2", "a3", "a1"])

    def test_what_waits_already_keeps_its_place(self) -> None:
        self.rotation.add("a", "a1")
        self.assertEqual(self.rotation.count("a"), 3)
        self.assertEqual(self.rotation.take(), "a1")

    def test_what_is_discarded_has_no_turn(self) -> None:
        for host, item in (("a", "a2"), ("b", "b1"), ("b", "b1"), ("d", "d1")):
            self.rotation.discard(host, item)
        self.assertEqual([*self.rotation], [("a", "a1"), ("a", "a3"), ("c", "c1")])
        self.assertEqual((self.rotation.last("a"), self.rotation.count("b")), ("a3", 0))

    def test_cleared_nothing_waits(self) -> None:
        self.rotation.clear()
        self.assertEqual((len(self.rotation), bool(self.rotation)), (0, False))

"""Patterns of addresses: every form of RocketMQ's, what is let in and what isn't, and what can't be read."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.acl.addresspattern import MAX_LENGTH, AddressPattern

LET_IN = [
    ("*", ["10.1.2.3", "::1", "not even an address"], []),
    ("*.*.*.*", ["10.1.2.3"], []),
    ("10.1.2.3", ["10.1.2.3"], ["10.1.2.30", "10.1.2.4", "110.1.2.3", "::1", ""]),
    ("10.1.2.3,10.1.2.5", ["10.1.2.3", "10.1.2.5"], ["10.1.2.4"]),
    ("10.1.2.{3,5}", ["10.1.2.3", "10.1.2.5"], ["10.1.2.4", "10.1.2.35"]),
    ("10.1.2-5.*", ["10.1.2.0", "10.1.5.255"], ["10.1.6.1", "10.1.1.1", "10.2.3.1"]),
    ("10.1.*.*", ["10.1.200.7"], ["10.2.200.7"]),
    ("10.*.0.1", ["10.9.0.1"], ["10.9.0.2", "10.9.1.1"]),
    ("10.1.2.3-9", ["10.1.2.3", "10.1.2.9"], ["10.1.2.2", "10.1.2.10"]),
    ("fe80::1", ["fe80::1", "FE80:0:0:0:0:0:0:1", "fe80::1%eth0"], ["fe80::2", "10.1.2.3"]),
    ("fe80::{1,a}", ["fe80::1", "fe80::a"], ["fe80::2"]),
    ("fe80::10-1f:*", ["fe80::10:0", "fe80::1f:ffff"], ["fe80::20:0", "fe80::f:0"]),
    ("1:2:3:4:5:6:7:*", ["1:2:3:4:5:6:7:ffff"], ["1:2:3:4:5:6:8:1"]),
    ("*:*:*:*:*:*:*:*", ["::1", "10.1.2.3"], []),
    ("", [], ["10.1.2.3", ""]),
]
UNREADABLE = {
    "10.1.2": "must have 4 parts",
    "10.1.2.3.4": "must have 4 parts",
    "10.1.2.256": "more than 255",
    "10.1.2.5-3": "ends before it begins",
    "10.1.2.-3": "isn't a number",
    "10.1.2.x": "isn't a number",
    "10.1.{2,3}.4": "must have 4 parts",
    "10.1.2{3,4}": "only stand for the last part",
    "1:2:3": "must have 8 parts",
    "1:2:3:4:5:6:7:8::": "must have 8 parts",
    "fe80::1::2": "isn't a number",
    "fe80::12345": "isn't a number",
    "localhost": "must have 4 parts",
    "١.1.1.1": "isn't a number",
    "1" * (MAX_LENGTH + 1): "at most",
}


class AddressPatternTests(SynchronousTestCase):
    def test_who_is_let_in_by_each_form(self) -> None:
        for text, inside, outside in LET_IN:
            pattern = AddressPattern(text)
            self.assertEqual([each for each in inside if not pattern.matches(each)], [], text)
            self.assertEqual([each for each in outside if pattern.matches(each)], [], text)

    def test_a_pattern_that_cannot_be_read_says_why(self) -> None:
        for text, reason in UNREADABLE.items():
            error = self.assertRaises(ValueError, AddressPattern, text)
            self.assertIn(reason, str(error))

    def test_an_empty_one_is_none(self) -> None:
        self.assertEqual([bool(AddressPattern(text)) for text in (None, "", "*", "1.1.1.1")], [0, 0, 1, 1])

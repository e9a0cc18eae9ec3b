"""Lists of networks: what is in them, and what can't be read."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.wire.networks import MAX_NETWORKS, Networks, counted_as, is_network_list

INSIDE_AND_OUTSIDE = [
    ("10.1.0.0/16", ["10.1.0.0", "10.1.255.255", "::ffff:10.1.2.3"], ["10.2.0.0", "::1", "", "broker-a"]),
    ("10.1.2.3", ["10.1.2.3"], ["10.1.2.30", "10.1.2.4"]),
    (
        "10.1.2.3; 10.1.2.5,fd00::/8;",
        ["10.1.2.3", "10.1.2.5", "fd12::1", "fd12::1%eth0"],
        ["10.1.2.4", "fe80::1"],
    ),
    ("127.0.0.0/8;::1", ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"], ["10.0.0.1", "::2"]),
    ("*", ["10.1.2.3", "::1"], []),
    ("10.0.0.0/8;*", ["192.168.1.1"], []),
]
UNREADABLE = [
    "",
    ";",
    "localhost",
    "10.1.2.3/8",
    "10.1.2",
    "10.1.*.*",
    "10.0.0.0/33",
    "10.0.0.0/8 10.1.0.0/8",
]


class NetworksTests(SynchronousTestCase):
    def test_who_is_inside(self) -> None:
        for text, inside, outside in INSIDE_AND_OUTSIDE:
            networks = Networks(text)
            self.assertEqual([each for each in inside if each not in networks], [], text)
            self.assertEqual([each for each in outside if each in networks], [], text)

    def test_what_cannot_be_read_is_refused(self) -> None:
        for text in (*UNREADABLE, "10.0.0.1;" * (MAX_NETWORKS + 1)):
            self.assertRaises(ValueError, Networks, text)
            self.assertFalse(is_network_list(text))
        self.assertIn(
            "'10.1.2.3/8' isn't a network", str(self.assertRaises(ValueError, Networks, "::1,10.1.2.3/8"))
        )

    def test_it_is_shown_as_it_was_written(self) -> None:
        self.assertEqual(str(Networks(" 10.0.0.0/8 ,::1; ")), "10.0.0.0/8;::1")


class CountedTests(SynchronousTestCase):
    def test_ipv6_addresses_count_as_their_network(self) -> None:
        for address, counted in {
            "10.1.2.3": "10.1.2.3",
            "::ffff:10.1.2.3": "10.1.2.3",
            "2001:db8:0:1:2:3:4:5": "2001:db8:0:1::/64",
            "2001:db8:0:1::9": "2001:db8:0:1::/64",
            "2001:db8:0:2::9": "2001:db8:0:2::/64",
            "fe80::1%eth0": "fe80::1",
            "fe80::2": "fe80::2",
            "no:address": "no:address",
            "?": "?",
        }.items():
            self.assertEqual(counted_as(address), counted)

"""What happened between two looks."""

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.health.events import events
from hatwisted.health.figures import View
from hatwisted.health.judgement import findings
from tests.unit.health.test_judgement import NAMES, broker, look


def told(before, now):
    return [(each.name, each.what) for each in events(before, now)]


class EventsTests(SynchronousTestCase):
    def names(self, before, now):
        return [name for name, _ in told(before, now)]

    def test_nothing(self):
        pair = look(broker(0, 9), broker(1, 9))
        self.assertEqual(told(pair, look(broker(0, 99), broker(1, 50))), [])

    def test_who_comes_and_leaves(self):
        alone, pair = look(broker(0, 9)), look(broker(0, 9), broker(1, 9))
        self.assertEqual(told(alone, pair), [("broker-came", "10.0.0.1:10911 came")])
        self.assertEqual(self.names(pair, alone), ["broker-left"])
        (problem, *_) = findings(View(before=pair, now=alone, left=[broker(1, 9)]))
        self.assertEqual((problem.name, problem.where), ("broker-left", "a slave 1"))

    def test_who_falls_silent_and_comes_back(self):
        up, silent = look(broker(0, 9)), look(broker(0, None))
        self.assertEqual(self.names(up, silent), ["broker-silent"])
        self.assertEqual(self.names(silent, silent), [])
        self.assertEqual(self.names(silent, up), ["broker-back"])

    def test_a_restart_and_a_log_that_lost_its_end(self):
        def booted(at, end):
            return look(broker(0, end, bootTimestamp=str(at)))

        self.assertEqual(self.names(booted(5000, 9), booted(6000, 9)), [], "told to a second")
        found = told(booted(5000, 9), booted(90_000, 4))
        expected = [
            ("broker-restarted", "was started again"),
            ("log-shorter", "its log ends 5 bytes earlier than before"),
        ]
        self.assertEqual(found, expected)

    def test_a_link_and_its_reason(self):
        def linked(state, problem=""):
            return look(broker(1, 9, ha={"haClientRuntimeInfo": {"state": state, "problem": problem}}))

        found = told(linked("transfer"), linked("store full", "no room"))
        self.assertEqual(found, [("link-changed", "its link is store full: no room")])
        found = told(linked("disconnected", "refused"), linked("disconnected", "timed out"))
        self.assertEqual(found, [("link-problem", "timed out")])

    def test_roles_and_name_servers(self):
        found = told(look(broker(0, 9)), look(broker(0, 9, role="SYNC_MASTER")))
        self.assertEqual(found, [("role-changed", "is SYNC_MASTER now, was ASYNC_MASTER")])
        up, silent = look(broker(0, 9)), look(broker(0, 9), names={NAMES: "refused"})
        self.assertEqual(told(up, silent), [("name-server-silent", "refused")])
        self.assertEqual(self.names(silent, up), ["name-server-back"])

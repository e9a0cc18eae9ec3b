"""A broker's own reasons, beside what others see of it."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.health.judgement import LATE, Finding, Weight
from hatwisted.health.readiness import ADVICE, SAME, Kind, Reason, late, of_itself

WHERE = "a slave 1"


def seen(name: str, where: str = WHERE, weight: Weight = Weight.PROBLEM) -> Finding:
    return Finding(weight=weight, name=name, where=where, what="is so", advice="do that")


class ReadinessTests(SynchronousTestCase):
    def test_every_kind_has_advice(self) -> None:
        self.assertEqual(set(ADVICE), set(Kind))
        self.assertLessEqual(set(SAME), set(Kind))

    def test_a_thing_is_said_once_by_who_knows_more(self) -> None:
        reason = Reason(kind=Kind.LINK, text="the link is down: refused")
        others = [seen("slave-not-linked"), seen("slave-not-linked", "a slave 2"), seen("disk-filling")]
        found = of_itself(WHERE, [reason], others)
        self.assertEqual(
            [(each.name, each.where) for each in found],
            [("slave-problem", WHERE), ("slave-not-linked", "a slave 2"), ("disk-filling", WHERE)],
        )
        self.assertEqual(found[0].what, "the link is down: refused")

    def test_problems_come_first(self) -> None:
        note, reason = seen("no-copy", weight=Weight.NOTE), Reason(kind=Kind.NAMES, text="nobody")
        self.assertEqual([each.name for each in of_itself(WHERE, [reason], [note])][1], "no-copy")
        self.assertEqual(of_itself(WHERE, [], [note]), [note])

    def test_late_is_what_the_alert_rules_call_late(self) -> None:
        self.assertEqual(late(WHERE, LATE), [])
        (found,) = late(WHERE, LATE + 1)
        self.assertEqual((found.name, found.what), ("slave-late", "is 61 s behind its master"))

"""Rates of sources: which are limited, and what is too much."""

from __future__ import annotations

from unittest import mock

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.acl.rateguard import RateGuard, Rates
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.remoting import RemotingCommand
from tests.unit.timing.test_ratelimit import AT_ONCE, RATE


class RateGuardTests(SynchronousTestCase):
    def refused(self, rates: Rates, size: int = 0) -> int:
        """Of 100 requests at once, each in a frame of that size."""
        guard = RateGuard(rates, lambda request, connection: "somebody", Clock())
        connection = mock.Mock(size_of=lambda request: size)
        denials = [guard.denial(RemotingCommand(10), connection) for _ in range(100)]
        found = [denial for denial in denials if denial is not None]
        self.assertEqual({denial.code for denial in found} - {ResponseCode.SYSTEM_BUSY}, set())
        self.assertEqual(guard.denied_total, len(found))
        return len(found)

    def test_none_is_no_limit(self) -> None:
        self.assertFalse(Rates())
        self.assertEqual(self.refused(Rates(), 1000), 0)

    def test_each_counts_by_itself(self) -> None:
        self.assertTrue(Rates(requests=RATE))
        self.assertTrue(Rates(whole_bytes=RATE))
        self.assertEqual(self.refused(Rates(requests=RATE), 1000), 100 - AT_ONCE)
        self.assertEqual(self.refused(Rates(whole_bytes=1000 * RATE), 1000), 100 - AT_ONCE)
        self.assertEqual(self.refused(Rates(whole_bytes=1000 * RATE)), 0)

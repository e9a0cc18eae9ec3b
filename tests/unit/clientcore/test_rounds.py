"""Tries at several servers: who is next, how long the pauses are, what is said at the end."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.errors import BrokerGone, ConnectFailed, Refused, RefusedByAll
from hatwisted.clientcore.rounds import LONGEST_PAUSE, Rounds, pause_after

A, B = "10.0.0.1:10911", "10.0.0.2:10911"
NO_PERMISSION, BUSY = 16, 2


class RoundsTests(SynchronousTestCase):
    def gone(self, address: str) -> ConnectFailed:
        return ConnectFailed(address, "not there")

    def test_each_server_is_asked_once_a_round(self) -> None:
        rounds = Rounds(1)
        self.assertEqual(rounds.first_of([A, B]), A)
        rounds.failed(A, self.gone(A))
        self.assertEqual(rounds.first_of([A, B]), B)
        rounds.failed(B, self.gone(B))
        self.assertIsNone(rounds.first_of([A, B]))
        self.assertIsNotNone(rounds.pause())
        self.assertEqual(rounds.first_of([A, B]), A)

    def test_pauses_double_up_to_their_limit_and_begin_again_after_progress(self) -> None:
        rounds = Rounds(3)
        self.assertEqual([rounds.pause() for _ in range(4)], [0.1, 0.2, 0.4, None])
        rounds.went_on()
        self.assertEqual(rounds.pause(), 0.1)
        self.assertEqual((pause_after(6), pause_after(1000)), (LONGEST_PAUSE, LONGEST_PAUSE))

    def test_what_all_refuse_for_good_isnt_asked_again(self) -> None:
        rounds = Rounds(3)
        rounds.failed(A, Refused(A, NO_PERMISSION, "no"))
        rounds.failed(B, Refused(B, BUSY, "later"))
        self.assertIsNotNone(rounds.pause(), "one of them may say yes later")
        for address in (A, B):
            rounds.failed(address, Refused(address, NO_PERMISSION, "no"))
        self.assertIsNone(rounds.pause())

    def test_the_error_is_a_refusal_only_if_all_have_answered(self) -> None:
        rounds = Rounds(0)
        rounds.failed(A, self.gone(A))
        rounds.failed(B, Refused(B, BUSY, "later"))
        error = rounds.error("gone", "refused")
        self.assertEqual((type(error), str(error)), (BrokerGone, "gone"))
        rounds.failed(A, Refused(A, BUSY, "now"))
        refused = rounds.error("gone", "refused")
        assert isinstance(refused, RefusedByAll)
        self.assertEqual((str(refused), refused.address, refused.code), ("refused", B, BUSY))

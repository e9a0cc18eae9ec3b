"""What errors say, and that they travel between Spark's processes whole."""

from __future__ import annotations

import pickle

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.errors import (
    MAX_REMARK,
    CallFailed,
    CallTimedOut,
    ConnectFailed,
    NoRoute,
    Refused,
    RefusedByAll,
    SendFailed,
)
from hatwisted.wire.remoting import RemotingCommand

ADDRESS = "10.0.0.1:10911"
ACL = "org.apache.rocketmq.acl.common.AclException: no account"


class TravelTests(SynchronousTestCase):
    def test_an_error_arrives_as_it_was(self) -> None:
        last = Refused(ADDRESS, 16, "no", "pulls")
        for error, fields in (
            (CallFailed(ADDRESS, "gone"), ("address", "reason")),
            (ConnectFailed(ADDRESS, "refused"), ("address", "reason")),
            (CallTimedOut(ADDRESS, "late"), ("address", "reason")),
            (NoRoute("T", "unknown"), ("topic",)),
            (last, ("address", "code", "remark", "lasting")),
            (RefusedByAll("all of them", last), ("address", "code", "remark", "lasting")),
        ):
            there = pickle.loads(pickle.dumps(error))
            self.assertIs(type(there), type(error))
            self.assertEqual(str(there), str(error))
            for name in fields:
                self.assertEqual(getattr(there, name), getattr(error, name), name)


class WordTests(SynchronousTestCase):
    def test_who_said_what(self) -> None:
        for error, words in (
            (CallFailed(ADDRESS, "gone"), f"{ADDRESS}: gone"),
            (NoRoute("T", "unknown"), "topic T: unknown"),
            (Refused(ADDRESS, 16, "no"), f"{ADDRESS} answered with code 16 NO_PERMISSION: no"),
            (Refused(ADDRESS, 16, "no", "pulls"), f"{ADDRESS} refuses pulls: code 16 NO_PERMISSION: no"),
            (Refused(ADDRESS, 9999, ""), f"{ADDRESS} answered with code 9999 (unknown): no remark"),
            (
                Refused(ADDRESS, 16, "two\n  lines"),
                f"{ADDRESS} answered with code 16 NO_PERMISSION: two lines",
            ),
            (RefusedByAll("all of them", Refused(ADDRESS, 16, "no")), "all of them"),
            (SendFailed("T", [CallFailed("a:1", "gone")]), "topic T: not sent: a:1: gone"),
            (
                SendFailed("T", [CallFailed("a:1", "gone"), CallFailed("b:1", "late")]),
                "topic T: not sent after 2 tries: a:1: gone; b:1: late",
            ),
        ):
            self.assertEqual(str(error), words)

    def test_a_refusal_by_all_is_the_last_ones(self) -> None:
        refused = RefusedByAll("all of them", Refused(ADDRESS, 16, "no"))
        self.assertEqual((refused.address, refused.code, refused.remark), (ADDRESS, 16, "no"))

    def test_a_long_remark_is_kept_and_not_repeated_whole(self) -> None:
        refused = Refused(ADDRESS, 16, "x" * (MAX_REMARK + 1))
        self.assertEqual(len(refused.remark), MAX_REMARK + 1)
        self.assertTrue(str(refused).endswith(": " + "x" * MAX_REMARK))

    def test_an_answers_own_words(self) -> None:
        refused = Refused.of(ADDRESS, RemotingCommand(16, flag=1, remark="no"), "pulls")
        self.assertEqual(str(refused), str(Refused(ADDRESS, 16, "no", "pulls")))
        self.assertEqual(Refused.of(ADDRESS, RemotingCommand(16, flag=1)).remark, "")

    def test_attempts_are_kept(self) -> None:
        attempts: list[Exception] = [CallFailed("a:1", "gone")]
        failed = SendFailed("T", attempts)
        self.assertEqual((failed.topic, failed.attempts), ("T", attempts))

    def test_refusals_that_no_pause_changes(self) -> None:
        for code, remark, lasting in (
            (1, "The broker does not support consumer to filter message by SQL92", True),
            (16, "", True),
            (26, "", True),
            (23, "", True),
            (3, "", True),
            (1, "", False),
            (2, "busy", False),
            (1, ACL, True),
        ):
            self.assertEqual(Refused(ADDRESS, code, remark).lasting, lasting, (code, remark))

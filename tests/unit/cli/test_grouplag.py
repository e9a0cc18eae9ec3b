"""What `hatwisted group lag` says while brokers come, go and don't answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster import grouplag
from hatwisted.cli.cluster.grouplag import LagLook
from hatwisted.client.cluster import Cluster
from hatwisted.clientcore.admin import QueueProgress
from hatwisted.clientcore.errors import CallTimedOut, ClientError
from hatwisted.wire.messagequeue import MessageQueue

Told = dict[str, list[QueueProgress] | ClientError]


def at(broker: str, consumed: int, end: int) -> QueueProgress:
    return QueueProgress(MessageQueue(topic="T", broker_name=broker, queue_id=0), consumed, end, 1000)


class LagTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.told: Told | ClientError = {}
        case = self

        class Survey:
            def __init__(self, _: Any) -> None:
                pass

            async def group_names(self) -> list[str]:
                if isinstance(case.told, ClientError):
                    raise case.told
                return list(case.told)

            async def progress(self, names: list[str]) -> Told:
                assert not isinstance(case.told, ClientError)
                return {name: case.told[name] for name in names}

            async def members(self, name: str) -> int:
                return 1

        self.patch(grouplag, "Survey", Survey)

    def looker(self, *names: str) -> grouplag._Looker:
        return grouplag._Looker(cast(Cluster, SimpleNamespace(session=None, clock=self.clock)), names)

    def look(self, looker: grouplag._Looker, told: Told | ClientError) -> LagLook:
        self.clock.advance(10)
        self.told = told
        return self.successResultOf(Deferred.fromCoroutine(looker.again()))

    def test_a_group_that_nobody_tells_of_is_not_passed_over(self) -> None:
        silent = CallTimedOut("10.0.0.1:10911", "no answer within 15 s")
        found = self.look(self.looker(), {"slow": [at("a", 1, 5)], "lost": silent})
        self.assertEqual([each.group for each in found.groups], ["slow"])
        self.assertEqual(found.unknown, {"lost": str(silent)})
        self.assertEqual(
            found.problems(),
            ["group lost: how far it is behind isn't known: 10.0.0.1:10911: no answer within 15 s"],
        )

    def test_queues_that_come_and_go_are_no_messages_read_or_stored(self) -> None:
        looker = self.looker("slow")
        self.look(looker, {"slow": [at("a", 100, 200), at("b", 7000, 8000)]})
        for told, read, new in (
            ([at("a", 120, 210)], 2.0, 1.0),
            ([at("a", 120, 210), at("b", 7500, 8000)], 0.0, 0.0),
            ([at("a", 130, 210), at("b", 7500, 8030)], 1.0, 3.0),
        ):
            (topic,) = self.look(looker, {"slow": list(told)}).groups[0].topics
            self.assertEqual((topic.consumed_per_second, topic.stored_per_second), (read, new))

    def test_who_watches_goes_on_while_nobody_answers(self) -> None:
        looker = self.looker()
        self.look(looker, {"slow": [at("a", 100, 200)]})
        silent = self.look(looker, ClientError("no name server answered"))
        self.assertEqual((silent.at, silent.groups), (20.0, []))
        self.assertEqual(silent.problems(), ["nothing could be looked at: no name server answered"])
        (topic,) = self.look(looker, {"slow": [at("a", 140, 200)]}).groups[0].topics
        self.assertEqual(topic.consumed_per_second, 2.0)  # since the look before that

"""Name servers, several of them and none; and which topics a pattern means."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from unittest import TestCase

from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import Links
from hatwisted.blocking.routes import Routes, queues_to_read
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import BadSetting, BrokerGone, NoRoute, Refused
from hatwisted.clientcore.routes import replicas_of
from hatwisted.wire.registration import QueueData, TopicRoute
from tests.support.scriptedgroup import BROKER, HANG_UP, TOPIC, ScriptedNameServer, response

ADDRESS = "10.0.0.1:10911"
DEAD = "127.0.0.1:1"


class NameServerCase(TestCase):
    def setUp(self) -> None:
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.pauses: list[float] = []

    def routes(self, *servers: ScriptedNameServer | str, retries: int = 2) -> Routes:
        addresses = []
        for server in servers:
            if isinstance(server, ScriptedNameServer):
                self.stack.enter_context(server)
                server = server.address
            addresses.append(server)
        settings = replace(ClusterSettings(name_servers=tuple(addresses)), retries=retries)
        return Routes(self.stack.enter_context(BlockingDriver(Links(settings, sleep=self.pauses.append))))


class SeveralNameServersTest(NameServerCase):
    def test_a_dead_one_does_not_matter(self) -> None:
        alive = ScriptedNameServer({0: ADDRESS})
        for servers in ((DEAD, alive), (alive, DEAD)):
            route = self.routes(*servers).route(TOPIC)
            assert route is not None
            self.assertEqual(replicas_of(route, BROKER), {0: ADDRESS})
        self.assertEqual(self.pauses, [])

    def test_one_that_has_just_started_knows_nothing_yet(self) -> None:
        route = self.routes(ScriptedNameServer(None), ScriptedNameServer({0: ADDRESS})).route(TOPIC)
        assert route is not None
        self.assertEqual(replicas_of(route, BROKER), {0: ADDRESS})

    def test_what_they_know_is_put_together(self) -> None:
        first, second = ScriptedNameServer({1: "b:1"}), ScriptedNameServer({0: ADDRESS, 1: "other:1"})
        second.queues = 3
        route = self.routes(first, second).route(TOPIC)
        assert route is not None
        self.assertEqual(replicas_of(route, BROKER), {0: ADDRESS, 1: "b:1"})
        self.assertEqual(len(queues_to_read(TOPIC, route)), 3)

    def test_all_dead_is_an_error_after_all_retries(self) -> None:
        with self.assertRaisesRegex(BrokerGone, "no name server answered: 127.0.0.1:1: can't be reached"):
            self.routes(DEAD).route(TOPIC)
        self.assertEqual(self.pauses, [0.1, 0.2])

    def test_one_that_comes_back_in_time(self) -> None:
        server = ScriptedNameServer({0: ADDRESS})
        server.script = lambda request: HANG_UP if len(server.requests) < 3 else None
        self.assertIsNotNone(self.routes(server).route(TOPIC))

    def test_a_refusal_is_reported(self) -> None:
        server = ScriptedNameServer({0: ADDRESS})
        server.script = lambda request: response(request, 1, "broken")
        with self.assertRaisesRegex(
            Refused, "refuses the route of topic Orders: code 1 SYSTEM_ERROR: broken"
        ):
            self.routes(server).route(TOPIC)


class TopicsTest(NameServerCase):
    TOPICS = (
        "Orders",
        "OrdersOld",
        "TBW102",
        "rmq_sys_wheel",
        "%RETRY%g",
        "%DLQ%g",
        BROKER,
        "C",
        "C_REPLY_TOPIC",
    )

    def matching(self, pattern: str) -> list[str]:
        return self.routes(ScriptedNameServer({0: ADDRESS}, self.TOPICS)).matching(pattern)

    def test_a_pattern_means_whole_names(self) -> None:
        self.assertEqual(self.matching("Orders"), ["Orders"])
        self.assertEqual(self.matching("Orders.*"), ["Orders", "OrdersOld"])

    def test_topics_of_the_brokers_and_of_groups_are_not_meant(self) -> None:
        self.assertEqual(self.matching(".*"), ["Orders", "OrdersOld"])
        self.assertEqual(self.matching("%DLQ%.*"), ["%DLQ%g"])

    def test_a_broken_pattern(self) -> None:
        with self.assertRaisesRegex(BadSetting, "'Orders\\(' is not a regular expression"):
            self.matching("Orders(")

    def test_an_unknown_topic(self) -> None:
        self.assertIsNone(self.routes(ScriptedNameServer({0: ADDRESS})).route("Unknown"))

    def test_a_topic_that_may_not_be_read(self) -> None:
        closed = QueueData(broker_name=BROKER, perm=2, read_queue_nums=4, write_queue_nums=4)
        with self.assertRaisesRegex(NoRoute, "none of its queues may be read"):
            queues_to_read(TOPIC, TopicRoute(queue_datas=[closed]))

"""Which broker of a group a queue is read from, and how soon the client learns that it has to be another."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.clusterlink import ClusterLink
from hatwisted.clientcore.options import ConsumerOptions, ProducerOptions
from hatwisted.clientcore.routes import Routes
from hatwisted.clientcore.tasks import Task
from hatwisted.wire.remoting import RemotingCommand
from tests.support.scripteddriver import NAME_SERVER, Groups, ScriptedDriver

HEART_BEAT, GET_ROUTE = 34, 105


def ok(address: str, request: RemotingCommand) -> RemotingCommand:
    return RemotingCommand(0, flag=1)


class PlaceTests(SynchronousTestCase):
    def routes(self, *ids: int) -> Routes:
        """Of one group with these ids; an id's address is "h:<id + 1>"."""
        driver = ScriptedDriver({"a": {number: f"h:{number + 1}" for number in ids}}, ok)
        routes = Routes(driver, [NAME_SERVER])
        Task(routes.route("T")).result()
        return routes

    def place(self, routes: Routes, wished: int) -> int | None:
        address = routes.address("T", "a", wished)
        return None if address is None else int(address.removeprefix("h:")) - 1

    def test_B120_the_wished_id_then_the_next_one_then_any(self) -> None:
        routes = self.routes(0, 1, 2, 3)
        self.assertEqual([self.place(routes, wished) for wished in (0, 1, 2, 3)], [0, 1, 2, 3])
        self.assertEqual(self.place(self.routes(0, 2, 3), 1), 2)
        self.assertEqual(self.place(self.routes(2, 3), 0), 2, "no master")
        self.assertIn(self.place(self.routes(0, 1), 5), (0, 1))
        self.assertIsNone(self.place(self.routes(), 0))

    def test_B120_one_that_could_not_be_reached_is_the_last_choice_for_a_while(self) -> None:
        routes = self.routes(0, 1, 2)
        routes.unreachable("h:1")
        self.assertEqual(self.place(routes, 0), 1)
        routes.unreachable("h:2")
        routes.unreachable("h:3")
        self.assertEqual(self.place(routes, 0), 0, "none can: then as wished")


class IntervalTests(SynchronousTestCase):
    GROUPS: Groups = {"a": {0: "m:1", 1: "s:1"}}

    def start(self) -> ScriptedDriver:
        driver = ScriptedDriver(self.GROUPS, ok)
        self.link = ClusterLink(driver, NAME_SERVER, "client")
        Task(self.link.session.routes.route("T")).result()
        return driver

    def test_B124_routes_are_asked_for_every_30_s(self) -> None:
        driver = self.start()
        self.link.producer("g", ProducerOptions())
        driver.pass_time(95)
        self.assertEqual([at for at, _ in driver.calls_of(GET_ROUTE)], [0, 30, 60, 90])

    def test_B124_producers_tell_masters_and_consumers_all_brokers_every_30_s(self) -> None:
        for consumer, told in ((False, {"m:1"}), (True, {"m:1", "s:1"})):
            driver = self.start()
            if consumer:
                made = self.link.consumer("g", {"T": "*"}, lambda messages: None, ConsumerOptions())
                self.link.session.join(made, consumer=True)
            else:
                self.link.producer("g", ProducerOptions())
            driver.pass_time(65)
            beats = driver.calls_of(HEART_BEAT)
            self.assertEqual({address for _, address in beats}, told)
            self.assertEqual(sorted({at for at, _ in beats}), [30, 60])

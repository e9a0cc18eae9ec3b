"""Routes: asked of one name server after the other, remembered, forgotten, and those of several put together."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.errors import BadSetting, CallTimedOut, ConnectFailed, NoNameServer, Refused
from hatwisted.clientcore.routes import (
    CALL_TIMEOUT,
    UNREACHABLE_PAUSE,
    Routes,
    addresses_of,
    merged,
    readable_queues,
    replicas_of,
    writable_queues,
)
from hatwisted.clientcore.tasks import Task, Waiter
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.registration import BrokerData, QueueData, TopicRoute, encode_body
from hatwisted.wire.remoting import RemotingCommand
from tests.support.scripteddriver import ScriptedDriver

NAMES = ["n:1", "n:2", "n:3"]
GET_ROUTE, NOT_FOUND = 105, 17


def group(name: str, **addresses: str) -> BrokerData:
    """addresses: of id n as `i<n>`."""
    return BrokerData(
        broker_addrs={int(key[1:]): value for key, value in addresses.items()}, broker_name=name, cluster="C"
    )


def queues(name: str, read: int, write: int, perm: int = 6) -> QueueData:
    return QueueData(broker_name=name, perm=perm, read_queue_nums=read, write_queue_nums=write)


def route(groups: list[BrokerData], *rows: QueueData) -> TopicRoute:
    return TopicRoute(broker_datas=groups, queue_datas=list(rows))


def numbers(found: list[MessageQueue]) -> list[tuple[str, int]]:
    assert {each.topic for each in found} <= {"T"}
    return [(each.broker_name, each.queue_id) for each in found]


class NamesDriver(ScriptedDriver):
    """Name servers that answer by the test's script: (address, topic) -> code; what isn't there has a route."""

    def __init__(self) -> None:
        super().__init__({"a": {0: "a:1"}}, lambda address, request: None)
        self.codes: dict[tuple[str, str], int] = {}
        self.down: set[str] = set()
        self.silent = False
        self.pending: list[Waiter[RemotingCommand]] = []
        self.asks: list[tuple[str, str, float]] = []

    def call(self, address: str, request: RemotingCommand, timeout: float) -> Waiter[RemotingCommand]:
        topic = request.ext["topic"]
        self.asks.append((address, topic, timeout))
        waiter: Waiter[RemotingCommand] = Waiter()
        code = self.codes.get((address, topic), 0)
        if address in self.down:
            waiter.fail(CallTimedOut(address, "down"))
        elif self.silent:
            self.pending.append(waiter)
        else:
            body = b"" if code else encode_body(self.route())
            waiter.fire(RemotingCommand(code, flag=1, body=body))
        return waiter


class AskingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.driver = NamesDriver()
        self.routes = Routes(self.driver, NAMES)

    def ask(self, topic: str = "T", *, fresh: bool = True) -> TopicRoute | None:
        return Task(self.routes.route(topic, fresh=fresh)).result()

    def asked(self) -> list[str]:
        return [address for address, _, _ in self.driver.asks]

    def test_names_are_needed_and_addresses(self) -> None:
        error = self.assertRaises(BadSetting, Routes, self.driver, [])
        self.assertIn("host:port", str(error))
        self.assertRaises(BadSetting, Routes, self.driver, ["n:1", "nowhere"])

    def test_the_one_that_answered_last_is_asked_first(self) -> None:
        self.ask()
        self.driver.down = {"n:1", "n:2"}
        self.ask()
        self.ask()
        self.assertEqual(self.asked(), ["n:1", "n:1", "n:2", "n:3", "n:3"])
        self.assertEqual(self.routes.servers, ["n:3", "n:1", "n:2"])
        self.assertEqual({timeout for _, _, timeout in self.driver.asks}, {CALL_TIMEOUT})

    def test_none_answers(self) -> None:
        self.driver.down = set(NAMES)
        error = self.assertRaises(NoNameServer, self.ask)
        words = "; ".join(f"{each}: down" for each in NAMES)
        self.assertEqual(str(error), f"no name server answered: {words}")
        self.assertEqual(self.routes.servers, NAMES, "once round")

    def test_two_askers_at_the_same_time_dont_pass_over_the_one_that_serves(self) -> None:
        """Both find the first dead; the second to learn of it leaves the order alone."""
        self.driver.silent = True
        asks = [Task(self.routes.ask(RemotingCommand(GET_ROUTE, ext={"topic": "T"}))) for _ in range(2)]
        first = self.driver.pending
        self.driver.pending = []
        for waiter in first:
            waiter.fail(ConnectFailed("n:1", "down"))
        self.assertEqual(
            (self.asked(), self.routes.servers), (["n:1"] * 2 + ["n:2"] * 2, ["n:2", "n:3", "n:1"])
        )
        for waiter in self.driver.pending:
            waiter.fire(RemotingCommand(0, flag=1))
        self.assertEqual([each.result()[0] for each in asks], ["n:2"] * 2)

    def test_what_is_known_is_used_until_its_asked_for_afresh_or_forgotten(self) -> None:
        for _ in range(3):
            self.ask(fresh=False)
        self.assertEqual((len(self.asked()), self.routes.version), (1, 1))
        self.ask()
        self.assertEqual((len(self.asked()), self.routes.version), (2, 2))
        self.routes.forget("T")
        self.assertEqual((self.routes.known_topics, self.routes.version), ([], 3))
        self.routes.forget("T")
        self.ask(fresh=False)
        self.assertEqual((len(self.asked()), self.routes.known_topics), (3, ["T"]))

    def test_who_asks_while_an_answer_is_awaited_shares_it_in_line(self) -> None:
        self.driver.silent = True
        told: list[int] = []
        for number in range(3):
            asking = Task(self.routes.route("T"))
            asking.when_done(lambda done, number=number: told.append(number))
        self.assertEqual((len(self.driver.pending), told), (1, []))
        self.driver.pending.pop().fire(RemotingCommand(0, flag=1, body=encode_body(self.driver.route())))
        self.assertEqual(told, [0, 1, 2])
        failing = [Task(self.routes.route("U")) for _ in range(2)]
        self.driver.pending.pop().fire(RemotingCommand(1, flag=1))
        for each in failing:
            self.assertRaises(Refused, each.result)

    def test_B114_unknown_now_stays_as_it_was_known_and_a_refusal_is_reported(self) -> None:
        known = self.ask()
        self.driver.codes = {("n:1", "T"): NOT_FOUND}
        self.assertIsNone(self.ask())
        self.assertIs(self.ask(fresh=False), known)
        self.driver.codes = {("n:1", "T"): 1}
        refused = self.assertRaises(Refused, self.ask)
        self.assertEqual((refused.address, refused.code), ("n:1", 1))

    def test_a_refresh_passes_over_what_is_refused_and_ends_where_nobody_answers(self) -> None:
        self.driver.codes = {("n:1", "A"): 1}
        Task(self.routes.refresh(["A", "B"])).result()
        self.assertEqual([topic for _, topic, _ in self.driver.asks], ["A", "B"])
        self.driver.down = set(NAMES)
        Task(self.routes.refresh(["A", "B"])).result()
        self.assertEqual([topic for _, topic, _ in self.driver.asks[2:]], ["A"] * 3)
        self.assertEqual(self.routes.known_topics, ["B"])

    def test_addresses_of_all_known_routes(self) -> None:
        self.driver.groups = {"a": {0: "a:1"}, "b": {0: "b:1"}}
        self.ask("T")
        self.driver.groups = {"a": {0: "a:2", 1: "a:3"}}
        self.ask("U")
        self.assertEqual(self.routes.brokers(), {"a": {0: "a:2", 1: "a:3"}, "b": {0: "b:1"}})
        self.assertEqual((self.routes.master("T", "a"), self.routes.master("U", "a")), ("a:1", "a:2"))
        self.assertEqual((self.routes.master("U", "b"), self.routes.master("V", "a")), (None, None))
        self.assertEqual((self.routes.address("V", "a"), self.routes.address("U", "b")), (None, None))

    def test_who_couldnt_be_reached_counts_again_after_a_while(self) -> None:
        self.driver.groups = {"a": {0: "a:1", 1: "a:2"}}
        self.ask()
        self.routes.unreachable("a:1")
        self.driver.clock.advance(UNREACHABLE_PAUSE - 0.1)
        self.assertEqual(self.routes.address("T", "a"), "a:2")
        self.driver.clock.advance(0.1)
        self.assertEqual(self.routes.address("T", "a"), "a:1")

    def test_who_answers_again_counts_again_at_once(self) -> None:
        """A slave that is back from being the master may have other messages at the same offsets."""
        self.driver.groups = {"a": {0: "a:1", 1: "a:2"}}
        self.ask()
        self.routes.unreachable("a:1")
        self.routes.reached("a:1")
        self.assertEqual(self.routes.address("T", "a"), "a:1")


class QueueTests(SynchronousTestCase):
    GROUPS = (group("b", i0="b:1"), group("a", i1="a:2", i0="a:1"), group("c", i1="c:2"))

    def test_queues_by_broker_those_to_write_at_live_masters_alone(self) -> None:
        both = route(list(self.GROUPS), queues("b", 1, 2), queues("a", 2, 1), queues("c", 1, 1))
        writable, readable = writable_queues("T", both), readable_queues("T", both)
        self.assertEqual(numbers(writable), [("a", 0), ("b", 0), ("b", 1)])
        self.assertEqual(numbers(readable), [("a", 0), ("a", 1), ("b", 0), ("c", 0)])
        self.assertEqual(numbers(writable_queues("T", both, 1)), [("a", 0), ("b", 0)])
        self.assertEqual(numbers(writable_queues("T", both, 4)), numbers(writable))

    def test_permissions(self) -> None:
        for perm, reads, writes in ((6, True, True), (4, True, False), (2, False, True), (0, False, False)):
            one = route([self.GROUPS[0]], queues("b", 1, 1, perm))
            found = bool(readable_queues("T", one)), bool(writable_queues("T", one))
            self.assertEqual(found, (reads, writes), perm)

    def test_replicas_in_the_order_of_their_ids_and_a_copy(self) -> None:
        whole = route(list(self.GROUPS))
        found = replicas_of(whole, "a")
        self.assertEqual(list(found.items()), [(0, "a:1"), (1, "a:2")])
        self.assertIsNot(found, addresses_of(whole, "a"))
        self.assertEqual((replicas_of(whole, "d"), addresses_of(whole, "d")), ({}, {}))


class MergedTests(SynchronousTestCase):
    def test_all_that_any_knows_and_the_earlier_is_believed(self) -> None:
        first = route([group("a", i0="a:1")], queues("a", 4, 4))
        second = route(
            [group("a", i0="a:9", i1="a:2"), group("b", i0="b:1")], queues("a", 2, 9), queues("b", 3, 3)
        )
        third = route([group("b", i1="b:2")], queues("b", 5, 5), queues("a", 4, 8))
        found = merged([first, second, third])
        self.assertEqual(
            {each.broker_name: each.broker_addrs for each in found.broker_datas},
            {"a": {0: "a:1", 1: "a:2"}, "b": {0: "b:1", 1: "b:2"}},
        )
        counts = [
            (each.broker_name, each.read_queue_nums, each.write_queue_nums) for each in found.queue_datas
        ]
        self.assertEqual(counts, [("a", 4, 4), ("b", 5, 5)])

    def test_one_alone_is_as_it_is(self) -> None:
        one = route([group("a", i0="a:1")], queues("a", 4, 4))
        self.assertIs(merged([one]), one)

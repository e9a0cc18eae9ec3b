"""Who has joined, which brokers hear of it, and to whom what brokers ask is handed."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.clusterlink import ClusterLink
from hatwisted.clientcore.driver import Answer
from hatwisted.clientcore.errors import BadSetting, Closed, ConnectFailed, Refused
from hatwisted.clientcore.session import CALL_TIMEOUT, HEARTBEAT_INTERVAL, Session
from hatwisted.clientcore.tasks import Task
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand
from tests.support.scripteddriver import NAME_SERVER, Groups, ScriptedDriver

MASTER, SLAVE, OTHER = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
GROUPS: Groups = {"a": {0: MASTER, 1: SLAVE}, "b": {0: OTHER}}


class Member:
    """A GroupMember that says what it was asked."""

    def __init__(self, group: str, topics: list[str], session: Session | None = None) -> None:
        self.group = group
        self.topics = topics
        self.asked: list[tuple[str, int]] = []
        self._session = session

    def heartbeat(self) -> Mapping[str, object]:
        return {"groupName": self.group}

    def on_request(self, address: str, request: RemotingCommand) -> Answer:
        self.asked.append((address, request.code))
        return RemotingCommand(0, body=self.group.encode())

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.leave(self, consumer=False)


class SessionCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.refusing: set[str] = set()
        self.remark: str | None = None
        self.down: set[str] = set()
        self.driver = ScriptedDriver(GROUPS, self.answer)
        self.link = ClusterLink(self.driver, NAME_SERVER, "me")
        self.session = self.link.session

    def answer(self, address: str, request: RemotingCommand) -> RemotingCommand:
        if address in self.down:
            raise ConnectFailed(address, "refused")
        refused = address in self.refusing
        return RemotingCommand(int(refused), flag=1, remark=self.remark if refused else None)

    def know(self, topic: str) -> None:
        Task(self.session.routes.route(topic)).result()

    def told(self, code: int) -> list[str]:
        return [each.address for each in self.driver.asked(code)]


class HeartbeatTests(SessionCase):
    def test_who_is_let_in_nowhere_for_good_learns_why(self) -> None:
        self.know("T")
        self.session.join(Member("c", ["T"]), consumer=False)
        for remark, refusing, told in (
            ("try again", {MASTER, OTHER}, False),
            ("AclException: no", {MASTER}, False),
            ("AclException: no", {MASTER, OTHER}, False),  # one has let us in before
            (None, set(), False),
        ):
            self.remark, self.refusing = remark, refusing
            Task(self.session.heartbeat()).result()
            self.assertEqual(self.session.refusal is not None, told, (remark, refusing))
        for address in (MASTER, OTHER):
            self.driver.lose(address)  # its connection
        self.remark, self.refusing = "AclException: no", {MASTER, OTHER}
        Task(self.session.heartbeat()).result()
        self.assertIn("AclException: no", str(self.session.refusal))
        self.refusing = {MASTER}
        Task(self.session.heartbeat()).result()
        self.assertIsNone(self.session.refusal)

    def test_one_says_who_is_here(self) -> None:
        self.know("T")
        for group, consumer in (("c", True), ("d", True), ("p", False)):
            self.session.join(Member(group, ["T"]), consumer=consumer)
        Task(self.session.heartbeat()).result()
        beats = self.driver.asked(RequestCode.HEART_BEAT)
        self.assertEqual([each.address for each in beats], [MASTER, SLAVE, OTHER])
        body = {
            "clientID": "me",
            "consumerDataSet": [{"groupName": "c"}, {"groupName": "d"}],
            "producerDataSet": [{"groupName": "p"}],
        }
        self.assertEqual([fastjson.loads(each.request.body) for each in beats], [body] * 3)
        self.assertEqual({each.timeout for each in beats}, {CALL_TIMEOUT})

    def test_a_first_one_comes_soon_and_again_when_a_broker_is_new_or_was_lost(self) -> None:
        self.know("T")
        self.session.join(Member("p", ["T"]), consumer=False)
        for _ in range(2):
            self.session.introduce()
            self.assertEqual(self.told(RequestCode.HEART_BEAT), [MASTER, OTHER], "all have heard of it")
        self.driver.lose(OTHER)
        self.session.introduce()
        self.assertEqual(self.told(RequestCode.HEART_BEAT), [MASTER, OTHER] * 2)
        self.driver.groups = GROUPS | {"c": {0: "new:1"}}
        self.know("U")
        self.session.introduce()
        self.assertEqual(self.told(RequestCode.HEART_BEAT)[4:], [MASTER, OTHER, "new:1"])

    def test_one_comes_soon_when_a_member_is_new(self) -> None:
        """Its transactions may be checked before the next regular one."""
        self.know("T")
        for groups in (["p"], ["p", "q"]):
            self.session.join(Member(groups[-1], ["T"]), consumer=False)
            for _ in range(2):
                self.session.introduce()
            beat = fastjson.loads(self.driver.asked(RequestCode.HEART_BEAT)[-1].request.body)
            self.assertEqual([each["groupName"] for each in beat["producerDataSet"]], groups)
        self.assertEqual(self.told(RequestCode.HEART_BEAT), [MASTER, OTHER] * 2)

    def test_one_that_was_under_way_doesnt_count_for_a_new_member(self) -> None:
        def joined_meanwhile(address: str, request: RemotingCommand) -> RemotingCommand:
            if len(self.session.producers) == 1:
                self.session.join(Member("q", ["T"]), consumer=False)
            return self.answer(address, request)

        self.know("T")
        self.session.join(Member("p", ["T"]), consumer=False)
        self.driver.answer = joined_meanwhile
        for _ in range(3):
            self.session.introduce()
        self.assertEqual(self.told(RequestCode.HEART_BEAT), [MASTER, OTHER] * 2)

    def test_slaves_hear_of_it_once_there_is_a_consumer(self) -> None:
        self.know("T")
        self.session.join(Member("p", ["T"]), consumer=False)
        self.session.introduce()
        self.session.join(Member("c", ["T"]), consumer=True)
        self.session.introduce()
        self.assertEqual(self.told(RequestCode.HEART_BEAT), [MASTER, OTHER, MASTER, SLAVE, OTHER])

    def test_one_that_was_refused_or_didnt_arrive_comes_again(self) -> None:
        self.know("T")
        self.refusing.add(MASTER)
        self.down.add(OTHER)
        self.session.join(Member("p", ["T"]), consumer=False)
        for count in (1, 2):
            self.session.introduce()
            self.assertEqual(self.told(RequestCode.HEART_BEAT), [MASTER, OTHER] * count)

    def test_one_at_a_time(self) -> None:
        self.know("T")
        self.driver.answer = lambda address, request: None
        self.session.join(Member("p", ["T"]), consumer=False)
        for _ in range(3):
            self.session.introduce()
        self.assertEqual(self.told(RequestCode.HEART_BEAT), [MASTER, OTHER])
        self.driver.pass_time(CALL_TIMEOUT)
        self.session.introduce()
        self.assertEqual(self.told(RequestCode.HEART_BEAT), [MASTER, OTHER] * 2)

    def test_routes_of_members_and_those_that_are_known_are_refreshed(self) -> None:
        self.know("Known")
        self.session.join(Member("p", ["B", "A"]), consumer=False)
        self.session.join(Member("c", ["C", "A"]), consumer=True)
        self.driver.pass_time(HEARTBEAT_INTERVAL)
        asked = [each.request.ext["topic"] for each in self.driver.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)]
        self.assertEqual(asked, ["Known", "A", "B", "C", "Known"])


class MemberTests(SessionCase):
    def test_a_group_has_one_producer_and_one_consumer_here(self) -> None:
        producer, consumer = Member("g", []), Member("g", [])
        self.session.join(producer, consumer=False)
        self.session.join(consumer, consumer=True)
        self.session.join(producer, consumer=False)
        self.assertEqual((self.session.producers, self.session.consumers), ([producer], [consumer]))
        for each in (True, False):
            error = self.assertRaises(BadSetting, self.session.join, Member("g", []), consumer=each)
            self.assertEqual(str(error), "group g has a member on this cluster link already")

    def test_who_leaves_is_unregistered_where_it_was_known_and_the_last_one_ends_the_loops(self) -> None:
        self.know("T")
        producer, consumer = Member("p", []), Member("c", [])
        self.session.join(producer, consumer=False)
        self.session.join(consumer, consumer=True)
        self.down.add(SLAVE)
        Task(self.session.heartbeat()).result()
        self.refusing.add(MASTER)
        self.down.add(OTHER)
        Task(self.session.leave(Member("p", []), consumer=False)).result()
        self.assertEqual(self.told(RequestCode.UNREGISTER_CLIENT), [], "another's name says nothing")
        Task(self.session.leave(producer, consumer=False)).result()
        self.assertEqual((self.session.producers, self.session.consumers), ([], [consumer]))
        Task(self.session.leave(consumer, consumer=True)).result()
        left = [(each.address, each.request.ext) for each in self.driver.asked(RequestCode.UNREGISTER_CLIENT)]
        fields = [{"clientID": "me", "producerGroup": "p"}, {"clientID": "me", "consumerGroup": "c"}]
        self.assertEqual(left, [(each, ext) for ext in fields for each in (MASTER, OTHER)])
        calls = len(self.driver.calls)
        self.driver.pass_time(2 * HEARTBEAT_INTERVAL, step=HEARTBEAT_INTERVAL)
        self.assertEqual(len(self.driver.calls), calls)
        self.session.join(producer, consumer=False)
        self.driver.pass_time(HEARTBEAT_INTERVAL, step=HEARTBEAT_INTERVAL)
        self.assertGreater(len(self.driver.calls), calls)

    def test_closing_stops_the_members_and_takes_no_more(self) -> None:
        member = Member("p", [], self.session)
        self.session.join(member, consumer=False)
        Task(self.link.close()).result()
        self.assertEqual(self.session.producers, [])
        error = self.assertRaises(Closed, self.session.join, member, consumer=False)
        self.assertEqual(str(error), "this cluster link is closed")


class CallTests(SessionCase):
    def test_what_isnt_success_is_refused_where_success_is_asked_for(self) -> None:
        self.refusing.add(MASTER)
        self.assertEqual(Task(self.session.call(MASTER, 34)).result().code, 1)
        refused = self.assertRaises(Refused, Task(self.session.ask(MASTER, 34)).result)
        self.assertEqual((refused.address, refused.code), (MASTER, 1))
        Task(self.session.ask(OTHER, 34, {"a": True, "b": None, "c": 5}, b"body", 7.0)).result()
        address, request, timeout = self.driver.asked(34)[-1]
        self.assertEqual((address, request.ext, timeout), (OTHER, {"a": "true", "c": "5"}, 7.0))
        self.assertEqual(request.body, b"body")

    def test_who_cant_be_reached_is_the_last_choice_for_reading(self) -> None:
        self.know("T")
        self.down.add(MASTER)
        self.assertRaises(ConnectFailed, Task(self.session.call(MASTER, 34)).result)
        self.assertEqual(self.session.routes.address("T", "a"), SLAVE)


class RequestTests(SessionCase):
    def setUp(self) -> None:
        super().setUp()
        self.members = [Member(name, []) for name in ("p", "q", "c")]
        for member in self.members:
            self.session.join(member, consumer=member.group == "c")

    def ask(self, code: int, **ext: str) -> Answer:
        return self.driver.ask(MASTER, RemotingCommand(code, ext=ext))

    def test_a_consumers_request_reaches_the_one_of_its_group(self) -> None:
        for name in ("consumerGroup", "group"):
            answer = self.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, **{name: "c"})
            assert isinstance(answer, RemotingCommand)
            self.assertEqual(answer.body, b"c")
        self.assertEqual([each.asked for each in self.members], [[], [], [(MASTER, 307)] * 2])

    def test_a_question_about_a_consumer_that_has_gone_is_answered_anything_else_isnt(self) -> None:
        for code in (221, 307, 309):
            for ext in ({"consumerGroup": "gone"}, {"group": "gone"}, {}):
                answer = self.ask(code, **ext)
                assert isinstance(answer, RemotingCommand)
                group = "gone" if ext else ""
                told = f"The Consumer Group <{group}> not exist in this consumer"
                self.assertEqual((answer.code, answer.remark), (1, told))
        for code in (40, 220, 999):
            self.assertIsNone(self.ask(code, consumerGroup="gone"))

    def test_a_transaction_check_reaches_all_producers(self) -> None:
        self.assertIsNone(self.ask(RequestCode.CHECK_TRANSACTION_STATE, consumerGroup="c"))
        self.assertEqual([each.asked for each in self.members], [[(MASTER, 39)], [(MASTER, 39)], []])

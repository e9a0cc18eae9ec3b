"""Answers that can't be what their code promises: one error on every way in, which names who gave them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.admin import Admin
from hatwisted.clientcore.answers import MAX_ROUTE_QUEUES, NO_REMARK, decoded_route, remark_in
from hatwisted.clientcore.clusterlink import ClusterLink
from hatwisted.clientcore.errors import BadAnswer
from hatwisted.clientcore.membership import Membership
from hatwisted.clientcore.message import Message
from hatwisted.clientcore.options import ProducerOptions
from hatwisted.clientcore.queuelocks import QueueLocks
from hatwisted.clientcore.subscription import parse_subscription
from hatwisted.clientcore.tasks import Task, Work
from hatwisted.clientcore.transactions import TransactionState
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.registration import (
    MAX_QUEUE_IDS,
    BrokerData,
    ClusterInfo,
    QueueData,
    TopicRoute,
    encode_body,
)
from hatwisted.wire.remoting import RemotingCommand
from tests.support.scripteddriver import NAME_SERVER, ScriptedDriver

MASTER = "10.0.0.1:10911"
SLAVE = "10.0.0.2:10911"
QUEUE = MessageQueue(broker_name="a", queue_id=0, topic="T")

NO_JSON = (b"", b"<html>no broker here</html>", b"\xff\xfe", b"{")
"""No body of any answer."""
OTHER_SHAPES = (b"[]", b"5", b'"offsetTable"', b"null")
"""JSON, and no object."""


def success(body: bytes = b"", **ext: str) -> RemotingCommand:
    return RemotingCommand(0, flag=1, ext=ext, body=body)


def cluster_info() -> bytes:
    group = BrokerData(broker_addrs={0: MASTER}, broker_name="a", cluster="C")
    return encode_body(ClusterInfo(broker_addr_table={"a": group}, cluster_addr_table={"C": ["a"]}))


class AnswerCase(SynchronousTestCase):
    def start(
        self, answers: dict[int, RemotingCommand], groups: dict[str, dict[int, str]] | None = None
    ) -> None:
        """Brokers and name server answer by the request's code; what isn't named succeeds without a body."""
        answers = {RequestCode.GET_BROKER_CLUSTER_INFO: success(cluster_info())} | answers
        self.driver = ScriptedDriver(
            groups or {"a": {0: MASTER}}, lambda address, request: answers.get(request.code, success())
        )
        self.link = ClusterLink(self.driver, NAME_SERVER, "me")

    def assert_bad(self, address: str, work: Work[Any]) -> None:
        error = self.assertRaises(BadAnswer, Task(work).result)
        self.assertTrue(str(error).startswith(f"{address}: "), error)


ASKS: tuple[tuple[int, str, Callable[[Admin], Work[Any]], tuple[bytes, ...]], ...] = (
    (206, NAME_SERVER, lambda admin: admin.topics(), (b'{"topicList":7}', b'{"topicList":[{}]}')),
    (106, NAME_SERVER, lambda admin: admin.cluster_info(), (b'{"brokerAddrTable":[]}',)),
    (106, NAME_SERVER, lambda admin: admin.create_topic("T"), (b'{"clusterAddrTable":7}',)),
    (28, MASTER, lambda admin: admin.broker_info(MASTER), (b"{}", b'{"table":[]}')),
    (201, MASTER, lambda admin: admin.groups(), (b'{"subscriptionGroupTable":{"g":5}}',)),
    (203, MASTER, lambda admin: admin.members("g"), (b'{"connectionSet":[{"clientId":"c"}]}',)),
    (202, MASTER, lambda admin: admin.topic_offsets("T"), (b"{}", b'{"offsetTable":{"no queue":{}}}')),
    (
        202,
        MASTER,
        lambda admin: admin.topic_offsets("T"),
        (b'{"offsetTable":{"no queue":{"minOffset":0,"maxOffset":1}}}', b'{"offsetTable":{{"topic":"T"}:5}}'),
    ),
    (208, MASTER, lambda admin: admin.progress("g"), (b"{}", b'{"offsetTable":{"q":{"brokerOffset":"x"}}}')),
    (222, MASTER, lambda admin: admin.reset("g", "T", 0), (b'{"offsetTable":{"no queue":1}}',)),
)
"""Code, who answers, what a program calls, bodies that are objects and still no answer."""


class RouteTests(AnswerCase):
    def test_a_route_of_more_queues_than_anybody_could_hold(self) -> None:
        def route(brokers: int) -> RemotingCommand:
            data = [
                QueueData(broker_name=str(n), perm=6, read_queue_nums=MAX_QUEUE_IDS, write_queue_nums=0)
                for n in range(brokers)
            ]
            return success(encode_body(TopicRoute(queue_datas=data)))

        most = MAX_ROUTE_QUEUES // MAX_QUEUE_IDS
        self.assertEqual(len(decoded_route(NAME_SERVER, route(most)).queue_datas), most)
        self.assertRaises(BadAnswer, decoded_route, NAME_SERVER, route(most + 1))
        one_broker = route(1)
        one_broker.body = one_broker.body.replace(b"%d" % MAX_QUEUE_IDS, b"%d" % (MAX_QUEUE_IDS + 1))
        self.assertRaises(BadAnswer, decoded_route, NAME_SERVER, one_broker)


class AdminTests(AnswerCase):
    def test_a_body_that_is_no_answer_is_a_bad_answer_of_whoever_gave_it(self) -> None:
        for code, address, ask, wrong in ASKS:
            for body in (*NO_JSON, *OTHER_SHAPES, *wrong):
                with self.subTest(code=code, body=body):
                    self.start({code: success(body)})
                    self.assert_bad(address, ask(self.link.admin()))

    def test_a_list_that_rocketmq_leaves_out_is_empty(self) -> None:
        body = success(b"{}")
        self.start({206: body, 201: body, 203: body, 222: body})
        admin = self.link.admin()
        found = [Task(each).result() for each in (admin.topics(), admin.groups(), admin.members("g"))]
        self.assertEqual(found, [[], {}, {}])
        self.assertEqual(Task(admin.reset("g", "T", 0)).result(), {})

    def test_what_every_answer_of_rocketmq_begins_with_is_no_remark(self) -> None:
        said = [
            remark_in(RemotingCommand(0, flag=1, remark=each)) for each in (None, "", NO_REMARK, "half done")
        ]
        self.assertEqual(said, ["", "", "", "half done"])

    def test_an_offset_that_is_no_number(self) -> None:
        nobody_there = RemotingCommand(206, flag=1)
        self.start({222: nobody_there, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: success(offset="soon")})
        self.assert_bad(MASTER, self.link.admin().reset("g", "T", 5))


class MembershipTests(AnswerCase):
    def share(self) -> list[MessageQueue] | None:
        membership = Membership(self.link.session, "g", broadcasting=False)
        return Task(membership.share(parse_subscription("T", "*", 1))).result()

    def test_members_that_cant_be_read_share_nothing(self) -> None:
        for body in (*NO_JSON, *OTHER_SHAPES, b'{"consumerIdList":5}'):
            with self.subTest(body=body):
                self.start({38: success(body)})
                error = self.assertRaises(BadAnswer, self.share)
                self.assertIn(MASTER, str(error))

    def test_one_broker_that_talks_nonsense_leaves_the_word_to_the_others(self) -> None:
        members = fastjson.dumps_compact({"consumerIdList": ["me"]})

        def answer(address: str, request: RemotingCommand) -> RemotingCommand:
            return success(b"?" if address == SLAVE else members)

        self.start({})
        self.driver.groups = {"a": {0: MASTER, 1: SLAVE}}
        self.driver.answer = answer
        self.assertEqual(self.share(), [QUEUE, MessageQueue(broker_name="a", queue_id=1, topic="T")])

    def test_locks_that_cant_be_read_are_not_held(self) -> None:
        for body in (*NO_JSON, *OTHER_SHAPES, b'{"lockOKMQSet":[5]}'):
            with self.subTest(body=body):
                self.start({41: success(body)})
                Task(self.link.session.routes.route("T")).result()
                locks = QueueLocks(self.link.session, "g")
                self.assertEqual(Task(locks.lock([QUEUE])).result(), ([], []))
                self.assertFalse(locks.held(QUEUE))


class TransactionTests(AnswerCase):
    def test_an_offset_id_that_cant_be_read_is_reported_before_the_works_turn(self) -> None:
        for offset_id in ("", "7F", "x" * 32, "F" * 32):
            with self.subTest(offset_id=offset_id):
                self.start({310: success(msgId=offset_id, queueId="0", queueOffset="9")})
                done: list[Message] = []

                def work(message: Message) -> TransactionState:
                    done.append(message)  # noqa: B023
                    return TransactionState.COMMIT

                producer = self.link.transaction_producer("g", work, ProducerOptions())
                self.assert_bad(MASTER, producer.send_in_transaction(Message(topic="T", body=b""), work))
                self.assertEqual(done, [])

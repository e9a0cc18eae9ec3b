"""What administration asks of whom, field by field as RocketMQ's headers name them, and what comes of answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.admin import ADMIN_TIMEOUT, LATEST, QueueProgress
from hatwisted.clientcore.clusterlink import ClusterLink
from hatwisted.clientcore.errors import BadMessage, BadSetting, ClientError, NoRoute, Refused
from hatwisted.clientcore.lookups import LOOKUP_TIMEOUT, MOST_FOUND
from hatwisted.clientcore.routes import CALL_TIMEOUT
from hatwisted.clientcore.tasks import Task, Work
from hatwisted.config.javaproperties import parse_properties
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue, queue_table
from hatwisted.wire.registration import BrokerData, ClusterInfo, encode_body
from hatwisted.wire.remoting import RemotingCommand
from tests.support.scripteddriver import NAME_SERVER, Groups, ScriptedDriver

A, B, SLAVE_OF_A, SLAVE_OF_C = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911", "10.0.0.4:10911"
GROUPS: Groups = {"b": {0: B}, "a": {0: A, 1: SLAVE_OF_A}, "c": {2: SLAVE_OF_C}}
CLUSTERS = {"a": "One", "b": "Two", "c": "One"}
"""By group; c's master is gone."""
SECOND_NAME_SERVER = "10.0.0.8:9876"

Reply = RemotingCommand | Callable[[str, RemotingCommand], RemotingCommand]


def success(body: bytes = b"", **ext: str) -> RemotingCommand:
    return RemotingCommand(0, flag=1, ext=ext, body=body)


def json(value: object) -> RemotingCommand:
    return success(fastjson.dumps_compact(value))


def refusal(code: int = ResponseCode.NO_PERMISSION) -> RemotingCommand:
    return RemotingCommand(code, flag=1, remark="planned")


def queue(broker: str, number: int, topic: str = "T") -> MessageQueue:
    return MessageQueue(broker_name=broker, queue_id=number, topic=topic)


def rows(table: dict[MessageQueue, dict[str, int]]) -> RemotingCommand:
    return json({"offsetTable": queue_table(table)})


class AdminCase(SynchronousTestCase):
    def start(self, replies: dict[int, Reply] | None = None, groups: Groups = GROUPS) -> None:
        """Brokers answer by the request's code; what isn't named succeeds without a body."""
        replies = replies or {}

        def answer(address: str, request: RemotingCommand) -> RemotingCommand:
            if request.code == RequestCode.GET_BROKER_CLUSTER_INFO and request.code not in replies:
                return success(self.cluster_info(groups))
            reply = replies.get(request.code, success())
            return reply(address, request) if callable(reply) else reply

        self.driver = ScriptedDriver(groups, answer)
        self.link = ClusterLink(self.driver, [NAME_SERVER, SECOND_NAME_SERVER], "me")
        self.admin = self.link.admin()

    def cluster_info(self, groups: Groups) -> bytes:
        brokers = {
            name: BrokerData(broker_addrs=dict(addresses), broker_name=name, cluster=CLUSTERS[name])
            for name, addresses in groups.items()
        }
        clusters = {
            cluster: [name for name in groups if CLUSTERS[name] == cluster] for cluster in ("One", "Two")
        }
        return encode_body(ClusterInfo(broker_addr_table=brokers, cluster_addr_table=clusters))

    def done(self, work: Work[Any]) -> Any:
        return Task(work).result()

    def fails(self, kind: type[Exception], work: Work[Any]) -> str:
        return str(self.assertRaises(kind, Task(work).result))

    def asked(self, code: int) -> list[tuple[str, dict[str, str], float | None]]:
        return [(each.address, dict(each.request.ext), each.timeout) for each in self.driver.asked(code)]


class LookupTests(AdminCase):
    def test_so_many_messages_are_asked_for_of_each_broker(self) -> None:
        self.start({RequestCode.QUERY_MESSAGE: refusal(ResponseCode.QUERY_NOT_FOUND)})
        self.assertEqual(self.done(self.admin.messages_by_key("T", "k")), [])
        asked = self.asked(RequestCode.QUERY_MESSAGE)
        self.assertGreater(len(asked), 1)
        self.assertEqual({fields["maxNum"] for _, fields, _ in asked}, {str(MOST_FOUND)})
        self.assertEqual({timeout for _, _, timeout in asked}, {LOOKUP_TIMEOUT})


class TopicTests(AdminCase):
    FIELDS = {
        "topic": "T",
        "defaultTopic": "TBW102",
        "readQueueNums": "8",
        "writeQueueNums": "8",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }

    def test_a_topic_is_made_on_all_masters_or_on_those_of_a_cluster(self) -> None:
        self.start()
        self.assertEqual(self.done(self.admin.create_topic("T")), [A, B])
        self.assertEqual(self.asked(17), [(each, self.FIELDS, ADMIN_TIMEOUT) for each in (A, B)])
        self.start()
        self.assertEqual(self.done(self.admin.create_topic("T", queues=3, perm=4, cluster="Two")), [B])
        other = self.FIELDS | {"readQueueNums": "3", "writeQueueNums": "3", "perm": "4"}
        self.assertEqual(self.asked(17), [(B, other, ADMIN_TIMEOUT)])

    def test_what_cant_be_made_says_why(self) -> None:
        self.start()
        self.fails(BadMessage, self.admin.create_topic("a b"))
        told = self.fails(ClientError, self.admin.create_topic("T", cluster="Three"))
        self.assertEqual(told, "no cluster Three; known: One, Two")
        self.start({106: json({"brokerAddrTable": {}, "clusterAddrTable": {}})})
        told = self.fails(ClientError, self.admin.create_topic("T", cluster="Three"))
        self.assertEqual(told, "no cluster Three; known: none")
        self.start(groups={"c": {2: SLAVE_OF_C}})
        told = self.fails(ClientError, self.admin.create_topic("T", cluster="One"))
        self.assertEqual(told, "the name servers know no master now")
        self.assertEqual(self.asked(17), [])

    def test_the_first_refusal_ends_a_change(self) -> None:
        self.start({17: refusal()})
        refused = self.assertRaises(Refused, Task(self.admin.create_topic("T")).result)
        self.assertEqual((refused.address, refused.code, refused.remark), (A, 16, "planned"))
        self.assertEqual(len(self.asked(17)), 1)

    def test_a_topic_is_removed_from_masters_and_name_servers_and_forgotten(self) -> None:
        self.start()
        self.assertEqual(self.done(self.admin.delete_topic("T")), [A, B])
        self.assertEqual(self.asked(215), [(each, {"topic": "T"}, ADMIN_TIMEOUT) for each in (A, B)])
        servers = (NAME_SERVER, SECOND_NAME_SERVER)
        self.assertEqual(self.asked(216), [(each, {"topic": "T"}, CALL_TIMEOUT) for each in servers])
        self.assertEqual(self.link.session.routes.known_topics, [])
        self.start()
        self.assertEqual(self.done(self.admin.delete_topic("T", cluster="Two")), [B])
        # What other clusters have of it stays in their routes.
        fields = {"topic": "T", "clusterName": "Two"}
        self.assertEqual(self.asked(216), [(each, fields, CALL_TIMEOUT) for each in servers])
        self.driver.unknown.add("T")
        told = self.fails(NoRoute, self.admin.delete_topic("T"))
        self.assertEqual(told, "topic T: the name servers don't know it")
        self.assertEqual(len(self.asked(215)), 1)

    def test_topics_in_order_of_their_names(self) -> None:
        self.start({206: json({"topicList": ["b", "a"]})})
        self.assertEqual(self.done(self.admin.topics()), ["a", "b"])
        self.assertEqual(self.asked(206), [(NAME_SERVER, {}, CALL_TIMEOUT)])
        self.start({206: refusal()})
        refused = self.assertRaises(Refused, Task(self.admin.topics()).result)
        self.assertEqual((refused.address, refused.code), (NAME_SERVER, 16))

    def test_a_route_is_asked_for_each_time(self) -> None:
        self.start()
        for _ in range(2):
            route = self.done(self.admin.route("T"))
        self.assertEqual([each.broker_name for each in route.broker_datas], ["b", "a", "c"])
        self.assertEqual([ext for _, ext, _ in self.asked(105)], [{"topic": "T"}] * 2)

    def test_offsets_of_a_topic_by_broker_and_queue_from_masters_or_else_a_slave(self) -> None:
        def stats(address: str, request: RemotingCommand) -> RemotingCommand:
            name = {A: "a", B: "b", SLAVE_OF_C: "c"}[address]
            return rows({queue(name, number): {"minOffset": number, "maxOffset": 7} for number in (1, 0)})

        self.start({202: stats})
        found = self.done(self.admin.topic_offsets("T"))
        expected = {queue(name, number): (number, 7) for name in "abc" for number in (0, 1)}
        self.assertEqual(list(found.items()), list(expected.items()))
        readers = (B, A, SLAVE_OF_C)
        self.assertEqual(self.asked(202), [(each, {"topic": "T"}, ADMIN_TIMEOUT) for each in readers])


class ClusterTests(AdminCase):
    def test_the_cluster_and_a_brokers_words_as_texts(self) -> None:
        self.start({28: json({"table": {"version": "V4", "count": 5}})})
        self.assertEqual(set(self.done(self.admin.cluster_info()).broker_addr_table), {"a", "b", "c"})
        self.assertEqual(self.done(self.admin.broker_info(B)), {"version": "V4", "count": "5"})
        self.assertEqual(self.asked(28), [(B, {}, ADMIN_TIMEOUT)])


class GroupTests(AdminCase):
    DEFAULTS = {
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "groupName": "g",
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }

    def known(self, *names: str) -> RemotingCommand:
        return json({"subscriptionGroupTable": {name: {"groupName": name} for name in names}})

    def test_groups_are_those_that_any_broker_knows_in_order(self) -> None:
        by_address = {A: self.known("z", "g"), B: self.known("b"), SLAVE_OF_C: self.known("a")}
        self.start({201: lambda address, request: by_address[address]})
        found = self.done(self.admin.groups())
        self.assertEqual(list(found), ["a", "b", "g", "z"])
        self.assertEqual(found["g"], {"groupName": "g"})
        self.assertEqual({address for address, _, _ in self.asked(201)}, {A, B, SLAVE_OF_C})
        self.start(groups={})
        told = self.fails(ClientError, self.admin.groups())
        self.assertEqual(told, "the name servers know no broker now")

    def test_a_group_is_made_with_what_was_asked_for_and_rocketmqs_defaults(self) -> None:
        self.start()
        self.assertIn("group 'a b': 1 to 255 letters", self.fails(BadSetting, self.admin.create_group("a b")))
        self.assertEqual(self.asked(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP), [])
        self.assertEqual(self.done(self.admin.create_group("g")), [A, B])
        made = self.done(self.admin.create_group("g", cluster="Two", retryMaxTimes=3, consumeEnable=False))
        self.assertEqual(made, [B])
        bodies = [fastjson.loads(each.request.body) for each in self.driver.asked(200)]
        other = self.DEFAULTS | {"retryMaxTimes": 3, "consumeEnable": False}
        self.assertEqual(bodies, [self.DEFAULTS, self.DEFAULTS, other])
        self.assertEqual(self.asked(200), [(each, {}, ADMIN_TIMEOUT) for each in (A, B, B)])

    def test_a_group_is_removed_with_its_progress_and_its_topics(self) -> None:
        self.start({201: self.known("g")})
        self.driver.unknown.add("%DLQ%g")
        self.assertEqual(self.done(self.admin.delete_group("g", cluster="Two")), [B])
        fields = {"groupName": "g", "removeOffset": "true", "cleanOffset": "true"}
        self.assertEqual(self.asked(207), [(B, fields, ADMIN_TIMEOUT)])
        self.assertEqual(self.asked(215), [(B, {"topic": "%RETRY%g"}, ADMIN_TIMEOUT)])
        self.start({201: self.known("g")})
        self.done(self.admin.delete_group("g"))
        topics = ["%RETRY%g"] * 2 + ["%DLQ%g"] * 2
        self.assertEqual([ext["topic"] for _, ext, _ in self.asked(215)], topics)

    def test_a_group_that_no_broker_knows(self) -> None:
        self.start({201: self.known("g")})
        self.driver.unknown.add("%RETRY%h")
        for work in (self.admin.delete_group("h"), self.admin.progress("h")):
            told = self.fails(ClientError, work)
            self.assertTrue(told.startswith("group h: no broker knows it"), told)
        self.assertEqual(self.asked(207), [])

    def test_members_of_brokers_that_have_any(self) -> None:
        def members(address: str, request: RemotingCommand) -> RemotingCommand:
            if address == A:
                return refusal(ResponseCode.CONSUMER_NOT_ONLINE)
            clients = {B: ("y", "x"), SLAVE_OF_C: ("x", "v")}[address]
            found = [{"clientId": each, "clientAddr": f"{each}@{address}"} for each in clients]
            return json({"connectionSet": found})

        self.start({203: members})
        found = self.done(self.admin.members("g"))
        expected = {"v": f"v@{SLAVE_OF_C}", "x": f"x@{SLAVE_OF_C}", "y": f"y@{B}"}
        self.assertEqual(list(found.items()), list(expected.items()))
        self.assertEqual({tuple(ext.items()) for _, ext, _ in self.asked(203)}, {(("consumerGroup", "g"),)})
        self.start({203: refusal()})
        refused = self.assertRaises(Refused, Task(self.admin.members("g")).result)
        self.assertEqual((refused.address, refused.code), (B, 16))


class ProgressTests(AdminCase):
    def test_by_topic_broker_and_queue(self) -> None:
        def stats(address: str, request: RemotingCommand) -> RemotingCommand:
            row = {"consumerOffset": 2, "brokerOffset": 9, "lastTimestamp": 5}
            name = {A: "a", B: "b", SLAVE_OF_C: "c"}[address]
            return rows({queue(name, number, topic): row for topic in ("U", "T") for number in (1, 0)})

        self.start({208: stats})
        found = self.done(self.admin.progress("g"))
        places = [(each.queue.topic, each.queue.broker_name, each.queue.queue_id) for each in found]
        self.assertEqual(places, [(topic, name, n) for topic in "TU" for name in "abc" for n in (0, 1)])
        self.assertEqual(found[0], QueueProgress(queue("a", 0), 2, 9, 5))
        self.assertEqual(found[0].lag, 7)
        readers = (B, A, SLAVE_OF_C)
        self.assertEqual(self.asked(208), [(each, {"consumerGroup": "g"}, ADMIN_TIMEOUT) for each in readers])
        self.assertEqual([ext for _, ext, _ in self.asked(105)], [{"topic": "%RETRY%g"}])

    def test_a_group_that_was_made_and_never_used_has_none(self) -> None:
        self.start({201: json({"subscriptionGroupTable": {"g": {}}}), 208: rows({})})
        self.driver.unknown.add("%RETRY%g")
        self.assertEqual(self.done(self.admin.progress("g")), [])

    def test_a_group_that_was_put_somewhere_before_its_first_member_is_there(self) -> None:
        """As a clone is: it has no topic of retries yet, by which its brokers would be known."""
        row = {"consumerOffset": 2, "brokerOffset": 9, "lastTimestamp": 5}
        self.start(
            {
                201: json({"subscriptionGroupTable": {"g": {}}}),
                208: lambda address, request: rows({queue("a", 0): row} if address == A else {}),
            }
        )
        self.driver.unknown.add("%RETRY%g")
        self.assertEqual(self.done(self.admin.progress("g")), [QueueProgress(queue("a", 0), 2, 9, 5)])


class BrokerConfigTests(AdminCase):
    def test_a_value_arrives_as_it_was_given(self) -> None:
        """A broker reads the request as a properties file."""
        changes = {"a": "C:\\new\\", "b": "1\nmaxMessageSize=2", "c": "plain"}
        self.start()
        self.done(self.admin.set_broker_config(A, changes))
        (asked,) = self.driver.asked(RequestCode.UPDATE_BROKER_CONFIG)
        read = parse_properties(asked.request.body, "request")
        self.assertEqual({each.key: each.value for each in read}, changes)


class ResetTests(AdminCase):
    MASTERS: Groups = {"b": {0: B}, "a": {0: A, 1: SLAVE_OF_A}}

    def test_each_master_moves_its_queues_and_says_where(self) -> None:
        moved = {A: {queue("a", 0): 3, queue("a", 1): 4}, B: {queue("b", 0): 5}}
        self.start(
            {222: lambda address, request: json({"offsetTable": queue_table(moved[address])})}, self.MASTERS
        )
        self.assertEqual(self.done(self.admin.reset("g", "T", 1234)), moved[A] | moved[B])
        fields = {"topic": "T", "group": "g", "timestamp": "1234", "isForce": "true"}
        self.assertEqual(self.asked(222), [(each, fields, ADMIN_TIMEOUT) for each in (B, A)])
        self.assertEqual(self.asked(15), [])

    def test_without_members_the_offsets_are_moved_at_the_broker(self) -> None:
        codes = {A: ResponseCode.CONSUMER_NOT_ONLINE, B: ResponseCode.SYSTEM_ERROR}
        for timestamp, code, more in (
            (LATEST, RequestCode.GET_MAX_OFFSET, {}),
            (77, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": "77"}),
        ):
            replies: dict[int, Reply] = {
                203: refusal(ResponseCode.CONSUMER_NOT_ONLINE),
                222: lambda address, request: refusal(codes[address]),
                code: lambda address, request: success(offset=request.ext["queueId"] + "0"),
            }
            self.start(replies, self.MASTERS)
            found = self.done(self.admin.reset("g", "T", timestamp))
            self.assertEqual(found, {queue(name, n): 10 * n for name in "ab" for n in (0, 1)})
            places = [(B, "0"), (B, "1"), (A, "0"), (A, "1")]
            asked = [(address, ext) for address, ext, _ in self.asked(code)]
            self.assertEqual(asked, [(each, {"topic": "T", "queueId": n} | more) for each, n in places])
            for (address, ext, _), (each, number) in zip(self.asked(15), places, strict=True):
                self.assertEqual((address, ext["queueId"]), (each, number))
                self.assertEqual((ext["consumerGroup"], ext["topic"]), ("g", "T"))
                self.assertEqual(ext["commitOffset"], str(10 * int(number)))

    def test_members_that_have_no_progress_in_some_queue_are_told_once_they_have(self) -> None:
        moved, asked = {queue("a", 0): 1, queue("a", 1): 1}, []

        def reset(address: str, request: RemotingCommand) -> RemotingCommand:
            asked.append(len(self.asked(15)))
            told = json({"offsetTable": queue_table(moved)})
            return told if self.asked(15) and willing else refusal(ResponseCode.SYSTEM_ERROR)

        members = json({"connectionSet": [{"clientId": "c@1", "clientAddr": "10.0.0.9:4711"}]})
        replies: dict[int, Reply] = {203: members, 222: reset, 29: success(offset="1")}
        for willing in (True, False):
            self.start(replies, {"a": {0: A}})
            if willing:
                self.assertEqual(self.done(self.admin.reset("g", "T", 5)), moved)
            else:  # a member of a version that can't be told
                self.fails(Refused, self.admin.reset("g", "T", 5))
        self.assertEqual(asked, [0, 2, 0, 2])

    def test_any_other_refusal_and_a_group_without_master_end_it(self) -> None:
        self.start({222: refusal()}, self.MASTERS)
        refused = self.assertRaises(Refused, Task(self.admin.reset("g", "T", 0)).result)
        self.assertEqual((refused.address, refused.code), (B, 16))
        self.start(groups={"c": {2: SLAVE_OF_C}})
        told = self.fails(NoRoute, self.admin.reset("g", "T", 0))
        self.assertEqual(told, "topic T: c has no master now: its offsets can't be reset")
        self.driver.unknown.add("T")
        self.fails(NoRoute, self.admin.reset("g", "T", 0))
        self.assertEqual(self.asked(222), [])

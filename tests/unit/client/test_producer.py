"""Producers against our own name server and masters in this process."""

import secrets

from twisted.internet.defer import gatherResults
from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase

from hatwisted.client.cluster import Cluster
from hatwisted.client.driver import deferred
from hatwisted.clientcore.errors import BadMessage, Closed, NoNameServer, NoRoute, ProducerFull, SendFailed
from hatwisted.clientcore.message import Message, decode_records, received
from hatwisted.clientcore.routes import readable_queues
from hatwisted.clientcore.sending import SendStatus
from hatwisted.clientcore.session import ROUTE_INTERVAL
from tests.support.clusterrig import ClusterRig, asynchronous


async def stored(cluster, topic):
    """All messages of a topic, by queue, as a pull gives them."""
    route = await deferred(cluster.session.routes.route(topic, fresh=True))
    found = []
    for queue in readable_queues(topic, route):
        address = cluster.session.routes.master(topic, queue.broker_name)
        offset = 0
        while True:
            ext = {"consumerGroup": "look", "topic": topic, "queueId": queue.queue_id, "queueOffset": offset}
            ext |= {"maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0}
            ext |= {"subscription": "*", "subVersion": 0}
            answer = await deferred(cluster.session.call(address, 11, ext))
            if answer.code != 0:
                break
            found += [received(record, queue.broker_name) for record in decode_records(answer.body)]
            offset = int(answer.ext["nextBeginOffset"])
    return found


class TestProducer(TestCase):
    timeout = 50

    def setUp(self):
        self.rig = ClusterRig(self, masters=2)
        return self.rig.start()

    @asynchronous
    async def test_a_topic_is_made_by_its_first_message_and_round_robin_covers_all_masters(self):
        cluster = self.rig.new_cluster()
        producer = cluster.producer("p")
        first = await producer.send(Message(topic="Fresh", body=b"0", tags="red", keys=["k1", "k2"]))
        self.assertEqual(first.status, SendStatus.OK)
        for number in range(1, 40):
            await producer.send(Message(topic="Fresh", body=b"%d" % number))
        found = await stored(cluster, "Fresh")
        self.assertEqual(sorted(int(each.body) for each in found), list(range(40)))
        self.assertEqual({each.queue.broker_name for each in found}, {"broker-a", "broker-b"})
        (zero,) = [each for each in found if each.body == b"0"]
        self.assertEqual((zero.tags, zero.keys), ("red", ["k1", "k2"]))
        self.assertEqual((zero.message_id, zero.offset_id), (first.message_id, first.offset_id))

    @asynchronous
    async def test_what_is_large_travels_compressed(self):
        cluster = self.rig.new_cluster()
        producer = cluster.producer("p")
        body = b"all work and no play " * 1000
        await producer.send(Message(topic="Large", body=body))
        (found,) = await stored(cluster, "Large")
        self.assertEqual((found.body, found.sys_flag & 1), (body, 1))
        self.assertLess(found.size, 2000)

    @asynchronous
    async def test_a_batch_lies_side_by_side_in_one_queue(self):
        cluster = self.rig.new_cluster()
        messages = [Message(topic="Batch", body=b"%d" % number, tags=f"t{number}") for number in range(5)]
        results = await cluster.producer("p").send_batch(messages)
        found = {each.message_id: each for each in await stored(cluster, "Batch")}
        self.assertEqual(len({result.queue for result in results}), 1)
        self.assertEqual([result.queue_offset for result in results], list(range(5)))
        for result, message in zip(results, messages, strict=True):
            there = found[result.message_id]
            self.assertEqual((there.body, there.tags), (message.body, message.tags))
            self.assertEqual((there.offset_id, there.queue_offset), (result.offset_id, result.queue_offset))

    @asynchronous
    async def test_messages_of_one_key_keep_their_order_in_one_queue(self):
        cluster = self.rig.new_cluster()
        producer = cluster.producer("p")
        await producer.send(Message(topic="Order", body=b"-1"))
        sends = [producer.send(Message(topic="Order", body=b"%d" % n, order_key="user-7")) for n in range(30)]
        results = await gatherResults(sends)
        self.assertEqual(len({result.queue for result in results}), 1)
        offsets = [result.queue_offset for result in results]
        self.assertEqual(offsets, sorted(offsets))

    @asynchronous
    async def test_waiting_messages_share_requests_and_each_gets_its_own_result(self):
        cluster = self.rig.new_cluster()
        producer = cluster.producer("p", coalesce=True)
        await producer.send(Message(topic="Share", body=b"first"))
        requests, call = [], cluster.session.call
        self.patch(cluster.session, "call", lambda *args: requests.append(args[1]) or call(*args))
        sends = [producer.send(Message(topic="Share", body=b"%d" % number)) for number in range(500)]
        results = await gatherResults(sends)
        found = {each.message_id: each for each in await stored(cluster, "Share")}
        self.assertEqual(len(found), 501)
        for number, result in enumerate(results):
            there = found[result.message_id]
            self.assertEqual((there.body, there.offset_id), (b"%d" % number, result.offset_id))
        self.assertLess(sum(code in (310, 320) for code in requests), 20)

    @asynchronous
    async def test_oneway_arrives(self):
        cluster = self.rig.new_cluster()
        producer = cluster.producer("p")
        await producer.send(Message(topic="Oneway", body=b"a"))
        await producer.send_oneway(Message(topic="Oneway", body=b"b"))
        bodies = set()
        while bodies != {b"a", b"b"}:
            bodies = {each.body for each in await stored(cluster, "Oneway")}

    @asynchronous
    async def test_a_dead_master_is_avoided_and_no_send_fails(self):
        cluster = self.rig.new_cluster()
        producer = cluster.producer("p")
        await producer.send(Message(topic="Dead", body=b"0"))
        for number in range(1, 8):
            await producer.send(Message(topic="Dead", body=b"%d" % number))
        await self.rig.stop_broker("broker-b")
        results = [await producer.send(Message(topic="Dead", body=b"x")) for _ in range(20)]
        self.assertEqual({result.queue.broker_name for result in results}, {"broker-a"})

    @asynchronous
    async def test_ordered_messages_follow_a_broker_that_has_moved(self):
        cluster = self.rig.new_cluster()
        await self.rig.stop_broker("broker-b")
        await cluster.admin().create_topic("Moved")
        producer = cluster.producer("p")
        message = Message(topic="Moved", body=b"0", order_key="k")
        await producer.send(message)
        await self.rig.stop_broker("broker-a")
        await self.rig.add_broker("moved", "broker-a")
        await self.rig.new_cluster().admin().create_topic("Moved")
        with self.assertRaises(SendFailed):
            await producer.send(message)
        self.assertEqual((await producer.send(message)).status, SendStatus.OK)

    @asynchronous
    async def test_every_known_route_is_asked_again(self):
        clock = Clock()
        cluster = self.rig.new_cluster(clock=clock)
        await cluster.producer("p").send(Message(topic="Known", body=b"0"))
        await self.rig.stop_broker("broker-a")
        await self.rig.stop_broker("broker-b")
        await self.rig.add_broker("moved", "broker-b")
        clock.advance(ROUTE_INTERVAL)
        routes, moved = cluster.session.routes, self.rig.brokers["moved"].address
        await self.rig.until(lambda: routes.master("TBW102", "broker-b") == moved)

    @asynchronous
    async def test_B114_a_name_server_that_has_forgotten_the_topic_stops_no_sends(self):
        cluster = self.rig.new_cluster()
        producer = cluster.producer("p")
        await producer.send(Message(topic="Forgotten", body=b"0"))
        self.rig.names.routes.delete_topic("Forgotten")
        self.rig.names.routes.delete_topic("TBW102")
        await deferred(cluster.session.routes.refresh(["Forgotten", "TBW102"]))
        for _ in range(8):
            self.assertEqual(
                (await producer.send(Message(topic="Forgotten", body=b"1"))).status, SendStatus.OK
            )

    @asynchronous
    async def test_a_producers_own_mistakes_are_reported_before_anything_is_sent(self):
        producer = self.rig.new_cluster().producer("p")
        for message in (
            Message(topic="a b", body=b""),
            Message(topic="T" * 128, body=b""),
            Message(topic="T", body=b"", properties={"a": "\x02"}),
            Message(topic="T", body=b"", properties={"a": "x" * 40000}),
            Message(topic="T", body=secrets.token_bytes(5 << 20)),
        ):
            await self.assertFailure(producer.send(message), BadMessage)
        mixed = [Message(topic="T", body=b""), Message(topic="U", body=b"")]
        await self.assertFailure(producer.send_batch(mixed), BadMessage)

    @asynchronous
    async def test_more_than_the_window_waits_and_more_than_that_is_refused(self):
        producer = self.rig.new_cluster().producer("p", max_in_flight=1, max_waiting_bytes=1000)
        await producer.send(Message(topic="Full", body=b""))
        sends = [producer.send(Message(topic="Full", body=b"x" * 300)) for _ in range(3)]
        await self.assertFailure(producer.send(Message(topic="Full", body=b"x" * 300)), ProducerFull)
        ready = producer.ready()
        self.assertFalse(ready.called)
        await gatherResults(sends)
        await ready
        await producer.send(Message(topic="Full", body=b"x" * 300))

    @asynchronous
    async def test_stopping_finishes_what_is_under_way_and_refuses_the_rest(self):
        cluster = self.rig.new_cluster()
        producer = cluster.producer("p")
        await producer.send(Message(topic="Stop", body=b""))
        sends = [producer.send(Message(topic="Stop", body=b"%d" % number)) for number in range(10)]
        await producer.stop()
        self.assertTrue(all(send.called for send in sends))
        await gatherResults(sends)
        await self.assertFailure(producer.send(Message(topic="Stop", body=b"")), Closed)

    @asynchronous
    async def test_a_remembered_route_without_a_master_is_asked_for_again_before_a_send_fails(self):
        cluster = self.rig.new_cluster()
        producer = cluster.producer("p")
        await producer.send(Message(topic="Back", body=b"before"))
        producer._core._making.clear()  # the topic is no longer new
        route = await deferred(cluster.session.routes.route("Back"))
        for group in route.broker_datas:  # as the name server gave it while only slaves were there
            group.broker_addrs[1] = group.broker_addrs.pop(0)
        sent = await producer.send(Message(topic="Back", body=b"after"))
        self.assertEqual(sent.status, SendStatus.OK)

    @asynchronous
    async def test_no_broker_and_no_name_server_are_told_apart(self):
        await self.rig.stop_broker("broker-a")
        await self.rig.stop_broker("broker-b")
        await self.assertFailure(
            self.rig.new_cluster().producer("p").send(Message(topic="T", body=b"")), NoRoute
        )
        nobody = Cluster(self.rig.clock, "127.0.0.1:1", connecting=self.rig.network)
        self.addCleanup(nobody.close)
        error = await self.assertFailure(
            nobody.producer("p").send(Message(topic="T", body=b"")), NoNameServer
        )
        self.assertIn("127.0.0.1:1", str(error))

"""Consumers against our own name server, masters and slaves in this process."""

from pathlib import Path

from twisted.internet.defer import Deferred, gatherResults
from twisted.trial.unittest import TestCase

from hatwisted.client.driver import deferred
from hatwisted.clientcore.errors import BadSetting, Closed, NoNameServer, Refused
from hatwisted.clientcore.message import Message
from hatwisted.clientcore.options import ConsumeFrom
from hatwisted.clientcore.subscription import Sql
from tests.support.clusterrig import ClusterRig, asynchronous

FIRST = ConsumeFrom.FIRST


class TestConsumer(TestCase):
    timeout = 50

    def setUp(self):
        self.rig = ClusterRig(self, masters=2, enablePropertyFilter=True)
        return self.rig.start()

    async def fill(self, topic, count, **more):
        producer = self.rig.new_cluster().producer("p")
        await producer.send(Message(topic=topic, body=b"0", **more))
        await gatherResults(
            [producer.send(Message(topic=topic, body=b"%d" % n, **more)) for n in range(1, count)]
        )
        return producer

    @asynchronous
    async def test_a_loop_gets_everything_and_the_next_one_goes_on_where_it_left_off(self):
        producer = await self.fill("Loop", 50)
        consumer = self.rig.new_cluster().consumer("g", {"Loop": "*"}, consume_from=FIRST)
        await consumer.start()
        seen = []
        async for message in consumer:
            seen.append(int(message.body))
            if len(seen) == 50:
                consumer.settle(message)
                break
        self.assertEqual(sorted(seen), list(range(50)))
        await consumer.stop()
        await producer.send(Message(topic="Loop", body=b"50"))
        again = self.rig.new_cluster().consumer("g", {"Loop": "*"}, consume_from=FIRST)
        await again.start()
        async for message in again:
            self.assertEqual(message.body, b"50")
            break

    @asynchronous
    async def test_what_wasnt_settled_comes_again(self):
        await self.fill("Unsettled", 1)
        for _ in range(2):
            consumer = self.rig.new_cluster().consumer("g", {"Unsettled": "*"}, consume_from=FIRST)
            await consumer.start()
            async for message in consumer:
                self.assertEqual(message.body, b"0")
                break
            await consumer.stop()

    @asynchronous
    async def test_a_loop_ends_when_the_consumer_stops(self):
        await self.fill("End", 1)
        consumer = self.rig.new_cluster().consumer("g", {"End": "none-has-this-tag"})
        await consumer.start()
        waiting = consumer.next_message()
        await consumer.stop()
        self.assertIs(await waiting, None)

    @asynchronous
    async def test_two_members_share_the_queues_at_once_and_the_rest_takes_over(self):
        await self.fill("Shared", 40)
        one = self.rig.new_cluster().consumer("g", {"Shared": "*"}, on_messages=lambda batch: None)
        two = self.rig.new_cluster().consumer("g", {"Shared": "*"}, on_messages=lambda batch: None)

        def held(consumer):
            return {queue for queue in consumer.queues if queue.topic == "Shared"}

        await one.start()
        self.assertEqual(len(held(one)), 8)
        await two.start()
        await self.rig.until(lambda: len(held(one)) == len(held(two)) == 4)
        self.assertFalse(held(one) & held(two))
        await one.stop()
        await self.rig.until(lambda: len(held(two)) == 8)

    @asynchronous
    async def test_a_broker_that_has_just_started_gives_nobody_the_others_queues(self):
        await self.fill("Shared", 40)
        one, two = (
            self.rig.new_cluster().consumer("g", {"Shared": "*"}, on_messages=lambda batch: None)
            for _ in range(2)
        )
        for each in (one, two):
            await each.start()
        # Topics are shared out one after the other: all are once nobody has what the other has.
        await self.rig.until(
            lambda: len(one.queues) < 9 and len(two.queues) > 3 and not {*one.queues} & {*two.queues}
        )
        before = set(one.queues)
        # As after a restart, before the members' heartbeats; it's the one that is asked first.
        route = await deferred(one._core._session.routes.route("Shared"))
        restarted = self.rig.brokers[route.broker_datas[0].broker_name]
        restarted.parts.consumers.clients.consumers.clear()
        await deferred(one._core._balance())
        self.assertEqual(set(one.queues), before)

    @asynchronous
    async def test_tags_are_compared_as_text(self):
        producer = self.rig.new_cluster().producer("p")
        # "Aa" and "BB" have the same hash.
        for number, tag in enumerate(["Aa", "BB", "", "Aa", "C"]):
            await producer.send(Message(topic="Tags", body=b"%d" % number, tags=tag))
        seen = []
        consumer = self.rig.new_cluster().consumer(
            "g",
            {"Tags": "Aa || C"},
            on_messages=lambda batch: seen.extend(each.body for each in batch),
            consume_from=FIRST,
        )
        await consumer.start()
        await self.rig.until(lambda: len(seen) >= 3)
        self.assertEqual(sorted(seen), [b"0", b"3", b"4"])

    @asynchronous
    async def test_sql_expressions_choose_and_bad_ones_are_refused_at_the_start(self):
        producer = self.rig.new_cluster().producer("p")
        for number in range(8):
            await producer.send(Message(topic="Sql", body=b"%d" % number, properties={"price": str(number)}))
        bad = self.rig.new_cluster().consumer("bad", {"Sql": Sql("price >")})
        await self.assertFailure(bad.start(), Refused)
        seen = []
        consumer = self.rig.new_cluster().consumer(
            "g",
            {"Sql": Sql("price BETWEEN 3 AND 5")},
            on_messages=lambda batch: seen.extend(each.body for each in batch),
            consume_from=FIRST,
        )
        await consumer.start()
        await self.rig.until(lambda: len(seen) >= 3)
        self.assertEqual(sorted(seen), [b"3", b"4", b"5"])

    @asynchronous
    async def test_broadcasting_gives_everything_to_everybody_and_keeps_its_own_progress(self):
        producer = await self.fill("Broad", 10)
        file = Path(self.mktemp()).absolute() / "offsets.json"
        first, second = [], []
        for seen, path in ((first, file), (second, None)):
            consumer = self.rig.new_cluster().consumer(
                "g",
                {"Broad": "*"},
                on_messages=lambda batch, seen=seen: seen.extend(int(each.body) for each in batch),
                consume_from=FIRST,
                broadcasting=True,
                local_offsets=path,
            )
            await consumer.start()
            await self.rig.until(lambda seen=seen: len(seen) == 10)
            await consumer.stop()
        self.assertEqual((sorted(first), sorted(second)), (list(range(10)),) * 2)
        await producer.send(Message(topic="Broad", body=b"10"))
        rest = []
        consumer = self.rig.new_cluster().consumer(
            "g",
            {"Broad": "*"},
            on_messages=lambda batch: rest.extend(int(each.body) for each in batch),
            consume_from=FIRST,
            broadcasting=True,
            local_offsets=file,
        )
        await consumer.start()
        await self.rig.until(lambda: rest)
        self.assertEqual(rest, [10])

    @asynchronous
    async def test_no_more_than_the_prefetch_is_held(self):
        await self.fill("Slow", 1)
        producer = self.rig.new_cluster().producer("p2")
        await producer.send_batch([Message(topic="Slow", body=b"%d" % n) for n in range(500)])
        block = Deferred()
        consumer = self.rig.new_cluster().consumer(
            "g",
            {"Slow": "*"},
            on_messages=lambda batch: block,
            consume_from=FIRST,
            prefetch_messages=64,
        )
        await consumer.start()

        def held():
            return max((reader.buffered for reader in consumer._core.readers.values()), default=0)

        await self.rig.until(lambda: held() >= 64)
        self.assertLess(held(), 64 + 32)
        block.callback(None)
        await self.rig.until(lambda: held() == 0)

    @asynchronous
    async def test_reads_go_on_from_the_slave_when_the_master_is_gone(self):
        await self.rig.add_broker("slave-a", "broker-a", role="SLAVE")
        await self.rig.stop_broker("broker-b")
        await self.fill("Failover", 20)
        master, slave = self.rig.brokers["broker-a"], self.rig.brokers["slave-a"]
        await self.rig.until(lambda: slave.parts.store.log.max_offset == master.parts.store.log.max_offset)
        slave.services.synchronizer.round_now()
        await self.rig.until(lambda: slave.parts.tables.topics.get("Failover") is not None)
        seen, block = [], Deferred()

        def handle(batch):
            seen.extend(int(each.body) for each in batch)
            return block

        consumer = self.rig.new_cluster().consumer(
            "g", {"Failover": "*"}, on_messages=handle, consume_from=FIRST, prefetch_messages=1
        )
        await consumer.start()
        await self.rig.until(lambda: seen)
        await self.rig.stop_broker("broker-a")
        block.callback(None)
        await self.rig.until(lambda: len(set(seen)) == 20)


class TestLifeCycle(TestCase):
    timeout = 50

    def setUp(self):
        self.rig = ClusterRig(self)
        return self.rig.start()

    @asynchronous
    async def test_stops_and_closes_may_come_at_any_time_and_twice(self):
        cluster = self.rig.new_cluster()
        never = cluster.consumer("never", {"T": "*"})
        await never.stop()
        await self.assertFailure(never.start(), Closed)
        hasty = cluster.consumer("hasty", {"T": "*"})
        starting = hasty.start()
        await hasty.stop()
        await self.assertFailure(starting, Closed)
        self.assertEqual(cluster.session.consumers, [])
        running = cluster.consumer("running", {"T": "*"})
        await running.start()
        await self.assertFailure(running.start(), Closed)
        await gatherResults([running.stop(), running.stop(), cluster.close(), cluster.close()])
        await cluster.close()
        await self.assertFailure(cluster.consumer("late", {"T": "*"}).start(), Closed, NoNameServer)

    @asynchronous
    async def test_a_start_that_failed_can_be_tried_again(self):
        cluster = self.rig.new_cluster()
        one = cluster.consumer("g", {"T": "*"})
        await one.start()
        two = cluster.consumer("g", {"T": "*"})
        await self.assertFailure(two.start(), ValueError)
        await one.stop()
        await two.start()
        await two.stop()

    def test_what_cannot_be_subscribed_to_is_reported_at_once(self):
        cluster = self.rig.new_cluster()
        for wrong in ({}, {"a b": "*"}):
            self.assertRaises(ValueError, cluster.consumer, "g", wrong)
        self.assertRaises(ValueError, cluster.consumer, "g", {"T": "*"}, batch=0)
        nothing = self.assertRaises(BadSetting, cluster.consumer, "g", {})
        self.assertEqual(str(nothing), "group g has no subscription")


class TestReset(TestCase):
    timeout = 50

    def setUp(self):
        self.rig = ClusterRig(self)
        return self.rig.start()

    @asynchronous
    async def test_an_administrators_reset_moves_a_running_consumer(self):
        rig = self.rig
        cluster = rig.new_cluster()
        producer = cluster.producer("p")
        for number in range(10):
            await producer.send(Message(topic="Reset", body=b"%d" % number))
        seen = []
        consumer = cluster.consumer(
            "g",
            {"Reset": "*"},
            on_messages=lambda batch: seen.extend(int(each.body) for each in batch),
            consume_from=FIRST,
        )
        await consumer.start()
        await rig.until(lambda: len(seen) == 10)
        await consumer.commit()
        await rig.new_cluster().admin().reset("g", "Reset", 0)
        await rig.until(lambda: len(seen) == 20)
        self.assertEqual(sorted(seen[10:]), list(range(10)))

    @asynchronous
    async def test_a_reset_moves_a_consumer_that_has_no_progress_in_some_queue_yet(self):
        """Brokers, RocketMQ's as ours, then say that there is no such group, though its members are connected."""
        rig = self.rig
        await rig.new_cluster().producer("p").send(Message(topic="Reset", body=b"only one"))
        seen = []
        consumer = rig.new_cluster().consumer(
            "g", {"Reset": "*"}, on_messages=seen.extend, consume_from=FIRST, auto_commit=False
        )
        await consumer.start()
        await rig.until(lambda: len(seen) == 1)
        self.assertEqual(rig.brokers["broker-a"].parts.tables.offsets.queues("g", "Reset"), {})
        moved = await rig.new_cluster().admin().reset("g", "Reset", 0)
        self.assertEqual(list(moved.values()), [0] * 4)
        await rig.until(lambda: len(seen) == 2)

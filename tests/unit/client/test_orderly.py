"""Consumption in order: locks, suspended queues, and nobody beside anybody, against our own brokers here."""

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase

from hatwisted.client.driver import deferred
from hatwisted.clientcore.message import Message
from hatwisted.clientcore.options import ConsumeFrom
from hatwisted.clientcore.queuelocks import LOCK_LIFE, RENEWAL_INTERVAL
from tests.support.clusterrig import ClusterRig, asynchronous
from tests.support.patience import patient

FIRST = ConsumeFrom.FIRST
QUEUES = 4


class OrderlyCase(TestCase):
    timeout = 50

    def setUp(self):
        self.rig = ClusterRig(self)
        return self.rig.start()

    async def fill(self, topic, count, key="one"):
        producer = self.rig.new_cluster().producer("p")
        for number in range(count):
            await producer.send(Message(topic=topic, body=b"%d" % number, order_key=key))

    def consumer(self, topic, handle=None, **more):
        cluster = more.pop("cluster", None) or self.rig.new_cluster()
        options = {"consume_from": FIRST, "orderly": True, "suspension": 0.02} | more
        return cluster.consumer("g", {topic: "*"}, on_messages=handle, **options)

    def held(self, consumer, topic):
        return {queue for queue in consumer.queues if queue.topic == topic}

    @property
    def locks(self):
        return self.rig.brokers["broker-a"].parts.consumer_admin.locks


class TestOrder(OrderlyCase):
    @asynchronous
    async def test_a_failing_message_holds_up_those_behind_it(self):
        await self.fill("Held", 8)
        seen = []

        def handle(batch):
            (message,) = batch
            seen.append((int(message.body), message.reconsume_times))
            if message.body == b"3" and message.reconsume_times < 3:
                raise ValueError("not yet")

        consumer = self.consumer("Held", handle)
        await consumer.start()
        await self.rig.until(lambda: len(seen) == 11)
        expected = [(n, 0) for n in range(4)] + [(3, 1), (3, 2), (3, 3)] + [(n, 0) for n in range(4, 8)]
        self.assertEqual(seen, expected)
        await consumer.stop()
        standings = await self.rig.new_cluster().admin().progress("g")
        self.assertEqual(sum(each.consumed for each in standings if each.queue.topic == "Held"), 8)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 3, "each with its traceback")

    @asynchronous
    async def test_of_a_failing_batch_the_good_ones_before_are_settled_and_none_behind_is_touched(self):
        await self.fill("Halved", 1)
        calls, block = [], Deferred()

        def handle(batch):
            numbers = [int(message.body) for message in batch]
            calls.append(numbers)
            if numbers == [0]:
                return block  # until all others are in the buffer
            if 5 in numbers and batch[numbers.index(5)].reconsume_times == 0:
                raise ValueError("not yet")
            return None

        consumer = self.consumer("Halved", handle, batch=8)
        await consumer.start()
        await self.rig.until(lambda: calls)
        producer = self.rig.new_cluster().producer("p")
        for number in range(1, 11):
            await producer.send(Message(topic="Halved", body=b"%d" % number, order_key="one"))
        (reader,) = [each for each in consumer._core.readers.values() if each.buffered]
        await self.rig.until(lambda: reader.buffered == 11)
        block.callback(None)
        await self.rig.until(lambda: reader.progress == 11)
        first = [[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4], [5, 6, 7, 8], [5, 6], [5]]
        self.assertEqual(calls, [[0], *first, [5], [6, 7, 8, 9, 10]])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    @asynchronous
    async def test_the_loop_gets_a_rejected_message_again_before_the_next(self):
        await self.fill("Loop", 5)
        consumer, seen = self.consumer("Loop"), []
        await consumer.start()
        async for message in consumer:
            seen.append(int(message.body))
            if message.body == b"2" and message.reconsume_times < 2:
                consumer.reject(message)
            elif message.body == b"4":
                break
        self.assertEqual(seen, [0, 1, 2, 2, 2, 3, 4])

    @asynchronous
    async def test_after_the_allowed_failures_it_is_a_dead_letter_and_the_queue_goes_on(self):
        await self.fill("Bad", 3)
        seen = []

        def handle(batch):
            seen.append(int(batch[0].body))
            if batch[0].body == b"1":
                raise ValueError("never")

        consumer = self.consumer("Bad", handle, max_reconsume=2)
        await consumer.start()
        await self.rig.until(lambda: 2 in seen)
        self.assertEqual(seen, [0, 1, 1, 1, 2])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 3)
        dead = self.rig.new_cluster().consumer("undertaker", {"%DLQ%g": "*"}, consume_from=FIRST)
        await self.until_known("%DLQ%g")
        await dead.start()
        async for message in dead:
            self.assertEqual((message.body, message.topic), (b"1", "Bad"))
            break

    async def until_known(self, topic):
        routes = self.rig.new_cluster().session.routes
        while await deferred(routes.route(topic, fresh=True)) is None:
            await self.rig.until(lambda: True)

    @asynchronous
    async def test_broadcasting_in_order_needs_no_locks(self):
        await self.fill("Broad", 3)
        seen = []

        def handle(batch):
            seen.append(int(batch[0].body))
            if seen == [0, 1]:
                raise ValueError("not yet")

        consumer = self.consumer("Broad", handle, broadcasting=True)
        await consumer.start()
        await self.rig.until(lambda: 2 in seen)
        self.assertEqual(seen, [0, 1, 1, 2])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.assertEqual(len(self.locks), 0)


class TestLocks(OrderlyCase):
    @asynchronous
    async def test_a_queue_changes_hands_when_its_message_is_done_and_not_before(self):
        producer = self.rig.new_cluster().producer("p")
        for queue_id in range(QUEUES):
            for number in range(2):
                await producer.send(
                    Message(topic="Hands", body=b"%d.%d" % (queue_id, number)),
                    queue=(await producer.queues("Hands"))[queue_id],
                )
        block, first, second = Deferred(), [], []
        # One waiter for each delivery: a Deferred that callbacks share passes its result along.
        waiting = []

        def slowly(batch):
            first.append(batch[0].body)
            if block.called:
                return None
            waiting.append(Deferred())
            return waiting[-1]

        one = self.consumer("Hands", slowly)
        await one.start()
        await self.rig.until(lambda: len(first) == QUEUES)
        two = self.consumer("Hands", lambda batch: second.append(batch[0].body))
        await two.start()
        await self.rig.until(lambda: len(self.held(one, "Hands")) == QUEUES // 2)
        self.assertEqual((second, self.held(two, "Hands")), ([], set()))
        block.callback(None)
        for each in waiting:
            each.callback(None)
        await self.rig.until(lambda: len(first) + len(second) == 2 * QUEUES)
        self.assertEqual(set(first) & set(second), set(), "delivered to both")
        self.assertTrue(all(body.endswith(b".1") for body in second), second)
        self.assertEqual(len(self.held(two, "Hands")), QUEUES // 2)

    @asynchronous
    async def test_stopping_unlocks(self):
        await self.fill("Next", 2)
        seen = []
        for _ in range(2):
            consumer = self.consumer("Next", lambda batch: seen.append(batch[0].body))
            await consumer.start()
            self.assertEqual(len(self.held(consumer, "Next")), QUEUES)
            self.assertEqual(len(self.locks), QUEUES + 1, "and the retry topic's")
            await self.rig.until(lambda: len(seen) == 2)
            await consumer.stop()
            self.assertEqual(len(self.locks), 0)

    @asynchronous
    async def test_what_a_stopped_consumers_program_works_on_stays_locked(self):
        await self.fill("Busy", 2)
        clock, taken = Clock(), []
        cluster = self.rig.new_cluster(clock=clock)
        consumer = self.consumer("Busy", lambda batch: taken.append(batch) or Deferred(), cluster=cluster)
        await consumer.start()
        await self.rig.until(lambda: taken)
        stopping = consumer.stop()
        clock.advance(5)
        await stopping
        self.assertEqual(len(self.locks), 1)

    @asynchronous
    async def test_locks_are_renewed_every_20_s(self):
        await self.fill("Renew", 1)
        clock, asked = Clock(), []
        # Its clock runs ahead of the broker's: no pull may time out for that, and take the connection with it.
        cluster = patient(self.rig.new_cluster(clock=clock), 100)
        consumer = self.consumer("Renew", lambda batch: None, cluster=cluster)
        await consumer.start()
        lock = self.locks.lock
        self.patch(self.locks, "lock", lambda *words: asked.append(words) or lock(*words))
        for expected in (1, 2):
            clock.advance(RENEWAL_INTERVAL)
            await self.rig.until(lambda expected=expected: len(asked) == expected)
        self.assertEqual(set(asked[-1][1]), set(consumer.queues))

    @asynchronous
    async def test_a_queue_locked_by_somebody_else_is_dropped_and_its_progress_left_alone(self):
        await self.fill("Stolen", 6)
        clock, seen, work = Clock(), [], Deferred()
        cluster = self.rig.new_cluster(clock=clock)

        def handle(batch):
            seen.append(int(batch[0].body))
            return work if len(seen) == 3 else None

        consumer = self.consumer("Stolen", handle, cluster=cluster)
        await consumer.start()
        await self.rig.until(lambda: len(seen) == 3)
        (queue,) = [each for each, reader in consumer._core.readers.items() if reader.buffered]
        self.locks.unlock("g", [queue], cluster.client_id)
        self.locks.lock("g", [queue], "thief")
        clock.advance(RENEWAL_INTERVAL)
        await self.rig.until(lambda: queue not in consumer.queues)
        admin = self.rig.new_cluster()
        await deferred(admin.session.routes.route("Stolen"))
        fields = {"consumerGroup": "g", "topic": "Stolen", "queueId": queue.queue_id, "commitOffset": 5}
        await deferred(admin.session.ask(self.rig.brokers["broker-a"].address, 15, fields))
        await consumer.commit()
        standing = await admin.admin().progress("g")
        self.assertEqual([each.consumed for each in standing if each.queue == queue], [5])
        work.callback(None)

    @asynchronous
    async def test_a_lock_that_lapsed_stops_the_work_until_it_is_back(self):
        await self.fill("Lapse", 4)
        clock, seen, waiting = Clock(), [], []

        def handle(batch):
            seen.append(int(batch[0].body))
            if len(seen) == 1:
                waiting.append(Deferred())
                return waiting[0]
            return None

        cluster = self.rig.new_cluster(clock=clock)
        consumer = self.consumer("Lapse", handle, cluster=cluster)
        await consumer.start()
        await self.rig.until(lambda: waiting)
        (queue,) = [each for each, reader in consumer._core.readers.items() if reader.buffered]
        reader = consumer._core.readers[queue]
        await self.rig.until(lambda: reader.buffered == 4)
        # As if the broker couldn't be asked: the renewal that is due finds nobody.
        self.patch(cluster.session.routes, "master", lambda topic, broker: None)
        clock.advance(LOCK_LIFE + 1)
        waiting[0].callback(None)
        await self.rig.until(lambda: reader.progress == 1)
        self.assertEqual(
            (seen, consumer._core.running_info()["properties"]["PROP_CONSUMEORDERLY"]), ([0], "true")
        )
        del cluster.session.routes.master

        def turn():
            clock.advance(0.5)
            return len(seen) == 4

        await self.rig.until(turn)
        self.assertEqual(seen, [0, 1, 2, 3])
        self.assertIs(consumer._core.readers[queue], reader, "nobody else went on: it isn't read again")

"""Halving of failing batches, sharing out of queues, choice of brokers, rates: the rules without a network."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.client.driver import deferred
from hatwisted.clientcore.allocation import allocate
from hatwisted.clientcore.consumerstats import ConsumerStats
from hatwisted.clientcore.delivery import (
    RECONSUME_LATER,
    AckIndex,
    deliver,
    deliver_in_order,
    deliver_whole,
)
from hatwisted.clientcore.errors import Unsettled
from hatwisted.clientcore.options import ConsumerOptions
from hatwisted.clientcore.queuereader import PULL_MESSAGES
from hatwisted.clientcore.selection import BrokerFaults, RoundRobin, interleaved
from hatwisted.wire.messagequeue import MessageQueue


def queue(broker, number):
    return MessageQueue(broker_name=broker, queue_id=number, topic="T")


def failing(calls, bad):
    """A program that fails on any batch with one of `bad`."""

    async def consume(part):
        calls.append(list(part))
        if bad & set(part):
            raise ValueError("bad")

    return consume


class TestHalving(SynchronousTestCase):
    def run_with(self, batch, bad):
        self.calls, self.failed = [], []

        async def failed(message, error):
            self.failed.append(message)

        self.successResultOf(deferred(deliver(batch, failing(self.calls, bad), failed)))

    def test_a_good_batch_is_delivered_once(self):
        self.run_with(list(range(8)), set())
        self.assertEqual((self.calls, self.failed), ([list(range(8))], []))

    def test_B159_a_bad_message_ends_alone_and_every_other_one_in_a_batch_that_succeeded(self):
        for bad in ({0}, {5}, {15}, {3, 4}, set(range(16))):
            self.run_with(list(range(16)), bad)
            self.assertEqual(set(self.failed), bad)
            self.assertEqual(len(self.failed), len(bad))
            good = [message for part in self.calls if not bad & set(part) for message in part]
            self.assertEqual(good, [each for each in range(16) if each not in bad])

    def test_B159_one_bad_message_costs_two_deliveries_a_halving(self):
        self.run_with(list(range(1024)), {700})
        self.assertEqual(len(self.calls), 1 + 2 * 10)

    def test_B159_message_30_of_100_is_alone_after_7_halvings_at_most(self):
        self.run_with(list(range(100)), {30})
        sizes = [len(part) for part in self.calls if 30 in part]
        self.assertEqual((sizes[0], sizes[-1], self.failed), (100, 1, [30]))
        self.assertLessEqual(len(sizes) - 1, 7)

    def test_between_two_halves_a_queue_may_go_away(self):
        stays, found = iter([True, True, False]), []

        async def failed(message, error):
            found.append(message)

        work = deliver([1, 2], failing([], {1, 2}), failed, stays.__next__)
        self.failureResultOf(deferred(work), Unsettled)
        self.assertEqual(found, [1])


class TestWholeBatch(SynchronousTestCase):
    """RocketMQ's own rule."""

    def run_with(self, batch, listener, how=deliver_whole):
        self.calls, self.failed = [], []

        async def consume(part):
            self.calls.append(list(part))
            return listener(part)

        async def failed(message, error):
            self.failed.append(message)
            self.errors.append(str(error))

        self.errors = []
        self.successResultOf(deferred(how(batch, consume, failed)))

    def test_B125_a_batch_that_fails_goes_back_message_by_message_and_is_delivered_once(self):
        self.run_with(list(range(10)), lambda part: 1 // 0)
        self.assertEqual((self.calls, self.failed), ([list(range(10))], list(range(10))))
        self.run_with(list(range(10)), lambda part: RECONSUME_LATER)
        self.assertEqual((self.calls, self.failed), ([list(range(10))], list(range(10))))

    def test_B125_only_what_lies_behind_the_ack_index_goes_back(self):
        for how in (deliver, deliver_whole):
            for index, back in ((2, list(range(3, 10))), (9, []), (99, []), (-5, list(range(10)))):
                self.run_with(list(range(10)), lambda part, index=index: AckIndex(index), how)
                self.assertEqual((len(self.calls), self.failed), (1, back))
                self.assertEqual(self.errors, ["to be consumed later"] * len(back))

    def test_B125_one_message_for_a_call_and_32_for_a_pull(self):
        self.assertEqual((ConsumerOptions().batch, PULL_MESSAGES), (1, 32))


class TestInOrder(SynchronousTestCase):
    def run_with(self, batch, bad, stay=lambda: True):
        self.calls = []
        work = deliver_in_order(batch, failing(self.calls, bad), stay)
        return self.successResultOf(deferred(work))

    def test_the_first_bad_one_ends_it_and_nothing_behind_it_is_delivered_after_it_failed_alone(self):
        for bad in ({0}, {5}, {15}, {3, 4}, {9, 1}, set(range(16))):
            done, error = self.run_with(list(range(16)), bad)
            self.assertEqual((done, type(error)), (min(bad), ValueError))
            self.assertEqual(self.calls[-1], [min(bad)])
            good = [message for part in self.calls if not bad & set(part) for message in part]
            self.assertEqual(good, list(range(min(bad))))

    def test_a_good_batch_and_a_queue_that_goes(self):
        self.assertEqual(self.run_with([1, 2, 3], set()), (3, None))
        self.assertEqual(self.run_with([1, 2, 3], set(), lambda: False), (0, None))
        self.assertEqual(self.calls, [])
        stays = iter([True, True, False])
        self.assertEqual(self.run_with([1, 2], {2}, stays.__next__), (1, None))


class TestRates(SynchronousTestCase):
    def test_a_minute_of_rates_and_an_hour_of_failures(self):
        clock = Clock()
        stats = ConsumerStats(clock)
        for _ in range(30):
            stats.pulled("T", 4, 0.5)
            stats.consumed("T", 2, 0.5)
            stats.failed("T", 1)
            clock.advance(1)
        status = stats.status("T")
        self.assertEqual((status["pullTPS"], status["consumeOKTPS"], status["consumeFailedTPS"]), (2, 1, 0.5))
        self.assertEqual((status["pullRT"], status["consumeRT"], status["consumeFailedMsgs"]), (500, 250, 30))
        clock.advance(61)
        status = stats.status("T")
        self.assertEqual((status["pullTPS"], status["pullRT"], status["consumeFailedMsgs"]), (0, 0, 30))
        clock.advance(3600)
        self.assertEqual(stats.status("T")["consumeFailedMsgs"], 0)


class TestAllocation(SynchronousTestCase):
    def test_every_queue_has_one_reader_and_shares_differ_by_one(self):
        queues = [queue(broker, number) for broker in ("a", "b") for number in range(7)]
        for members in (["c1"], ["c2", "c1"], ["c3", "c1", "c2"], [f"c{n:02}" for n in range(20)]):
            shares = {member: allocate(queues, members, member) for member in members}
            self.assertEqual([each for name in sorted(shares) for each in shares[name]], queues)
            sizes = {len(share) for share in shares.values()}
            self.assertLessEqual(max(sizes) - min(sizes), 1)

    def test_as_java_does_it(self):
        queues = [queue("a", number) for number in range(8)]
        ids = [[each.queue_id for each in allocate(queues, "xyz", member)] for member in "xyz"]
        self.assertEqual(ids, [[0, 1, 2], [3, 4, 5], [6, 7]])

    def test_who_isnt_a_member_gets_nothing(self):
        self.assertEqual(allocate([queue("a", 0)], ["c1"], "c2"), [])


class TestSelection(SynchronousTestCase):
    def setUp(self):
        self.queues = interleaved([queue(broker, number) for broker in "ab" for number in range(2)])
        self.faults, self.turn = BrokerFaults(), RoundRobin()

    def brokers(self, count, now, tried=()):
        return "".join(
            self.turn.choose(self.queues, self.faults, now, tried).broker_name for _ in range(count)
        )

    def test_brokers_take_turns(self):
        self.assertEqual(self.brokers(6, 0), "ababab")

    def test_a_failed_broker_is_avoided_for_longer_each_time(self):
        self.faults.failed("a", 0)
        self.assertEqual((self.brokers(4, 29.9), set(self.brokers(4, 30))), ("bbbb", {"a", "b"}))
        self.faults.failed("a", 100)
        self.assertEqual((self.brokers(4, 159.9), set(self.brokers(4, 160))), ("bbbb", {"a", "b"}))
        self.faults.answered("a", 0.001, 160)
        self.faults.failed("a", 200)
        self.assertEqual(set(self.brokers(4, 230)), {"a", "b"})

    def test_a_slow_broker_is_avoided_by_its_latency(self):
        for latency, pause in ((0.5, 0), (0.55, 30), (1, 60), (2.5, 120), (3, 180), (20, 600)):
            self.faults.answered("a", latency, 0)
            self.assertEqual(self.faults.avoided("a", pause * 0.99), pause > 0)
            self.assertFalse(self.faults.avoided("a", pause))

    def test_when_all_are_to_be_avoided_all_are_used_but_the_one_just_tried(self):
        self.faults.failed("a", 0)
        self.faults.failed("b", 0)
        self.assertEqual(set(self.brokers(4, 1)), {"a", "b"})
        self.assertEqual(self.brokers(4, 1, {"a"}), "bbbb")

"""Pulls that wait: woken by arrivals, by deadlines, by the recheck; gone with their connection."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.pull import pullhold as longpolling
from hatwisted.broker.pull.pullhold import (
    MAX_HOLD,
    PULLS_PER_EFFORT,
    RECHECK_INTERVAL,
    SLICE,
    TAGS_PER_PULL,
    HeldPull,
    PullHold,
)
from hatwisted.store.queue.reading import RecordTest
from hatwisted.wire.remoting import RemotingCommand
from tests.support.grownqueue import grown


class Connection:
    paused = False

    def __init__(self):
        self.closers = []
        self.readers = []

    def on_resume(self, reader):
        self.readers.append(reader)

    def resume(self):
        self.paused = False
        readers, self.readers = self.readers, []
        for reader in readers:
            reader()

    def on_close(self, closer):
        self.closers.append(closer)

    def close(self):
        for closer in self.closers:
            closer(self)


class TestHold(SynchronousTestCase):
    """`found` says what the next look finds; `looks` are the looks made, as (offset, final)."""

    def setUp(self):
        self.clock = Clock()
        self.clock.advance(1000.25)
        self.found = True
        self.looks = []
        self.end = 0
        self.hold = PullHold(self.clock, lambda topic, queue_id: self.end)
        self.hold.start()
        self.connection = Connection()

    def retry(self, pull, final):
        self.looks.append((pull.offset, final))
        return self.found or final

    def pull(self, offset=0, seconds=15, queue=("T", 0), connection=None):
        pull = HeldPull(
            connection or self.connection, RemotingCommand(11), queue, offset, 32, 1000, None, self.retry
        )
        self.assertTrue(self.hold.hold(pull, seconds))
        return pull

    def tick(self, seconds, step=0.25):
        for _ in range(int(seconds / step)):
            self.clock.advance(step)

    def test_arrival_wakes_the_pulls_of_its_queue_in_the_next_turn(self):
        self.pull(offset=7)
        self.pull(offset=3, queue=("T", 1))
        self.hold.arrived(grown("U", 0, 9))
        self.hold.arrived(grown("T", 0, 8))
        self.hold.arrived(grown("T", 0, 9))
        self.assertEqual(self.looks, [])
        self.clock.advance(0)
        self.assertEqual(self.looks, [(7, False)])
        self.assertEqual(self.hold.count, 1)

    def test_pull_that_finds_nothing_for_it_sleeps_on(self):
        self.found = False
        self.pull()
        for _ in range(3):
            self.hold.arrived(grown("T", 0, 1))
            self.clock.advance(0)
        self.assertEqual((len(self.looks), self.hold.count), (3, 1))
        self.found = True
        self.hold.arrived(grown("T", 0, 2))
        self.clock.advance(0)
        self.assertEqual(self.hold.count, 0)

    def test_deadline_answers_at_most_a_second_late(self):
        self.found = False
        self.pull(seconds=15)
        self.tick(14.75)
        self.assertEqual(self.looks, [])
        self.tick(1.25)
        self.assertEqual((self.looks, self.hold.count), ([(0, True)], 0))

    def test_nobody_waits_longer_than_clients_do(self):
        self.pull(seconds=1e9)
        self.tick(MAX_HOLD + 1)
        self.assertEqual(self.hold.count, 0)

    def test_B96_unannounced_arrival_is_found_by_the_recheck(self):
        self.pull(offset=5)
        self.end = 5
        self.tick(RECHECK_INTERVAL)
        self.assertEqual(self.looks, [])
        self.end = 6
        self.tick(RECHECK_INTERVAL)
        self.clock.advance(0)
        self.assertEqual(self.looks, [(5, False)])

    def test_closed_connection_takes_its_pulls_along(self):
        other = Connection()
        self.pull()
        self.pull(queue=("T", 1))
        self.pull(connection=other)
        self.connection.close()
        self.assertEqual(self.hold.count, 1)
        self.hold.arrived(grown("T", 0, 1))
        self.hold.arrived(grown("T", 1, 1))
        self.clock.advance(0)
        self.tick(20)
        self.assertEqual(len(self.looks), 1)
        self.assertEqual(len(self.connection.closers), 1)

    def test_a_client_that_does_not_read_gets_its_answers_when_it_does(self):
        reading = Connection()
        self.connection.paused = True
        self.pull(offset=7)
        self.pull(offset=8)
        self.pull(offset=9, connection=reading)
        self.hold.arrived(grown("T", 0, 10))
        self.clock.advance(0)
        self.assertEqual(self.looks, [(9, False)])
        self.tick(60)
        self.hold.arrived(grown("T", 0, 10))
        self.clock.advance(0)
        self.assertEqual((self.looks, self.hold.count), ([(9, False)], 2))
        self.assertEqual(len(self.connection.readers), 1)
        self.connection.resume()
        self.clock.advance(0)
        self.assertEqual((self.looks[1:], self.hold.count), ([(7, False), (8, False)], 0))

    def test_fruitless_pulls_of_a_client_that_reads_again_are_answered(self):
        self.connection.paused = True
        self.pull()
        self.tick(20)
        self.connection.resume()
        self.tick(1)
        self.assertEqual((self.looks, self.hold.count), ([(0, True)], 0))

    def test_a_client_that_never_reads_leaves_nothing_behind(self):
        self.connection.paused = True
        self.pull()
        self.hold.arrived(grown("T", 0, 10))
        self.clock.advance(0)
        self.connection.close()
        self.connection.resume()
        self.clock.advance(0)
        self.assertEqual((self.looks, self.hold.count, self.hold._unread), ([], 0, {}))
        self.hold.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def slow(self, pull, final):
        """A look, of which three are begun within a slice."""
        self.clock.rightNow += 0.45 * SLICE
        return self.retry(pull, final)

    def hold_slow_ones(self, **what):
        pulls = [self.pull(offset=offset, **what) for offset in range(7)]
        for pull in pulls:
            pull.retry = self.slow
        return pulls

    def else_from(self, look):
        """What else there is to do gets `else` noted once it has its turn after this look."""

        def retry(pull, final):
            self.clock.callLater(0, self.looks.append, "else")
            return self.slow(pull, final)

        look.retry = retry

    def test_looks_at_many_pulls_take_turns_with_all_else(self):
        self.found = False
        first, *_ = self.hold_slow_ones()
        self.pull(offset=9, queue=("U", 0), connection=Connection())
        self.else_from(first)
        self.hold.arrived(grown("T", 0, 10))
        self.hold.arrived(grown("U", 0, 10))
        self.clock.advance(0)
        looks = [(offset, False) for offset in (0, 9, 1, 2, 3, 4, 5, 6)]
        self.assertEqual(self.looks, [*looks[:4], "else", *looks[4:]])

    def test_a_queue_that_grows_meanwhile_is_looked_at_once_more(self):
        self.found = False
        first, *_ = self.hold_slow_ones()

        def grow(pull, final):
            if len(self.looks) < 3:
                self.hold.arrived(grown("T", 0, 11))
            return self.slow(pull, final)

        first.retry = grow
        self.hold.arrived(grown("T", 0, 10))
        self.clock.advance(0)
        self.assertEqual(self.looks, [(offset, False) for offset in (*range(7), *range(7))])

    def test_the_end_of_many_pulls_takes_turns_with_all_else(self):
        first, *_ = self.hold_slow_ones(seconds=1)
        self.else_from(first)
        self.tick(2)
        self.assertEqual(self.looks[3], "else")
        self.looks.remove("else")
        self.assertEqual((self.looks, self.hold.count), ([(each, True) for each in range(7)], 0))

    def test_a_pull_that_is_gone_when_its_turn_comes_is_left_out(self):
        self.found = False
        first, *_ = self.hold_slow_ones()

        def leave(pull, final):
            self.connection.close()
            return self.slow(pull, final)

        first.retry = leave
        self.hold.arrived(grown("T", 0, 10))
        self.clock.advance(0)
        self.assertEqual((self.looks, self.hold.count), ([(0, False)], 0))

    def close_slowly(self):
        """The clock goes on with each look at it."""
        self.hold_slow_ones()
        seconds = self.clock.seconds

        def slower():
            self.clock.rightNow += 0.0009
            return seconds()

        self.patch(self.clock, "seconds", slower)
        self.connection.close()

    def test_many_pulls_of_a_closed_connection_are_forgotten_in_steps(self):
        self.close_slowly()
        self.assertGreater(self.hold.count, 3)
        for _ in range(5):
            self.clock.advance(0.001)
        self.assertEqual(
            (self.looks, self.hold.count, self.hold._queues, self.hold._buckets), ([], 0, {}, {})
        )

    def test_stopping_forgets_those_of_a_closed_connection(self):
        self.close_slowly()
        self.hold.stop()
        self.assertEqual((self.looks, self.hold.count, self.clock.getDelayedCalls()), ([], 0, []))

    def test_stopping_leaves_no_turn_behind(self):
        self.found = False
        first, *_ = self.hold_slow_ones()

        def stop(pull, final):
            self.clock.callLater(0, self.hold.stop)
            return self.slow(pull, final)

        first.retry = stop
        self.hold.arrived(grown("T", 0, 10))
        self.clock.advance(0)
        self.assertEqual((len(self.looks), self.hold.count, self.clock.getDelayedCalls()), (10, 0, []))

    def test_no_room(self):
        self.patch(longpolling, "MAX_HELD", 2)
        self.pull()
        self.pull()
        pull = HeldPull(self.connection, RemotingCommand(11), ("T", 0), 0, 32, 1000, None, self.retry)
        self.assertFalse(self.hold.hold(pull, 15))

    def test_a_long_filter_counts_as_several_pulls(self):
        self.patch(longpolling, "MAX_HELD", 5)

        def held(tags):
            wanted = frozenset(range(tags))
            pull = HeldPull(self.connection, RemotingCommand(11), ("T", 0), 0, 32, 1000, wanted, self.retry)
            return self.hold.hold(pull, 15)

        self.assertTrue(held(2 * TAGS_PER_PULL))
        self.assertFalse(held(2 * TAGS_PER_PULL))
        self.assertTrue(held(2 * TAGS_PER_PULL - 1))
        self.hold.arrived(grown("T", 0, 5))
        self.clock.advance(0)
        self.assertEqual(self.hold.count, 0)

    def test_a_filter_that_was_brought_along_counts_for_what_it_takes(self):
        self.patch(longpolling, "MAX_HELD", PULLS_PER_EFFORT + 3)

        def held(effort, *, carried):
            wanted = RecordTest(lambda record: True, effort)
            pull = HeldPull(
                self.connection, RemotingCommand(11), ("T", 0), 0, 32, 1000, wanted, self.retry, carried
            )
            return self.hold.hold(pull, 15)

        self.assertTrue(held(2, carried=True))
        self.assertFalse(held(2, carried=True))
        self.assertTrue(held(1, carried=True))
        self.assertTrue(held(100, carried=False), "its group's own is there once")
        self.assertFalse(held(1, carried=False))
        self.hold.arrived(grown("T", 0, 5))
        self.clock.advance(0)
        self.assertEqual(self.hold.count, 0)

    def test_stopping_answers_everybody(self):
        self.found = False
        self.pull(offset=1)
        self.pull(offset=2)
        self.hold.arrived(grown("T", 0, 5))
        self.hold.stop()
        self.assertEqual(sorted(self.looks), [(1, True), (2, True)])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_nothing_is_left_behind(self):
        for number in range(100):
            self.pull(offset=number, seconds=number % 7 + 1, queue=("T", number % 5))
        self.hold.arrived(grown("T", 3, 1000))
        self.tick(10)
        self.assertEqual(len(self.looks), 100)
        self.assertEqual((self.hold.count, self.hold._queues, self.hold._buckets), (0, {}, {}))

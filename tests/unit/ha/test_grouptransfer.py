from __future__ import annotations

from inspect import signature
from random import Random

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.ha.grouptransfer import MAX_WAITS, GroupTransferService
from tests.support.soak import times

WAITS = times(10_000)


class GroupTransferTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.group = GroupTransferService(self.clock, timeout=5.0)
        self.released: list[tuple[str, int]] = []

    def put(self, name: str, first: int, last: int | None = None) -> Deferred[int]:
        waiting = self.group.wait(first, last or first)
        waiting.addCallback(lambda acked: self.released.append((name, acked)))
        return waiting

    def test_B73_an_ack_exactly_at_the_end_completes(self) -> None:
        self.put("a", 100)
        self.group.acked(99)
        self.assertEqual(self.released, [])
        self.group.acked(100)
        self.assertEqual(self.released, [("a", 100)])

    def test_B77_one_ack_releases_what_it_covers_in_log_order(self) -> None:
        for name, end in (("a", 100), ("b", 200), ("c", 300), ("d", 400)):
            self.put(name, end)
        self.group.acked(300)
        self.assertEqual(self.released, [("a", 300), ("b", 300), ("c", 300)])
        self.assertEqual(len(self.group), 1)

    def test_B75_each_of_ten_puts_has_its_own_deadline(self) -> None:
        for index in range(10):
            self.put(str(index), 100 + index)
            self.clock.advance(0.1)
        self.clock.pump([0.05] * 79)  # 4.95 s after the first
        self.assertEqual(self.released, [])
        for index in range(10):
            self.clock.advance(0.1)
            self.assertEqual(len(self.released), index + 1, f"at {self.clock.seconds():.2f} s")

    def test_B76_no_ack_releases_the_waiter_with_what_was_reached(self) -> None:
        self.group.acked(50)
        self.put("a", 100)
        self.clock.advance(5.0)
        self.assertEqual(self.released, [("a", 50)])
        self.assertEqual(self.group.expired_total, 1)

    def test_B133_a_late_ack_after_the_deadline_harms_nobody(self) -> None:
        self.put("a", 100)
        self.clock.advance(6)
        self.group.acked(100)
        self.put("b", 100)
        self.assertEqual(self.released, [("a", 0), ("b", 100)])

    def test_B33_a_lower_ack_takes_nothing_back(self) -> None:
        self.group.acked(100)
        self.group.acked(40)
        self.put("a", 100)
        self.assertEqual(self.released, [("a", 100)])

    def test_a_span_fires_at_its_first_end_and_the_rest_waits_again(self) -> None:
        self.put("first", 100, 300)
        self.group.acked(150)
        self.assertEqual(self.released, [("first", 150)])
        self.put("rest", 200, 300)
        self.put("next", 400)
        self.group.acked(400)
        self.assertEqual(self.released[1:], [("rest", 400), ("next", 400)])

    def test_thousands_of_waiting_puts_time_out_on_time_with_one_timer(self) -> None:
        when: list[float] = []
        for index in range(WAITS):
            self.group.wait(index + 1, index + 1).addCallback(lambda _: when.append(self.clock.seconds()))
            if index % 100 == 0:
                self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.clock.advance(4.999)
        self.assertEqual(when, [])
        self.clock.advance(0.001)
        self.assertEqual(len(when), WAITS)
        self.assertEqual(set(when), {5.0})
        self.assertEqual(len(self.group), 0)

    def test_waits_beyond_the_limit_are_answered_at_once_and_logged_once(self) -> None:
        group = GroupTransferService(self.clock, 5.0, max_waits=2)
        group.acked(7)
        waits = [group.wait(100, 100) for _ in range(5)]
        self.assertEqual([wait.called for wait in waits], [False, False, True, True, True])
        self.assertEqual([self.successResultOf(wait) for wait in waits[2:]], [7, 7, 7])
        self.assertEqual(group.overflow_total, 3)
        self.assertEqual(signature(GroupTransferService).parameters["max_waits"].default, MAX_WAITS)

    def test_stop_releases_everybody_and_leaves_no_timer(self) -> None:
        self.put("a", 100)
        self.group.stop()
        self.put("b", 200)
        self.assertEqual(self.released, [("a", 0), ("b", 0)])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_random_puts_and_acks_against_a_plain_model(self) -> None:
        for seed in range(30):
            self._random_walk(seed)

    def _random_walk(self, seed: int) -> None:
        random = Random(seed)
        clock = Clock()
        group = GroupTransferService(clock, timeout=1.0)
        end = acked = 0
        pending: dict[int, float] = {}
        stopping: list[bool] = []

        def released(offset: int, put: int) -> None:
            on_time = offset >= put or clock.seconds() >= pending[put]
            self.assertTrue(on_time or stopping, f"seed {seed}: put {put} released too early")
            del pending[put]

        for _ in range(400):
            match random.randrange(3):
                case 0:
                    end += random.randrange(1, 50)
                    pending[end] = clock.seconds() + 1.0
                    group.wait(end, end).addCallback(released, end)
                case 1:
                    acked = min(end, acked + random.randrange(80))
                    group.acked(acked)
                    self.assertFalse([put for put in pending if put <= acked], f"seed {seed}")
                case 2:
                    clock.advance(random.random() / 10)
                    late = [put for put, due in pending.items() if due <= clock.seconds()]
                    self.assertEqual(late, [], f"seed {seed}")
        stopping.append(True)
        group.stop()
        self.assertEqual(pending, {}, f"seed {seed}")

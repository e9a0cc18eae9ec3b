"""What the queues offer meets who takes: settled, rejected, withdrawn, ended."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.errors import Rejected, Unsettled
from hatwisted.clientcore.message import ReceivedMessage, received
from hatwisted.clientcore.messagestream import Messages, MessageStream
from hatwisted.clientcore.tasks import Cancelled, Task, Waiter
from hatwisted.wire.record import make_record


def message(number: int, queue_id: int = 0) -> ReceivedMessage:
    body = b"%d" % number
    return received(make_record("T", body, queue_id=queue_id, queue_offset=number), "a")


class StreamTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.stream = MessageStream()

    def offer(self, number: int, queue_id: int = 0) -> Waiter[None]:
        return self.stream.offer([message(number, queue_id)])

    def next(self) -> Task[ReceivedMessage | None]:
        return Task(self.stream.next())

    def body(self, taken: Task[ReceivedMessage | None]) -> bytes:
        found = taken.result()
        assert found is not None
        return found.body

    def test_offers_and_takers_meet_in_order(self) -> None:
        self.offer(0)
        self.offer(1)
        takers = [self.next() for _ in range(4)]
        self.assertEqual([each.done for each in takers], [True, True, False, False])
        self.offer(2)
        self.assertEqual([self.body(each) for each in takers[:3]], [b"0", b"1", b"2"])
        self.offer(3)
        self.assertEqual(self.body(takers[3]), b"3")

    def test_a_taker_that_gave_up_gets_nothing(self) -> None:
        first, second = self.next(), self.next()
        first.cancel()
        self.offer(0)
        self.assertRaises(Cancelled, first.result)
        self.assertEqual(self.body(second), b"0")

    def test_settled_and_rejected_once(self) -> None:
        for settles in (True, False):
            done = self.offer(0)
            found = self.next().result()
            assert found is not None
            self.assertFalse(done.done)
            for first in (True, False):
                (self.stream.settle if settles is first else self.stream.reject)(found)
            if settles:
                self.assertIsNone(done.result())
            else:
                error = self.assertRaises(Rejected, done.result)
                self.assertEqual(str(error), "rejected")

    def test_the_same_message_twice_is_two(self) -> None:
        first, second = message(0), message(0)
        waits = [self.stream.offer([each]) for each in (first, second)]
        self.stream.settle(second)
        self.assertEqual([each.done for each in waits], [False, True])

    def test_what_another_member_reads_now_is_withdrawn(self) -> None:
        taken = self.offer(0)
        self.next()
        withdrawn, kept = self.offer(1), self.offer(2, queue_id=1)
        self.stream.withdraw(message(0).queue)
        error = self.assertRaises(Unsettled, withdrawn.result)
        self.assertEqual(str(error), "the queue was assigned to another member")
        self.assertEqual((taken.done, kept.done, self.body(self.next())), (False, False, b"2"))

    def test_the_end_leaves_all_to_the_next_reader(self) -> None:
        taken, offered = self.offer(0), self.offer(1)
        found = self.next().result()
        assert found is not None
        self.stream.end()
        for each in (taken, offered, self.offer(2)):
            error = self.assertRaises(Unsettled, each.result)
            self.assertEqual(str(error), "the consumer has stopped")
        self.assertIsNone(self.next().result())
        self.stream.settle(found)
        waiting = MessageStream()
        takers = [Task(waiting.next()) for _ in range(2)]
        waiting.end()
        self.assertEqual([each.result() for each in takers], [None, None])

    def test_a_loop_settles_what_it_got_when_it_asks_for_the_next(self) -> None:
        loop = Messages(self.stream)
        waits = [self.offer(number) for number in range(2)]
        for number, settled in enumerate(([False, False], [True, False])):
            found = Task(loop.next()).result()
            assert found is not None
            self.assertEqual((found.body, [each.done for each in waits]), (b"%d" % number, settled))
        following = Task(loop.next())
        self.assertEqual([each.done for each in waits], [True, True])
        following.cancel()
        self.offer(2)
        self.assertEqual(self.body(self.next()), b"2")

"""Messages that share requests: which one leads, which go with it, which wait."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.accumulator import MAX_BATCH_BYTES, MAX_BATCH_MESSAGES, Accumulator, Batch
from hatwisted.clientcore.errors import Closed
from hatwisted.clientcore.message import Message
from hatwisted.clientcore.tasks import Cancelled, Task

HALF = MAX_BATCH_BYTES // 2


class AccumulatorTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.line = Accumulator(2)

    def turn(self, body: bytes, size: int = 1) -> Task[Any]:
        return Task(self.line.turn(Message(topic="T", body=body), size))

    def bodies(self, batch: Batch) -> list[bytes]:
        return [each.body for each in batch.messages]

    def test_without_load_each_goes_at_once_and_alone(self) -> None:
        self.assertTrue(self.line.empty)
        for body in (b"1", b"2"):
            batch = self.turn(body).result()
            self.assertEqual((self.bodies(batch), batch.followers), ([body], []))
            self.assertFalse(self.line.empty)
        self.line.leave()
        self.assertFalse(self.line.empty, "one is under way")
        self.line.leave()
        self.assertTrue(self.line.empty)

    def test_what_waits_goes_with_the_next_request_and_the_first_of_it_leads(self) -> None:
        for body in (b"1", b"2"):
            self.turn(body)
        waiting = [self.turn(body) for body in (b"3", b"4", b"5")]
        self.assertEqual([each.done for each in waiting], [False] * 3)
        self.line.leave()
        self.assertEqual([each.done for each in waiting], [True, False, False])
        batch = waiting[0].result()
        self.assertEqual((self.bodies(batch), len(batch.followers)), ([b"3", b"4", b"5"], 2))
        for number, waiter in enumerate(batch.followers):
            waiter.fire(Batch([Message(topic="T", body=b"result %d" % number)]))
        self.assertEqual([self.bodies(each.result()) for each in waiting[1:]], [[b"result 0"], [b"result 1"]])
        self.line.leave()
        self.line.leave()
        self.assertTrue(self.line.empty)

    def test_a_batch_has_an_end_in_bytes_and_in_messages(self) -> None:
        for body in (b"1", b"2"):
            self.turn(body)
        sizes = (HALF, HALF, 1, MAX_BATCH_BYTES + 1)
        waiting = [self.turn(b"%d" % number, size) for number, size in enumerate(sizes)]
        batches = []
        for leader in (0, 2, 3):
            self.line.leave()
            batches.append(self.bodies(waiting[leader].result()))
        self.assertEqual(batches, [[b"0", b"1"], [b"2"], [b"3"]])
        many = [self.turn(b"", 0) for _ in range(MAX_BATCH_MESSAGES + 1)]
        self.line.leave()
        self.assertEqual(len(many[0].result().messages), MAX_BATCH_MESSAGES)
        self.assertFalse(many[-1].done)

    def test_who_gives_up_waiting_isnt_sent(self) -> None:
        for body in (b"1", b"2"):
            self.turn(body)
        waiting = [self.turn(body) for body in (b"3", b"4")]
        waiting[0].cancel()
        self.assertRaises(Cancelled, waiting[0].result)
        self.line.leave()
        batch = waiting[1].result()
        self.assertEqual(self.bodies(batch), [b"4"])

    def test_a_follower_that_gives_up_once_its_batch_is_under_way_changes_nothing(self) -> None:
        for body in (b"1", b"2"):
            self.turn(body)
        waiting = [self.turn(body) for body in (b"3", b"4")]
        self.line.leave()
        waiting[1].cancel()
        self.assertEqual(self.bodies(waiting[0].result()), [b"3", b"4"])

    def test_closing_fails_who_waits(self) -> None:
        for body in (b"1", b"2"):
            self.turn(body)
        waiting = [self.turn(body) for body in (b"3", b"4")]
        self.line.close()
        for each in waiting:
            error = self.assertRaises(Closed, each.result)
            self.assertEqual(str(error), "the producer was stopped before this message was sent")
        self.line.leave()
        self.line.leave()
        self.assertTrue(self.line.empty)

"""How much a producer has under way, and whom it tells that there's room."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.errors import Closed, ProducerFull
from hatwisted.clientcore.sendwindow import SendWindow
from hatwisted.clientcore.tasks import Cancelled, Task


class SendWindowTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.window = SendWindow(2, 100)

    def enter(self, size: int = 10) -> Task[None]:
        return Task(self.window.enter(size))

    def ready(self) -> Task[None]:
        return Task(self.window.ready())

    def test_ready_waits_while_the_line_takes_every_place(self) -> None:
        for _ in range(3):
            self.enter()
        ready = self.ready()
        self.window.leave()  # the third's turn: the window is full again
        self.assertEqual((self.window.in_flight, ready.done), (2, False))
        self.window.leave()
        self.assertTrue(ready.done)

    def test_one_place_is_promised_once(self) -> None:
        entered: list[Task[None]] = []

        async def send() -> None:
            await self.window.ready()
            entered.append(self.enter())

        for _ in range(2):
            self.enter()
        sends = [Task(send()) for _ in range(3)]
        self.window.leave()
        self.assertEqual(([each.done for each in sends], len(entered)), ([True, False, False], 1))
        self.assertEqual((entered[0].done, self.window.waiting_bytes), (True, 0))
        self.window.leave()
        self.window.leave()
        self.assertEqual([each.done for each in sends], [True, True, True])

    def test_who_gave_up_waiting_for_ready_takes_nobodys_turn(self) -> None:
        for _ in range(2):
            self.enter()
        first, second = self.ready(), self.ready()
        first.cancel()
        self.window.leave()
        self.assertTrue(second.done)
        self.assertRaises(Cancelled, first.result)

    def test_turns_come_in_order_and_the_line_has_an_end(self) -> None:
        for _ in range(2):
            self.enter()
        first, second = self.enter(60), self.enter(40)
        self.assertRaises(ProducerFull, self.enter(1).result)
        self.window.leave()
        self.assertEqual((first.done, second.done, self.window.waiting_bytes), (True, False, 40))
        self.window.close()
        self.assertRaises(Closed, second.result)

    def test_idle_comes_with_the_last_answer(self) -> None:
        self.enter()
        self.enter()
        idle = Task(self.window.idle())
        self.window.leave()
        self.assertFalse(idle.done)
        self.window.leave()
        self.assertTrue(idle.done)

    def test_who_gives_up_its_turn_leaves_the_line(self) -> None:
        for _ in range(2):
            self.enter()
        first, second = self.enter(60), self.enter(30)
        first.cancel()
        self.assertEqual(self.window.waiting_bytes, 30)
        self.enter(70)
        self.assertRaises(ProducerFull, self.enter(1).result)
        self.window.leave()
        self.assertEqual((second.done, self.window.waiting_bytes), (True, 70))

    def test_a_message_larger_than_the_line_waits_if_its_the_only_one(self) -> None:
        for _ in range(2):
            self.enter()
        large = self.enter(1000)
        self.assertEqual((large.done, self.window.waiting_bytes), (False, 1000))
        full = self.assertRaises(ProducerFull, self.enter(0).result)
        words = "1000 bytes wait behind 2 requests without answers: await ready() between sends"
        self.assertEqual(str(full), words)

    def test_closing_leaves_nothing_in_the_line(self) -> None:
        for _ in range(2):
            self.enter()
        waiting, idle = self.enter(), Task(self.window.idle())
        self.window.close()
        closed = self.assertRaises(Closed, waiting.result)
        self.assertEqual(str(closed), "the producer was stopped before this message was sent")
        self.assertEqual((self.window.waiting_bytes, idle.done), (0, False))
        for _ in range(2):
            self.window.leave()
        self.assertEqual((idle.done, self.window.in_flight), (True, 0))
        self.assertTrue(Task(self.window.idle()).done)

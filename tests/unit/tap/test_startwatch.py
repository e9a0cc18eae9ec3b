"""What a slave finds out in its first seconds, for the terminal."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.logger import Logger, LogPublisher
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.tap.startwatch import MOST_LINES, PATIENCE, SETTLED, StartWatch


class StartWatchTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.told: list[str] = []
        self.done = 0
        self.others: list[str] = []
        publisher = LogPublisher()
        self.log = Logger(observer=publisher)
        self.watch = StartWatch(publisher, self.clock, self.told.append, self.end)
        self.watch.start()
        publisher.addObserver(lambda event: self.others.append(event["log_format"]))

    def end(self) -> None:
        self.done += 1

    def test_what_is_wrong_is_told(self) -> None:
        self.log.warn("clocks", event="slave.pairing")
        self.clock.advance(PATIENCE - 1)
        self.log.error("{why} differs", why="a size", event="link.problem")
        self.log.info("a master at {address}", address="a", event="link.up")
        self.log.warn("ids", event="slave.pairing")
        self.assertEqual((self.told, self.done), (["clocks", "a size differs", "ids"], 0))
        self.clock.advance(SETTLED["link.problem"])
        self.log.error("later", event="link.problem")
        self.watch.stop()
        self.assertEqual((len(self.told), self.done), (3, 1))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_its_patience_ends(self) -> None:
        self.clock.advance(PATIENCE - 0.1)
        self.log.error("late", event="link.problem")
        self.clock.advance(0.1)
        self.assertEqual((self.told, self.done), (["late"], 1))

    def test_a_slave_that_copies_needs_no_watching(self) -> None:
        self.log.info("copying", event="slave.copying")
        self.assertEqual(self.others, ["copying"], "another observer was left out")
        self.clock.advance(0)
        self.assertEqual(self.done, 1)

    def test_it_never_fills_a_terminal(self) -> None:
        for _ in range(MOST_LINES + 3):
            self.log.error("again", event="link.problem")
        self.assertEqual(len(self.told), MOST_LINES)
        self.watch.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

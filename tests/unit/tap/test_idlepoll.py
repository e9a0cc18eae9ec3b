"""A reactor that keeps polling for a moment before it sleeps."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from typing import Any

from twisted.internet.epollreactor import EPollReactor
from twisted.internet.selectreactor import SelectReactor
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config.schema import BrokerConfig, NamesrvConfig
from hatwisted.tap.idlepoll import SHORT_WAITS, Events, IdlePoll, IdlePolling, idle_polling

LIMIT = 0.25
SOON, LATE = LIMIT / 2, LIMIT * 2
LOOK = LIMIT / 8  # that a turn of looking takes here


class Watched:
    """A real epoll of a pipe, in a time of its own: to ask takes none, to sleep as long as `comes_after` says."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[float] = []
        self.comes_after = SOON
        self.reading, self.writing = os.pipe()
        self._epoll = select.epoll()
        self.register(self.reading, select.EPOLLIN)

    def register(self, descriptor: int, mask: int) -> None:
        self._epoll.register(descriptor, mask)

    def poll(self, timeout: float = -1, maxevents: int = -1) -> Events:
        self.asked.append(timeout)
        if timeout:
            slept = self.comes_after if timeout < 0 else min(timeout, self.comes_after)
            self.now += slept
            if slept == self.comes_after:
                self.comes()
        return self._epoll.poll(0, maxevents)

    def comes(self) -> None:
        os.write(self.writing, b".")

    def taken(self) -> None:
        os.read(self.reading, 1)

    def close(self) -> None:
        self._epoll.close()
        os.close(self.reading)
        os.close(self.writing)


class IdlePollTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.epoll = Watched()
        self.addCleanup(self.epoll.close)
        self.looks = 0
        self.comes_at_look = 0
        self.poll = IdlePoll(self.epoll, LIMIT, lambda: self.epoll.now, self.let_others)

    def let_others(self) -> None:
        self.looks += 1
        self.epoll.now += LOOK
        if self.looks == self.comes_at_look:
            self.epoll.comes()

    def wait(self, timeout: float = -1) -> list[float]:
        """The timeouts that epoll was asked with during one wait, whose event is taken."""
        self.epoll.asked, self.looks = [], 0
        if self.poll.poll(timeout, 10):
            self.epoll.taken()
        return self.epoll.asked

    def get_used(self) -> None:
        """To events that come soon."""
        for _ in range(SHORT_WAITS):
            self.assertEqual(self.wait(), [-1])

    def test_it_sleeps_at_once_until_events_have_come_soon_for_a_while(self) -> None:
        self.get_used()
        self.comes_at_look = 3
        self.assertEqual((self.wait(), self.looks), ([0, 0, 0, 0], 3))
        self.assertEqual((self.wait(), self.looks), ([0, 0, 0, 0], 3), "used to it still")

    def test_the_event_is_the_epolls_own(self) -> None:
        self.get_used()
        self.comes_at_look = 1
        self.looks = 0
        self.assertEqual(self.poll.poll(-1, 10), [(self.epoll.reading, select.EPOLLIN)])

    def test_it_polls_no_longer_than_the_limit_and_then_sleeps_at_once(self) -> None:
        self.get_used()
        self.epoll.comes_after = LATE
        asked = self.wait(60)
        self.assertEqual((asked, self.looks), ([0] * (int(LIMIT / LOOK) + 1) + [60 - LIMIT], LIMIT / LOOK))
        self.assertEqual(self.wait(60), [60])
        self.epoll.comes_after = SOON
        self.get_used()

    def test_events_that_come_soon_now_and_then_are_slept_for(self) -> None:
        """A message each millisecond, and the slave's word of each soon after it."""
        for _ in range(3 * SHORT_WAITS):
            for self.epoll.comes_after in (SOON, LATE):
                self.assertEqual(self.wait(), [-1])

    def test_a_timer_that_is_due_is_no_event(self) -> None:
        self.get_used()
        self.assertEqual(self.wait(2 * LOOK), [0, 0, 0], "not a moment longer: it would be late")
        self.assertEqual(self.wait(), [-1])

    def test_a_reactor_that_has_work_is_told_at_once(self) -> None:
        self.get_used()
        self.assertEqual((self.wait(0), self.looks), ([0], 0))

    def test_what_is_there_costs_one_call(self) -> None:
        self.get_used()
        self.epoll.comes()
        self.assertEqual((self.wait(), self.looks), ([0], 0))


class IdlePollingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.told: list[str] = []
        globalLogPublisher.addObserver(self.hear)
        self.addCleanup(globalLogPublisher.removeObserver, self.hear)

    def hear(self, event: dict[str, Any]) -> None:
        if "idlePollMicros" in event.get("log_format", ""):
            self.told.append(event["reactor"])

    def a_reactor(self, kind: Callable[[], Any]) -> Any:
        """Beside the tests' own, without connections once the test ends."""
        reactor = kind()
        self.addCleanup(reactor.removeAll)
        return reactor

    def test_an_epoll_reactor_keeps_polling_while_the_service_runs(self) -> None:
        reactor = self.a_reactor(EPollReactor)
        slept = reactor._poller
        polling = IdlePolling(reactor, LIMIT)
        polling.startService()
        self.assertIsInstance(reactor._poller, IdlePoll)
        done: list[int] = []
        reactor.callFromThread(done.append, 1)
        for _ in range(2 * SHORT_WAITS):
            reactor.wakeUp()
            reactor.iterate(5)
        self.assertEqual(done, [1])
        polling.stopService()
        self.assertIs(reactor._poller, slept)
        self.assertEqual(self.told, [])

    def test_two_services_of_a_process_have_it_once(self) -> None:
        reactor = self.a_reactor(EPollReactor)
        slept = reactor._poller
        first, second = IdlePolling(reactor, LIMIT), IdlePolling(reactor, LIMIT)
        first.startService()
        polling = reactor._poller
        second.startService()
        second.stopService()
        self.assertIs(reactor._poller, polling)
        first.stopService()
        self.assertIs(reactor._poller, slept)
        self.assertEqual(self.told, [])

    def test_another_reactor_goes_on_and_the_log_says_why(self) -> None:
        reactor = self.a_reactor(SelectReactor)
        polling = IdlePolling(reactor, LIMIT)
        polling.startService()
        polling.stopService()
        self.assertEqual(self.told, ["SelectReactor"])

    def test_who_has_it(self) -> None:
        reactor = self.a_reactor(SelectReactor)
        self.assertEqual(len(list(idle_polling(reactor, BrokerConfig()))), 1)
        self.assertEqual(list(idle_polling(reactor, BrokerConfig(idle_poll_micros=0))), [])
        self.assertEqual(list(idle_polling(reactor, NamesrvConfig())), [])

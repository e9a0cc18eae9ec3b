"""What a supervisor is told, and when; `tests/system/tap/test_supervisor.py` has it listen on a real socket."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.task import Clock
from twisted.logger import Logger
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.tap.supervisor import STATUS_LENGTH, NotifySocket, Supervisor, watchdog_seconds

OWN = 4711


class SupervisorTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.told: list[str] = []
        self.log = Logger()

    def supervisor(self, watchdog: float | None = None) -> Supervisor:
        made = Supervisor(
            lambda datagram: self.told.append(datagram.decode()), self.clock, watchdog, lambda: 5_000_999
        )
        self.addCleanup(made.stopping)
        return made

    def new(self) -> list[str]:
        told, self.told = self.told, []
        return told

    def test_ready_only_once_the_reactor_runs(self) -> None:
        supervisor = self.supervisor()
        supervisor.starting()
        supervisor.started()
        self.assertEqual(self.new(), [])
        self.clock.advance(0)
        self.assertEqual(self.new(), ["READY=1"])
        self.assertEqual(self.clock.getDelayedCalls(), [], "nobody asks for signs of life")

    def test_who_stops_before_the_reactor_runs_never_was_ready(self) -> None:
        supervisor = self.supervisor()
        supervisor.starting()
        supervisor.started()
        supervisor.stopping()
        self.clock.advance(1)
        self.assertEqual(self.new(), ["STOPPING=1\nSTATUS=stopping"])

    def test_a_recovery_is_told_of_and_asks_for_time(self) -> None:
        supervisor = self.supervisor()
        supervisor.starting()
        self.log.info("recovering: {done} MiB", event="store.recovering", done=7)
        self.assertEqual(self.new(), ["STATUS=recovering: 7 MiB\nEXTEND_TIMEOUT_USEC=120000000"])
        supervisor.ready()
        self.log.info("level", event="slave.level")
        self.assertEqual(self.new(), ["READY=1", "STATUS=level"])

    def test_the_status_is_one_line_of_the_events_that_say_how_it_is(self) -> None:
        supervisor = self.supervisor()
        supervisor.starting()
        supervisor.ready()
        self.new()
        self.log.info("a connection", event="connection.closed")
        self.log.info("something else")
        self.log.warn("{what}", event="link.problem", what="a\nREADY=0\n" + "b" * 1000)
        (status,) = self.new()
        self.assertNotIn("\n", status)
        self.assertEqual(len(status), len("STATUS=") + STATUS_LENGTH)

    def test_signs_of_life_twice_in_the_time_and_none_after_the_stop(self) -> None:
        supervisor = self.supervisor(watchdog=30.0)
        supervisor.starting()
        supervisor.ready()
        self.assertEqual(self.new(), ["READY=1", "WATCHDOG=1"])
        self.clock.pump([15.0, 15.0])
        self.assertEqual(self.new(), ["WATCHDOG=1", "WATCHDOG=1"])
        supervisor.stopping()
        self.clock.advance(100)
        self.log.info("level", event="slave.level")
        self.assertEqual(self.new(), ["STOPPING=1\nSTATUS=stopping"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_reload_is_dated_and_ends_ready_with_one_watchdog(self) -> None:
        supervisor = self.supervisor(watchdog=30.0)
        supervisor.ready()
        self.new()
        supervisor.reloading()
        supervisor.ready()
        self.assertEqual(self.new(), ["RELOADING=1\nMONOTONIC_USEC=5000", "READY=1"])
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)

    def test_without_a_supervisor_there_is_nothing_to_do(self) -> None:
        supervisor = Supervisor(None, self.clock, 30.0, lambda: 0)
        steps: list[Callable[[], None]] = [supervisor.starting, supervisor.started, supervisor.ready]
        for step in (*steps, supervisor.reloading, supervisor.stopping):
            step()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_the_watchdog_of_another_process_isn_t_ours(self) -> None:
        for environ, seconds in (
            ({"WATCHDOG_USEC": "30000000"}, 30.0),
            ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(OWN)}, 30.0),
            ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
            ({"WATCHDOG_USEC": "0"}, None),
            ({"WATCHDOG_USEC": "soon"}, None),
            ({}, None),
        ):
            self.assertEqual(watchdog_seconds(environ, OWN), seconds, environ)

    def test_a_supervisor_that_has_gone_is_logged_once_and_keeps_nobody_from_serving(self) -> None:
        socket = NotifySocket(self.mktemp())
        with self.subTest("nobody there"):
            lines: list[str] = []
            self.patch(NotifySocket, "_log", Logger(observer=lambda event: lines.append(event["error"])))
            socket.send(b"READY=1")
            socket.send(b"WATCHDOG=1")
            self.assertEqual(lines, ["No such file or directory"])

"""`hatwisted up` without its processes: the order in which servers start and end, what is shown, which ports."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable, Mapping

from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster import newslave
from hatwisted.cli.errors import CannotRun
from hatwisted.cli.host import serverprocess
from hatwisted.cli.host import up as command
from hatwisted.cli.host.groupplan import Member, Ports, members
from hatwisted.cli.host.localgroup import (
    POLL,
    START_SECONDS,
    STOP_SECONDS,
    GroupParts,
    LocalGroup,
)
from hatwisted.cli.host.serverprocess import LINES, Lines
from hatwisted.cli.host.up import TerminalScreen, free_ports, interruptible, short_line

PORTS = Ports(9876, 10911, 10921)
PLAN = members("/group", PORTS, sync=True)


class FakeServer:
    """On the clock of its host: it listens and ends when it's told."""

    def __init__(self, host: Host, member: Member) -> None:
        self._host = host
        self._name = member.name
        self._since = host.now
        self.status: int | None = None

    @property
    def listens(self) -> bool:
        after = self._host.listen_after.get(self._name, 0.5)
        return self.status is None and self._host.now >= self._since + after

    def ended_with(self) -> int | None:
        ends = self._host.ends_at.get(self._name)
        if ends is not None and self._host.now >= ends:
            self.status = 3
        return self.status

    def terminate(self) -> None:
        self._host.done.append(f"terminate {self._name}")
        if self._name not in self._host.deaf:
            self.status = 0

    def kill(self) -> None:
        self._host.done.append(f"kill {self._name}")
        self.status = -9


class Host:
    """Its time passes while somebody waits for a line.

    - listen_after: seconds that a server takes until it listens
    - ends_at: when one ends by itself
    - deaf: who doesn't end when asked to
    - linked_at: from when on the master has a slave; None: never
    - lines: (when, who, what)
    - events: (when, what happens)
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.servers: dict[str, FakeServer] = {}
        self.words: list[str] = []
        self.listen_after: dict[str, float] = {}
        self.ends_at: dict[str, float] = {}
        self.deaf: set[str] = set()
        self.linked_at: float | None = 0.0
        self.lines: list[tuple[float, str, str]] = []
        self.events: list[tuple[float, Callable[[], object]]] = []
        self.done: list[str] = []

    def parts(self) -> GroupParts:
        return GroupParts(
            start=self.start,
            take=self.take,
            answers=self.answers,
            slaves=self.slaves,
            seconds=lambda: self.now,
        )

    def start(self, member: Member) -> FakeServer:
        self.done.append(f"start {member.name}")
        self.words += member.words
        self.servers[member.name] = FakeServer(self, member)
        return self.servers[member.name]

    def take(self, seconds: float) -> tuple[str, str] | None:
        if self.lines and self.lines[0][0] <= self.now:
            return self.lines.pop(0)[1:]
        self.now += seconds
        while self.events and self.events[0][0] <= self.now:
            self.events.pop(0)[1]()
        return None

    def answers(self, address: str) -> bool:
        (name,) = [each.name for each in PLAN if f"127.0.0.1:{each.port}" == address]
        return self.servers[name].listens

    def slaves(self, names: str, master: str) -> int:
        assert (names, master) == ("127.0.0.1:9876", "127.0.0.1:10911")
        return int(self.linked_at is not None and self.now >= self.linked_at)


class Notes:
    """A screen that keeps what it's given."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.told: list[str] = []
        self.ready: list[dict[str, str]] = []
        self.warnings: list[str] = []

    def said(self, name: str, line: str) -> None:
        self.lines.append((name, line))

    def tell(self, text: str, ready: Mapping[str, str]) -> None:
        self.told.append(text)
        if ready:
            self.ready.append(dict(ready))

    def warn(self, text: str) -> None:
        self.warnings.append(text)


STARTS = ["start names", "start master", "start slave"]
ENDS = ["terminate slave", "terminate master", "terminate names"]


class LocalGroupTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.host, self.screen = Host(), Notes()
        self.group = LocalGroup(PLAN, self.screen, self.host.parts())
        self.listening: list[str] = []

    def run_group(self) -> bool:
        return self.group.run(lambda: self.listening.extend(self.host.done))

    def interrupt_at(self, *seconds: float) -> None:
        self.host.events += [(each, self.group.interrupt) for each in seconds]

    def test_each_starts_once_the_one_before_answers_and_they_end_in_reverse(self) -> None:
        self.host.listen_after = {"names": 10.0, "master": 20.0, "slave": 5.0}
        begun: dict[str, float] = {}
        start = self.host.start

        def noted(member: Member) -> FakeServer:
            begun[member.name] = self.host.now
            return start(member)

        self.host.start = noted  # type: ignore[method-assign]
        self.group = LocalGroup(PLAN, self.screen, self.host.parts())
        self.interrupt_at(50.0)
        self.assertFalse(self.run_group())
        self.assertEqual(self.host.done, STARTS + ENDS)
        self.assertEqual(self.listening, STARTS, "the ports may be chosen by others from here on")
        self.assertApproximates(begun["master"], 10.0, 2 * POLL)
        self.assertApproximates(begun["slave"], 30.0, 4 * POLL)
        self.assertEqual(
            self.screen.ready,
            [{"names": "127.0.0.1:9876", "master": "127.0.0.1:10911", "slave": "127.0.0.1:10921"}],
        )

    def test_ready_is_said_once_the_master_has_its_slave(self) -> None:
        self.host.linked_at = 30.0
        self.interrupt_at(29.0)
        self.run_group()
        self.assertEqual(self.screen.told, [])
        self.setUp()
        self.host.linked_at = 30.0
        self.interrupt_at(31.0)
        self.run_group()
        (told,) = self.screen.told
        self.assertIn("export NAMESRV_ADDR=127.0.0.1:9876\n", told)

    def test_one_that_ends_while_it_starts(self) -> None:
        self.host.listen_after = {"master": 1e9}
        self.host.ends_at = {"master": 2.0}
        self.host.lines = [(2.1, "master", "no room")]
        self.assertEqual(str(self.assertRaises(CannotRun, self.run_group)), "master didn't start: see above")
        self.assertEqual(self.host.done, ["start names", "start master", "terminate names"])
        self.assertEqual(self.screen.lines, [("master", "no room")])
        self.assertEqual(self.listening, [])

    def test_one_that_never_answers(self) -> None:
        self.host.listen_after = {"slave": 1e9}
        self.assertRaises(CannotRun, self.run_group)
        self.assertEqual(self.host.done, STARTS + ENDS)
        self.assertApproximates(self.host.now, START_SECONDS, 3.0)

    def test_a_slave_that_never_copies_is_no_group_that_is_ready(self) -> None:
        self.host.linked_at = None
        error = self.assertRaises(CannotRun, self.run_group)
        self.assertEqual(str(error), "slave doesn't copy from its master after 60 s: see above")
        self.assertEqual((self.host.done, self.screen.told), (STARTS + ENDS, []))

    def test_a_slave_that_ends_before_it_copies_isnt_waited_for(self) -> None:
        self.host.linked_at = None
        self.host.ends_at = {"slave": 5.0}
        self.assertTrue(self.run_group())
        self.assertEqual(self.screen.told, ["slave has ended with 3; ending the others"])
        self.assertLess(self.host.now, START_SECONDS)

    def test_one_that_ends_by_itself_takes_the_others_along(self) -> None:
        self.host.ends_at = {"master": 20.0}
        self.assertTrue(self.run_group())
        self.assertEqual(self.screen.told[1:], ["master has ended with 3; ending the others"])
        self.assertEqual(self.host.done, [*STARTS, "terminate slave", "terminate names"])

    def test_an_interrupt_while_they_start_starts_no_more(self) -> None:
        self.host.listen_after = {"names": 10.0}
        self.interrupt_at(5.0)
        self.assertFalse(self.run_group())
        self.assertEqual(self.host.done, ["start names", "terminate names"])
        self.assertLess(self.host.now, 6.0)
        self.assertEqual(self.screen.told, [])

    def test_one_that_doesnt_end_is_killed_when_its_time_is_over(self) -> None:
        self.host.deaf = {"slave"}
        self.interrupt_at(10.0)
        self.run_group()
        self.assertEqual(self.host.done[3:], ["terminate slave", "kill slave", *ENDS[1:]])
        self.assertEqual(self.screen.warnings, ["slave: killed; its next start recovers its store"])
        self.assertApproximates(self.host.now, 10.0 + STOP_SECONDS, 6 * POLL)

    def test_or_at_the_second_interrupt(self) -> None:
        self.host.deaf = {"slave", "master"}
        self.interrupt_at(10.0, 11.0)
        self.run_group()
        self.assertEqual([each for each in self.host.done if "kill" in each], ["kill slave", "kill master"])
        self.assertLess(self.host.now, 10.0 + STOP_SECONDS / 2)

    def test_what_they_say_is_shown_until_the_end(self) -> None:
        self.host.lines = [(0.0, "names", "one"), (5.0, "slave", "two"), (10.1, "master", "three")]
        self.interrupt_at(10.0)
        self.run_group()
        self.assertEqual(self.screen.lines, [("names", "one"), ("slave", "two"), ("master", "three")])


class PlanTests(SynchronousTestCase):
    def test_what_each_server_is_told(self) -> None:
        names, master, slave = (set(each.words) for each in PLAN)
        self.assertLessEqual({"hanamesrv", "--set=listenPort=9876", "--set=bindAddress=127.0.0.1"}, names)
        for each in (master, slave):
            self.assertLessEqual({"--set=namesrvAddr=127.0.0.1:9876", "--set=brokerName=broker-a"}, each)
        self.assertLessEqual({"--set=brokerRole=SYNC_MASTER", "--set=storePathRootDir=/group/master"}, master)
        self.assertLessEqual({"haslave", "--set=storePathRootDir=/group/slave"}, slave)
        (_, other, _) = members("/group", PORTS, sync=False)
        self.assertIn("--set=brokerRole=ASYNC_MASTER", other.words)

    def test_the_usual_ports_if_they_are_free(self) -> None:
        self.assertEqual(free_ports(lambda port: True), Ports(9876, 10911, 10921))

    def test_else_the_next_whose_neighbours_are_free_too(self) -> None:
        taken = {9876, 9877, 10912, 10929}
        self.assertEqual(free_ports(lambda port: port not in taken), Ports(9878, 10921, 10941))

    def test_no_port_is_said_in_a_line(self) -> None:
        error = self.assertRaises(CannotRun, free_ports, lambda port: port > 9999)
        self.assertEqual(str(error), "no free port for the name server from 9876 to 9975")
        error = self.assertRaises(CannotRun, free_ports, lambda port: port < 9999)
        self.assertIn("no free listenPort from 10911 to 11911: stop what listens there", str(error))


class ScreenTests(SynchronousTestCase):
    def shown(self, *, quiet: bool = False, as_json: bool = False) -> tuple[str, str]:
        screen = TerminalScreen(quiet, as_json)
        with CliRunner().isolation() as (out, err, _):
            screen.said("slave", "a \x1b[2Jb")
            screen.tell("ready", {"names": "h:1"})
            screen.tell("ended", {})
            screen.warn("killed")
            return out.getvalue().decode(), err.getvalue().decode()

    def test_lines_for_people(self) -> None:
        out, err = self.shown()
        self.assertEqual(out, "slave  | a \\x1b[2Jb\nready\nended\n")
        self.assertEqual(err, "killed\n")

    def test_a_line_as_it_is_watched(self) -> None:
        logged = "2026-11-23T12:17:21+0000 [hatwisted.ha.slave.HAClientService#{}] link lost [at 3]"
        for line, shown in (
            (logged.format("info"), "12:17:21 link lost [at 3]"),
            (logged.format("warn"), "12:17:21 ! link lost [at 3]"),
            (logged.format("critical"), "12:17:21 ! link lost [at 3]"),
            ("2026-11-23T12:17:21+0100 [-] Unhandled Error", "12:17:21 Unhandled Error"),
            ("\tTraceback (most recent call last):", "\tTraceback (most recent call last):"),
        ):
            self.assertEqual(short_line(line), shown)

    def test_what_twisted_says_of_itself_is_for_the_file(self) -> None:
        """That a port is open says `ready`; by the name of a class it says nothing to who tries it out."""
        for source, text in (
            (
                "twisted.scripts._twistd_unix.UnixAppLogger#info",
                "twistd 26.10.0 (/bin/python 3.11.7) starting up.",
            ),
            (
                "twisted.scripts._twistd_unix.UnixAppLogger#info",
                "reactor class: twisted.internet.epollreactor.E.",
            ),
            ("-", "NewcomerGuard starting on 10911"),
            ("-", "(TCP Port 9876 Closed)"),
            ("-", "Main loop terminated."),
        ):
            line = f"2026-11-23T12:17:21+0100 [{source}] {text}"
            self.assertIsNone(short_line(line))
            for short, shown in ((True, ""), (False, f"slave  | {line}\n")):
                with CliRunner().isolation() as (out, _, _):
                    TerminalScreen(False, False, short).said("slave", line)
                    self.assertEqual(out.getvalue().decode(), shown)

    def test_a_terminal_has_short_lines_and_a_file_whole_ones(self) -> None:
        line = "2026-11-23T12:17:21+0000 [a.B#info] ready"
        for short, shown in ((True, "slave  | 12:17:21 ready\n"), (None, f"slave  | {line}\n")):
            with CliRunner().isolation() as (out, _, _):
                TerminalScreen(False, False, short).said("slave", line)
                self.assertEqual(out.getvalue().decode(), shown)

    def test_quiet(self) -> None:
        self.assertEqual(self.shown(quiet=True)[0], "ready\nended\n")

    def test_objects_for_programs(self) -> None:
        told = [json.loads(line) for line in self.shown(as_json=True)[0].splitlines()]
        expected = [
            {"from": "slave", "text": "a \x1b[2Jb"},
            {"from": "up", "text": "ready", "ready": {"names": "h:1"}},
            {"from": "up", "text": "ended"},
        ]
        self.assertEqual(told, expected)


class CommandTests(SynchronousTestCase):
    """The command around the group."""

    def setUp(self) -> None:
        self.host = Host()
        self.patch(command, "free_ports", lambda: PORTS)
        self.patch(command, "process_parts", lambda folder: self.host.parts())

    def run_up(self, *words: str) -> tuple[int, str]:
        done = CliRunner().invoke(command.up, words)
        return done.exit_code, done.output

    def test_a_folder_in_use_is_refused_before_anything_starts(self) -> None:
        self.patch(command, "store_holder", lambda root: 4711 if root.endswith("/slave") else None)
        code, said = self.run_up("--dir", self.mktemp())
        self.assertEqual((code, self.host.done), (2, []))
        self.assertIn("is in use by process 4711: end the group that runs there, or give another --dir", said)

    def test_ended_by_ctrl_c(self) -> None:
        self.host.events = [(10.0, lambda: signal.raise_signal(signal.SIGINT))]
        code, said = self.run_up("--dir", folder := self.mktemp())
        self.assertEqual(code, 0)
        self.assertIn(
            "ready: name server 127.0.0.1:9876, master 127.0.0.1:10911, slave 127.0.0.1:10921", said
        )
        self.assertEqual(self.host.done, STARTS + ENDS)
        self.assertIn("--set=brokerRole=SYNC_MASTER", self.host.words)
        self.assertTrue(os.path.isdir(folder))

    def test_a_server_that_ended_is_a_problem(self) -> None:
        self.host.ends_at = {"names": 10.0}
        code, said = self.run_up("--dir", self.mktemp(), "--async")
        self.assertEqual(code, 1)
        self.assertIn("names has ended with 3; ending the others", said)
        self.assertIn("--set=brokerRole=ASYNC_MASTER", self.host.words)

    def test_a_folder_that_cant_be_made(self) -> None:
        taken = self.mktemp()
        with open(taken, "w"):
            pass
        code, said = self.run_up("--dir", f"{taken}/below")
        self.assertEqual(code, 2)
        self.assertIn(f"{taken}/below: can't be made: Not a directory", said)
        self.assertEqual(self.host.done, [])

    def test_signals_are_the_programs_again_afterwards(self) -> None:
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = [signal.getsignal(number) for number in numbers]
        caught: list[int] = []
        with interruptible(lambda: caught.append(1)):
            for number in numbers:
                signal.raise_signal(number)
        self.assertEqual(len(caught), 3)
        self.assertEqual([signal.getsignal(number) for number in numbers], before)

    def test_the_choice_of_ports_is_locked_until_they_are_taken(self) -> None:
        held: list[int] = []
        self.patch(newslave.fcntl, "flock", lambda lock, how: held.append(lock))
        self.host.ends_at = {"master": 10.0}
        free_at: list[float] = []

        def look() -> None:
            with contextlib.suppress(OSError):
                os.fstat(held[0])
                return
            free_at.append(self.host.now)

        self.host.events = [(at, look) for at in (0.3, 0.9, 9.0)]
        self.run_up("--dir", self.mktemp())
        self.assertEqual(len(held), 1)
        self.assertApproximates(min(free_at), 9.0, 2 * POLL, "by then all three listen, and run")

    def test_without_a_place_for_the_lock_it_goes_on(self) -> None:
        self.patch(newslave.tempfile, "gettempdir", lambda: "/nowhere")
        with newslave.port_lock(self.fail):
            pass

    def test_what_is_waited_for_is_told_and_not_forever(self) -> None:
        folder = self.mktemp()
        os.mkdir(folder)
        self.patch(newslave.tempfile, "gettempdir", lambda: folder)
        self.patch(newslave, "MOMENT", 0.0)
        self.patch(newslave, "LOCK_PATIENCE", 0.15)
        told: list[str] = []
        with newslave.port_lock(self.fail):
            error = self.assertRaises(CannotRun, newslave.port_lock(told.append).__enter__)
        self.assertIn("end that one first", str(error))
        self.assertEqual(len(told), 1)
        with newslave.port_lock(self.fail):
            pass


class LinesTests(SynchronousTestCase):
    def test_lines_come_in_their_order_with_their_names(self) -> None:
        lines = Lines()
        lines.read("names", ["one\n", "two\n"])
        lines.read("slave", ["three"])
        self.assertEqual(
            [lines.take(0.0) for _ in range(4)],
            [("names", "one"), ("names", "two"), ("slave", "three"), None],
        )

    def test_a_server_that_says_more_waits(self) -> None:
        self.assertGreater(LINES, 100)
        self.patch(serverprocess, "LINES", 3)
        lines, said = Lines(), [f"{number}\n" for number in range(10)]
        reader = threading.Thread(target=lines.read, args=("master", said), daemon=True)
        reader.start()
        reader.join(0.1)
        self.assertTrue(reader.is_alive(), "nobody has taken one")
        taken = [lines.take(60) for _ in said]
        reader.join(60)
        self.assertEqual(taken, [("master", str(number)) for number in range(10)])
        self.assertFalse(reader.is_alive())
